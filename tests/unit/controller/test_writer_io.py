"""The decision writer: groups, order, bounds, ticks, and resignation; log, quorum and sockets are fakes."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from headrace.controller import writer_io
from headrace.controller.state.decision import Decision
from headrace.controller.state.node_notes import NodeNotes
from headrace.controller.writer_io import MAX_GROUP, MAX_UNDECIDED, DecisionWriter
from headrace.protocol.errors import (
    InvalidRequestError,
    NotControllerError,
    RequestTimedOutError,
    ThrottlingQuotaExceededError,
)
from headrace.protocol.messages.control import BrokerHeartbeatRequest
from headrace.protocol.metadata.records import FormatRecord, NoOpRecord
from headrace.runtime.clock_io import monotonic_ms


@pytest.fixture(autouse=True)
def _a_group_may_take_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not split the groups whose order is tested."""
    monkeypatch.setattr(writer_io, "MAX_GROUP_MS", 600_000)


class Image(NamedTuple):
    """The part of an image that the writer reads."""

    offset: int = -1
    cluster_id: str = "c"
    brokers: Mapping[int, Any] = MappingProxyType(
        {node_id: SimpleNamespace(broker_epoch=7) for node_id in (1, 2)}
    )


@dataclass
class Request:
    """A request; its body says what the core does with it."""

    body: str


@dataclass
class World:
    """Core, log, quorum, feed and router in one: all events are recorded in order."""

    events: list[str] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    expiring: int = 0
    image: Any = field(default_factory=Image)
    decided: Any = field(default_factory=Image)
    end_offset: int = 0
    high_watermark: int = 0
    is_committing: bool = True  # at once, as with a single voter
    pending_response_bytes: int = 0
    writer: Any = None

    def core(self, image: Any) -> Any:
        self.decided = image
        return Core(self)

    # the quorum and the log
    def append(self, batches: Sequence[bytes]) -> None:
        self.events.append(f"append {len(batches)}")
        self.end_offset += len(batches)
        if self.is_committing:
            asyncio.get_running_loop().call_soon(self.commit, self.end_offset)

    def commit(self, end_offset: int) -> None:
        if self.writer is not None and end_offset > self.high_watermark:
            self.high_watermark = end_offset
            self.events.append("commit")
            self.writer.on_committed(end_offset)

    # the feed and the router
    def publish(self, image: Any, decisions: Sequence[Any], _took_ms: Sequence[int] = ()) -> None:
        self.image = image
        self.events.append(f"publish {len(decisions)}")

    def reply(self, _request: Request, answer: Any) -> None:
        self.events.append(f"answer {answer}")

    def reply_error(self, request: Request, error: Any) -> None:
        self.events.append(f"refuse {request.body} {type(error).__name__}")


class Core:
    """Decides as the request's body says."""

    timed_out_nodes = 1  # of each term

    def __init__(self, world: World) -> None:
        self._world = world

        self.notes = NodeNotes()

    @property
    def image(self) -> Any:
        return self._world.decided

    def decide(self, body: str, now_ms: int) -> Decision:
        self._world.arrivals.append(now_ms)
        self._world.events.append(f"decide {body}")
        if body == "bad":
            raise InvalidRequestError("bad")
        return Decision((NoOpRecord(),) if str(body).startswith("write") else (), body)

    def decide_format(self, cluster_id: str) -> Sequence[Any]:
        self._world.events.append(f"format {cluster_id}")
        return (FormatRecord(cluster_id),)

    def decide_expiry(self, _now_ms: int) -> Sequence[Any]:
        self._world.events.append("expiry")
        had, self._world.expiring = self._world.expiring, max(self._world.expiring - 1, 0)
        return (NoOpRecord(),) if had else ()

    def tick(self, _now_ms: int) -> None: ...

    def learn_wall_clock(self, _now_ms: int, _wall_ms: int) -> None: ...

    def note_disconnected(self, node_id: int, broker_epoch: int, _now_ms: int) -> None:
        self._world.events.append(f"disconnected {node_id} {broker_epoch}")

    def apply(self, base_offset: int, records: Sequence[Any]) -> None:
        assert base_offset == self._world.decided.offset + 1
        cluster_id = self._world.decided.cluster_id
        if isinstance(records[0], FormatRecord):
            cluster_id = records[0].cluster_id
        self._world.decided = Image(base_offset + len(records) - 1, cluster_id)


def writer_of(world: World, max_waiting: int = 10_000) -> DecisionWriter:
    """An active writer in that world."""
    parts: Any = world
    world.writer = writer = DecisionWriter(
        parts,
        parts,
        parts,
        parts,
        world.core,
        new_cluster_id=lambda: "new",
        max_waiting=max_waiting,
        on_publish=lambda: world.events.append("wake readers"),
    )
    writer.on_leader()
    return writer


