"""A scripted controller with real sockets: metadata records in a list, no decisions."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from headrace.protocol.errors import KafkaError
from headrace.protocol.messages import control, registry
from headrace.protocol.messages.quorum import DescribeQuorumResponse
from headrace.protocol.metadata.image import TOPIC_RESOURCE, MetadataImage
from headrace.protocol.metadata.records import (
    ConfigRecord,
    FormatRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)
from headrace.protocol.metadata.replay import image_records, replay
from headrace.protocol.transport.router_io import Request, Router, RouterLimits, ServerIdentity
from headrace.runtime.ports_io import reserve_ports

APIS = (registry.BROKER_REGISTRATION, registry.BROKER_HEARTBEAT, registry.FETCH_METADATA, *registry.FORWARDED)
CLUSTER_ID = "fake-cluster"


class FakeController:
    """`refuse_registration`, `refuse_heartbeat` and `is_silent` are set by tests."""

    def __init__(self, cluster_id: str = CLUSTER_ID) -> None:
        self.cluster_id = cluster_id
        self.records: list[Any] = [FormatRecord(cluster_id)]
        self.registrations: list[control.BrokerRegistrationRequest] = []
        self.heartbeats: list[control.BrokerHeartbeatRequest] = []
        self.epochs: dict[int, int] = {}
        self.refuse_registration: KafkaError | None = None
        self.refuse_heartbeat: KafkaError | None = None
        self.is_silent = False
        self.has_slow_log = False  # heartbeats are counted and not answered
        self.quorum = DescribeQuorumResponse(
            0, leader_id=9_000
        )  # the active controller, unless the test sets another one
        self.sends_snapshots = False
        self.on_admin: Callable[[Request], None] | None = None
        self._waiting: list[tuple[Request, asyncio.TimerHandle]] = []
        self._identity = ServerIdentity(cluster_id, 9_000, 1)
        (port,) = reserve_ports(1)  # for `restart`
        self.router = Router("127.0.0.1", port, self._on_request, APIS, self._identity, RouterLimits())

    # --- start and stop -----------------------------------------------------------------------------------

    def start(self) -> int:
        return self.router.start()

    def restart(self) -> int:
        """Listen on the same port with the same records, as after a crash."""
        self.close()
        self.router = Router(
            "127.0.0.1", self.router.port, self._on_request, APIS, self._identity, RouterLimits()
        )
        return self.router.start()

    def close(self) -> None:
        for _, timer in self._waiting:
            timer.cancel()
        self._waiting.clear()
        self.router.close()

    async def locate(self) -> tuple[str, int]:
        return "127.0.0.1", self.router.port

    # --- the metadata log ---------------------------------------------------------------------------------

    def append(self, *records: Any) -> int:
        """Append records and answer pending fetches; returns the offset of the last."""
        self.records += records
        waiting, self._waiting = self._waiting, []
        for request, timer in waiting:
            timer.cancel()
            self._answer_fetch(request)
        return len(self.records) - 1

    def create_topic(
        self, name: str, partitions: int = 1, node_id: int = 1, configs: dict[str, str] | None = None
    ) -> bytes:
        topic_id = uuid.uuid4().bytes
        made = [
            PartitionRecord(topic_id, index, (node_id,), (node_id,), node_id, 0, 0)
            for index in range(partitions)
        ]
        values = [
            ConfigRecord(TOPIC_RESOURCE, name, key, value) for key, value in sorted((configs or {}).items())
        ]
        self.append(TopicRecord(name, topic_id), *values, *made)
        return topic_id

    def delete_topic(self, topic_id: bytes) -> None:
        self.append(RemoveTopicRecord(topic_id))

    def set_leader(self, topic_id: bytes, leader: int, partition: int = 0) -> None:
        """Set the partition's leader in a new leader epoch."""
        self.append(PartitionChangeRecord(topic_id, partition, leader=leader))

    # --- requests -----------------------------------------------------------------------------------------

    def _on_request(self, request: Request) -> None:
        if self.is_silent:
            self.router.no_reply(request)
        elif request.api.key == registry.DESCRIBE_QUORUM.key:
            self.router.reply(request, self.quorum)
        elif request.api.key == registry.BROKER_REGISTRATION.key:
            self.router.reply(request, self._register(request.body))
        elif request.api.key == registry.BROKER_HEARTBEAT.key:
            answer = self._beat(request.body)
            if self.has_slow_log:
                self.router.no_reply(request)
            else:
                self.router.reply(request, answer)
        elif request.api.key == registry.FETCH_METADATA.key:
            self._fetch(request)
        elif self.on_admin is not None:
            self.on_admin(request)
        elif request.api.key == registry.CREATE_TOPICS.key:
            self.router.reply(request, self._create_topics(request.body))
        else:
            self.router.no_reply(request)

    def _register(self, body: control.BrokerRegistrationRequest) -> control.BrokerRegistrationResponse:
        self.registrations.append(body)
        if self.refuse_registration is not None:
            return control.BrokerRegistrationResponse(
                self.refuse_registration.code, self.refuse_registration.detail
            )
        node_id = body.node_id if body.node_id >= 0 else 1001
        epoch = len(self.records)
        self.epochs[node_id] = epoch
        self.append(
            RegisterBrokerRecord(
                node_id, body.incarnation_id, body.host, body.port, body.rack, body.log_dir_ids, epoch
            )
        )
        return control.BrokerRegistrationResponse(0, "", node_id, epoch, self.cluster_id, 50, 1_500)

    def _beat(self, body: control.BrokerHeartbeatRequest) -> control.BrokerHeartbeatResponse:
        self.heartbeats.append(body)
        if self.refuse_heartbeat is not None:
            error, self.refuse_heartbeat = self.refuse_heartbeat, None
            return control.BrokerHeartbeatResponse(error.code, error.detail)
        if body.metadata_offset < body.broker_epoch:
            return control.BrokerHeartbeatResponse(0)
        image = self.image()
        if image.brokers[body.node_id].is_fenced and not body.want_shutdown:
            self.append(UnfenceBrokerRecord(body.node_id, body.broker_epoch))
        return control.BrokerHeartbeatResponse(0, "", False, body.want_shutdown)

    def image(self) -> MetadataImage:
        return replay(MetadataImage(), 0, self.records)[0]

    def _fetch(self, request: Request) -> None:
        if request.body.offset + 1 < len(self.records):
            self._answer_fetch(request)
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(request.body.max_wait_ms / 1000, self._expire, request)
        self._waiting.append((request, timer))

    def _expire(self, request: Request) -> None:
        self._waiting = [item for item in self._waiting if item[0] is not request]
        self._answer_fetch(request)

    def _answer_fetch(self, request: Request) -> None:
        start, end = request.body.offset + 1, len(self.records)
        if self.sends_snapshots and start < end:
            records = tuple(image_records(self.image()))
            body = control.FetchMetadataResponse(0, "", is_snapshot=True, end_offset=end, records=records)
        else:
            body = control.FetchMetadataResponse(
                0, "", base_offset=start, end_offset=end, records=tuple(self.records[start:])
            )
        self.router.reply(request, body)

    def _create_topics(self, body: control.CreateTopicsRequest) -> control.CreateTopicsResponse:
        made = []
        for topic in body.topics:
            topic_id = self.create_topic(
                topic.name, max(topic.num_partitions, 1), min(self.epochs, default=1)
            )
            made.append(
                control.CreatedTopic(topic.name, topic_id=topic_id, num_partitions=1, replication_factor=1)
            )
        return control.CreateTopicsResponse(tuple(made), len(self.records) - 1)
