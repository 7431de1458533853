"""Notifications of Ray's GCS about ended worker processes and machines.

An optional source in addition to heartbeats: while the GCS is down, or if Ray changed its messages, there are
no notifications. When the GCS returns, processes that ended meanwhile are queried. Ray has no public API for
this; a pending call to an actor fails only one to two seconds after the end of its process, by a timer. So
this reads the GCS channels of ended workers and machines, as Ray's own processes do, with the messages of the
one supported Ray version. Source: Ray gcs_pubsub.py, pubsub.proto, gcs_service.proto.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any

import grpc
from ray._private.gcs_utils import create_gcs_channel
from ray.core.generated import gcs_pb2, gcs_service_pb2, gcs_service_pb2_grpc, pubsub_pb2

from .incarnation import Deaths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

log = logging.getLogger("headrace.host")

SUBSCRIBER_ID_BYTES = 28
ASK_TIMEOUT_S = 10.0
# A restarted GCS has lost the subscription and does not report that: after each poll without messages the
# subscription is repeated, which an unchanged GCS ignores.
POLL_TIMEOUT_S = 10.0
RETRY_S = 1.0
MAX_PAST = 10_000  # Bound: workers, and ended machines, per query
_CHANNELS = (pubsub_pb2.GCS_WORKER_DELTA_CHANNEL, pubsub_pb2.GCS_NODE_INFO_CHANNEL)


class DeathWatch:
    """Calls `on_deaths` on a thread of its own. Exceptions of the callback are logged, and watching
    continues."""

    def __init__(self, gcs_address: str, on_deaths: Callable[[Deaths], None]) -> None:
        self._gcs_address, self._on_deaths = gcs_address, on_deaths
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="death-watch", daemon=True)

    def start(self) -> None:
        """Start the thread; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; `on_deaths` may still be called for messages in progress."""
        self._is_over.set()

    def join(self) -> None:
        """Wait for the end of the thread; `on_deaths` is not called afterwards."""
        self._thread.join()

    def _run(self) -> None:
        channel = create_gcs_channel(self._gcs_address)
        subscription = _Subscription(gcs_service_pb2_grpc.ControlPlanePubSubGcsServiceStub(channel))
        knows_past = False
        while not self._is_over.is_set():
            try:
                subscription.begin()
                # Order: processes that end from here on are reported; those that ended before are queried.
                if not knows_past:
                    if past := _past(channel):
                        self._on_deaths(past)
                    log.info("subscribed to notifications of Ray's GCS about ended processes")
                knows_past = True
                while deaths := deaths_in(subscription.poll()):
                    self._on_deaths(deaths)
            except grpc.RpcError as error:
                level = logging.WARNING if knows_past else logging.DEBUG  # once per outage
                log.log(level, "no notifications of Ray's GCS about ended processes: %r", error)
                knows_past = False
                self._is_over.wait(RETRY_S)
            except Exception:
                log.exception("handling a notification of ended processes failed")
                self._is_over.wait(RETRY_S)
        channel.close()


class _Subscription:
    """One GCS subscriber for all channels."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub
        self._id = os.urandom(SUBSCRIBER_ID_BYTES)
        self._publisher_id = b""
        self._last_sequence_id = 0

    def begin(self) -> None:
        """Subscribe; idempotent. Errors: grpc.RpcError."""
        commands = [pubsub_pb2.Command(channel_type=each, subscribe_message={}) for each in _CHANNELS]
        request = gcs_service_pb2.GcsSubscriberCommandBatchRequest(subscriber_id=self._id, commands=commands)
        self._stub.GcsSubscriberCommandBatch(request, timeout=ASK_TIMEOUT_S)

    def poll(self) -> list[Any]:
        """Wait for the next messages; empty after a while without any. Errors: grpc.RpcError."""
        request = gcs_service_pb2.GcsSubscriberPollRequest(
            subscriber_id=self._id,
            max_processed_sequence_id=self._last_sequence_id,
            publisher_id=self._publisher_id,
        )
        try:
            reply = self._stub.GcsSubscriberPoll(request, timeout=POLL_TIMEOUT_S)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                return []
            raise
        # another GCS instance, which starts its sequence numbers from the beginning
        if reply.publisher_id != self._publisher_id:
            self._publisher_id, self._last_sequence_id = reply.publisher_id, 0
        fresh = [each for each in reply.pub_messages if each.sequence_id > self._last_sequence_id]
        self._last_sequence_id = max((each.sequence_id for each in fresh), default=self._last_sequence_id)
        return fresh


def _past(channel: Any) -> Deaths:
    """Ended processes and machines that the GCS remembers. Errors: grpc.RpcError."""
    # Order: filtered here. The GCS knows no filter for ended workers: it reads `is_alive=False` as no filter.
    of_workers = gcs_service_pb2.GetAllWorkerInfoRequest(limit=MAX_PAST)
    of_machines = gcs_service_pb2.GetAllNodeInfoRequest(limit=MAX_PAST, state_filter=gcs_pb2.GcsNodeInfo.DEAD)
    workers = gcs_service_pb2_grpc.WorkerInfoGcsServiceStub(channel)
    machines = gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel)
    processes = workers.GetAllWorkerInfo(of_workers, timeout=ASK_TIMEOUT_S).worker_table_data
    nodes = machines.GetAllNodeInfo(of_machines, timeout=ASK_TIMEOUT_S).node_info_list
    return Deaths.of(
        machines={each.node_id for each in nodes},
        processes={each.worker_address.worker_id for each in processes if not each.is_alive},
    )


def deaths_in(messages: Iterable[Any]) -> Deaths:
    """The ended processes and machines in Ray's messages (pubsub_pb2.PubMessage)."""
    machines, processes = set(), set()
    for message in messages:
        if message.channel_type == pubsub_pb2.GCS_WORKER_DELTA_CHANNEL:
            processes.add(message.key_id)
        elif message.node_info_message.state == gcs_pb2.GcsNodeInfo.DEAD:
            machines.add(message.key_id)
    return Deaths.of(machines=machines, processes=processes)