def submit(writer: DecisionWriter, *bodies: str) -> None:
    for body in bodies:
        request: Any = Request(body)
        writer.submit(request)


async def drain(writer: DecisionWriter) -> None:
    """Run until no request waits."""
    running = asyncio.create_task(writer.run())
    await asyncio.wait_for(writer.drained(), 60)
    await stop(running)


async def stop(running: asyncio.Task[None]) -> None:
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def settle() -> None:
    """Run the loop until nothing more happens."""
    for _ in range(20):
        await asyncio.sleep(0)


def written(world: World, *bodies: str, max_waiting: int = 10_000, pause_s: float = 0) -> list[str]:
    """Submit these at once and run until all are answered; the events."""

    async def scenario() -> None:
        writer = writer_of(world, max_waiting)
        submit(writer, *bodies)
        await asyncio.sleep(pause_s)
        await drain(writer)

    asyncio.run(scenario())
    return world.events


def test_nothing_is_published_or_answered_before_the_commit() -> None:
    """Two writes and a read share one append; the commit publishes, then answers, in order."""
    assert written(World(), "write a", "read", "write b") == [
        *("decide write a", "decide read", "decide write b", "expiry", "append 2", "commit"),
        *("publish 2", "wake readers", "answer write a", "answer read", "answer write b"),
    ]


async def test_a_partial_commit_answers_its_part() -> None:
    """Three writes and a read behind the second; two are committed: they and the read are answered."""
    world = World(is_committing=False)
    writer = writer_of(world)
    submit(writer, "write a", "write b", "read", "write c")
    running = asyncio.create_task(writer.run())
    await settle()
    assert not [event for event in world.events if event.startswith("answer")]
    world.commit(2)
    await stop(running)
    events = world.events
    assert events[-4:] == ["wake readers", "answer write a", "answer write b", "answer read"]


def test_a_read_of_committed_state_is_answered_at_once() -> None:
    """It needs no commit of its own."""
    assert written(World(is_committing=False), "read") == ["decide read", "expiry", "answer read"]


async def test_records_of_the_quorum_advance_the_offset() -> None:
    """A new epoch and a change of voters between two decisions: the image follows the log's offsets."""
    world = World()
    writer = writer_of(world)
    world.end_offset += 2
    submit(writer, "write a")
    await drain(writer)
    world.end_offset += 1
    world.commit(world.end_offset)
    assert world.image.offset == world.decided.offset == 3
    assert "answer write a" in world.events


def test_the_first_leader_formats_the_cluster() -> None:
    """Before any other decision, and once."""
    events = written(World(image=Image(-1, "")), "write a", "write b")
    assert events[:2] == ["format new", "decide write a"]
    assert events.count("format new") == 1
    assert "append 3" in events


async def test_resignation_answers_by_whether_a_request_ran() -> None:
    """Queued and read-only requests did not run; the outcome of uncommitted records is unknown."""
    world = World(is_committing=False)
    writer = writer_of(world)
    submit(writer, "write a", "read")
    running = asyncio.create_task(writer.run())
    await settle()
    submit(writer, "late")
    writer.on_resigned()
    assert not writer.is_active
    assert not len(writer)
    await asyncio.wait_for(writer.drained(), 60)
    await stop(running)
    assert world.events[-3:] == [
        f"refuse write a {RequestTimedOutError.__name__}",
        f"refuse read {NotControllerError.__name__}",
        f"refuse late {NotControllerError.__name__}",
    ]
    assert world.image.offset == -1


async def test_the_next_term_begins_with_the_committed_image() -> None:
    """The dropped core had decided more."""
    world = World(is_committing=False)
    writer = writer_of(world)
    submit(writer, "write a")
    running = asyncio.create_task(writer.run())
    await settle()
    writer.on_resigned()
    assert writer.timed_out_nodes == 1
    world.end_offset = 0  # the next leader truncated it
    writer.on_leader()
    assert writer.timed_out_nodes == 2, "counted over all terms"
    assert world.decided.offset == -1
    world.is_committing = True
    submit(writer, "write b")
    await asyncio.wait_for(writer.drained(), 60)
    await stop(running)
    assert world.events[-1] == "answer write b"
    assert world.image.offset == 0


