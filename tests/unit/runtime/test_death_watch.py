"""Notices of Ray's GCS about ended workers and machines, through a stub with the same responses."""

import threading
from typing import Any

import grpc
import pytest
from headrace.runtime import death_watch_actor
from headrace.runtime.death_watch_actor import DeathWatch, _Subscription, deaths_in
from headrace.runtime.incarnation import Deaths, incarnation_of
from ray.core.generated import gcs_pb2, gcs_service_pb2, pubsub_pb2


class GcsError(grpc.RpcError):
    """As grpc raises it."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code


SILENCE = GcsError(grpc.StatusCode.DEADLINE_EXCEEDED)
AWAY = GcsError(grpc.StatusCode.UNAVAILABLE)


def worker_gone(sequence_id: int, worker_id: bytes) -> Any:
    return pubsub_pb2.PubMessage(
        channel_type=pubsub_pb2.GCS_WORKER_DELTA_CHANNEL,
        key_id=worker_id,
        sequence_id=sequence_id,
        worker_delta_message=gcs_pb2.WorkerDeltaData(worker_id=worker_id),
    )


def machine(sequence_id: int, node_id: bytes, state: int) -> Any:
    return pubsub_pb2.PubMessage(
        channel_type=pubsub_pb2.GCS_NODE_INFO_CHANNEL,
        key_id=node_id,
        sequence_id=sequence_id,
        node_info_message=gcs_pb2.GcsNodeInfo(node_id=node_id, state=state),
    )


def reply(publisher: bytes, *messages: Any) -> Any:
    return gcs_service_pb2.GcsSubscriberPollReply(publisher_id=publisher, pub_messages=messages)


class Stub:
    """Gives or raises one answer to a poll after the other, then waits for the end."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.polls: list[Any] = []
        self.subscribed: list[list[int]] = []
        self.is_empty = threading.Event()

    def GcsSubscriberCommandBatch(self, request: Any, timeout: float) -> None:
        assert timeout > 0
        self.subscribed.append([command.channel_type for command in request.commands])

    def GcsSubscriberPoll(self, request: Any, timeout: float) -> Any:
        assert timeout > 0
        self.polls.append(request)
        if not self.answers:
            self.is_empty.set()
            raise SILENCE
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Tables:
    """The ended workers at each query, beside one that runs, and the ended machines."""

    def __init__(self, workers: list[list[bytes]], machines: list[bytes]) -> None:
        self.workers, self.machines = workers, machines

    def GetAllWorkerInfo(self, request: Any, timeout: float) -> Any:
        assert timeout > 0
        ended = dict.fromkeys(self.workers.pop(0), False)
        rows = [
            {"worker_address": {"worker_id": each}, "is_alive": is_alive}
            for each, is_alive in {**ended, b"runs": True}.items()
            if is_alive or not request.filters.is_alive  # as Ray 2.60: False is no filter
        ]
        return gcs_service_pb2.GetAllWorkerInfoReply(worker_table_data=rows)

    def GetAllNodeInfo(self, request: Any, timeout: float) -> Any:
        assert timeout > 0
        assert request.state_filter == gcs_pb2.GcsNodeInfo.DEAD
        rows = [{"node_id": each} for each in self.machines]
        return gcs_service_pb2.GetAllNodeInfoReply(node_info_list=rows)


class Channel:
    """A subscription without a receiver."""

    def close(self) -> None: ...


def test_ended_workers_and_machines_are_distinguished() -> None:
    """A machine that joins is ignored."""
    messages = [
        worker_gone(1, b"w" * 28),
        machine(2, b"m" * 28, gcs_pb2.GcsNodeInfo.DEAD),
        machine(3, b"n" * 28, gcs_pb2.GcsNodeInfo.ALIVE),
    ]
    deaths = deaths_in(messages)
    assert deaths == Deaths.of(machines={b"m" * 28}, processes={b"w" * 28})
    assert deaths.covers(incarnation_of(b"x" * 28, b"w" * 28))
    assert deaths.covers(incarnation_of(b"m" * 28, b"x" * 28))
    assert not deaths.covers(incarnation_of(b"n" * 28, b"x" * 28))
    assert not deaths_in([])


def test_each_message_counts_once_per_gcs() -> None:
    """A repeated message is ignored, and a restarted GCS numbers from the start."""
    stub = Stub(
        reply(b"one", worker_gone(1, b"a"), worker_gone(2, b"b")),
        reply(b"one", worker_gone(2, b"b"), worker_gone(3, b"c")),
        SILENCE,
        reply(b"two", worker_gone(1, b"d")),
    )
    subscription = _Subscription(stub)
    found = [[message.key_id for message in subscription.poll()] for _ in range(4)]
    assert found == [[b"a", b"b"], [b"c"], [], [b"d"]]
    asked = [(poll.publisher_id, poll.max_processed_sequence_id) for poll in stub.polls]
    assert asked == [(b"", 0), (b"one", 2), (b"one", 3), (b"one", 3)]


def test_subscription_is_renewed_after_silence_or_a_gcs_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restarted GCS does not know its subscribers, but knows the processes that ended meanwhile; an
    exception of the listener stops nothing."""
    past = Tables([[], [b"meanwhile"], [b"meanwhile"]], [])
    stub = Stub(reply(b"one", worker_gone(1, b"a")), SILENCE, AWAY, reply(b"two", worker_gone(1, b"b")))
    monkeypatch.setattr(death_watch_actor, "RETRY_S", 0.0)
    monkeypatch.setattr(death_watch_actor, "create_gcs_channel", lambda _: Channel())
    stubs = death_watch_actor.gcs_service_pb2_grpc
    monkeypatch.setattr(stubs, "ControlPlanePubSubGcsServiceStub", lambda _: stub)
    monkeypatch.setattr(stubs, "WorkerInfoGcsServiceStub", lambda _: past)
    monkeypatch.setattr(stubs, "NodeInfoGcsServiceStub", lambda _: past)
    received: list[Deaths] = []
    faults = iter([ValueError("not of use"), ValueError("not of use")])

    def on_deaths(deaths: Deaths) -> None:
        received.append(deaths)
        if fault := next(faults, None):
            raise fault

    watch = DeathWatch("gcs:1", on_deaths)
    watch.start()
    assert stub.is_empty.wait(60)
    watch.stop()
    watch.join()
    named = [b"a", b"meanwhile", b"meanwhile", b"b"]  # again, because it could not be used
    assert received == [Deaths.of(processes={each}) for each in named]
    channels = [pubsub_pb2.GCS_WORKER_DELTA_CHANNEL, pubsub_pb2.GCS_NODE_INFO_CHANNEL]
    assert stub.subscribed[:4] == [channels] * 4