async def test_uncommitted_decisions_are_bounded() -> None:
    """Without a majority decisions accumulate up to a limit; further requests wait for a commit."""
    world = World(is_committing=False)
    writer = writer_of(world)
    count = MAX_UNDECIDED + 300
    submit(writer, *(f"write {number}" for number in range(count)))
    running = asyncio.create_task(writer.run())
    for _ in range(200):
        await asyncio.sleep(0)
    assert MAX_UNDECIDED <= world.end_offset < MAX_UNDECIDED + MAX_GROUP
    world.is_committing = True
    world.commit(world.end_offset)
    await asyncio.wait_for(writer.drained(), 60)
    await stop(running)
    assert len([event for event in world.events if event.startswith("answer")]) == count


def test_a_refused_request_does_not_delay_others() -> None:
    """The second of three requests is invalid: the other two are written and answered."""
    events = written(World(), "write a", "bad", "write b")
    assert [event for event in events if event.startswith(("answer", "refuse"))] == [
        "answer write a",
        f"refuse bad {InvalidRequestError.__name__}",
        "answer write b",
    ]
    assert "append 2" in events


def test_more_than_a_group_is_answered_without_waiting_for_the_next_tick() -> None:
    """Two groups and a half, without a further wake-up, in order."""
    count = 2 * MAX_GROUP + 50
    events = written(World(), *(f"write {number}" for number in range(count)))
    assert [event for event in events if event.startswith("answer")] == [
        f"answer write {number}" for number in range(count)
    ]
    assert len([event for event in events if event.startswith("append")]) >= 3


def test_no_session_expires_while_heartbeats_wait() -> None:
    """With more than a group waiting, expiry is decided only after the last of them."""
    world = World(expiring=1)
    events = written(world, *(f"read {number}" for number in range(MAX_GROUP + 1)))
    assert events.index("expiry") > events.index(f"decide read {MAX_GROUP}")
    assert "append 1" in events, "the session that ran out was recorded"


def test_a_heartbeat_counts_from_its_arrival() -> None:
    """It waits before its turn: the core gets the time of its arrival."""
    world = World()
    before_ms = monotonic_ms()
    written(world, "read", pause_s=0.03)
    assert world.arrivals[0] < before_ms + 25


def test_the_queue_is_bounded() -> None:
    """The third of two is refused at once."""
    with pytest.raises(ThrottlingQuotaExceededError):
        written(World(), "a", "b", "c", max_waiting=2)
    assert "answer b" in written(World(), "a", "b", max_waiting=2)


def heartbeat(node_id: int, key: bytes, broker_epoch: int = 7) -> Any:
    """A heartbeat of this broker epoch, received on the connection of this peer."""
    body = BrokerHeartbeatRequest(node_id, broker_epoch, 0)
    return SimpleNamespace(body=body, peer=SimpleNamespace(key=key))


async def test_a_closed_heartbeat_connection_is_reported() -> None:
    """Node 1 had reconnected before its old connection closed; node 2 had not; other peers send no
    heartbeats."""
    world = World()
    writer = writer_of(world)
    for node_id, key in ((1, b"old"), (2, b"b"), (1, b"new")):
        writer.submit(heartbeat(node_id, key))
    world.events.clear()
    for key in (b"old", b"unknown", b"b", b"b"):
        writer.peer_gone(cast("Any", SimpleNamespace(key=key)))
    assert world.events == ["disconnected 2 7"]
    writer.on_resigned()
    writer.peer_gone(cast("Any", SimpleNamespace(key=b"new")))
    assert world.events[-1] != "disconnected 1 7"


async def test_a_refused_heartbeat_does_not_replace_the_connection() -> None:
    """Of an unregistered node, or of an earlier process: the connection of the registered process counts, and
    a peer that names many nodes takes no memory."""
    world = World()
    writer = writer_of(world)
    writer.submit(heartbeat(1, b"current"))
    writer.submit(heartbeat(1, b"earlier", broker_epoch=6))
    for node_id in range(100, 200):
        writer.submit(heartbeat(node_id, b"unknown"))
    assert len(writer._heartbeat_peers) == 1
    world.events.clear()
    for key in (b"unknown", b"earlier", b"current"):
        writer.peer_gone(cast("Any", SimpleNamespace(key=key)))
    assert world.events == ["disconnected 1 7"]


async def test_notes_of_the_core_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """At their level, once, whether anything was decided or not."""
    caplog.set_level("INFO", "headrace.controller")

    world = World()
    writer = writer_of(world)
    core: Any = writer._core
    core.notes.add("fencing node 1", is_warning=True)
    core.notes.add("unfencing node 1")
    for _ in range(2):
        writer._decide_group(core)
    found = [(record.levelname, record.message) for record in caplog.records]
    assert found == [("WARNING", "fencing node 1"), ("INFO", "unfencing node 1")]
