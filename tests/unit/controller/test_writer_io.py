"""The writer's own rules: groups, order, limits, what time may do, and what a lost leadership leaves behind;
the log, the quorum and the sockets are fakes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

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

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@pytest.fixture(autouse=True)
def _a_group_may_take_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not split the groups whose order is tested."""
    monkeypatch.setattr(writer_io, "MAX_GROUP_MS", 600_000)


class Image(NamedTuple):
    """As much of an image as the writer looks at."""

    offset: int = -1
    cluster_id: str = "c"
    brokers: Mapping[int, Any] = MappingProxyType(
        {node_id: SimpleNamespace(broker_epoch=7) for node_id in (1, 2)}
    )


@dataclass
class Asked:
    """A request; its body says what the core does with it."""

    body: str


@dataclass
class World:
    """Core, log, quorum, feed and router in one: everything that happens goes into `events`, in order."""

    events: list[str] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    expiring: int = 0
    image: Any = field(default_factory=Image)
    decided: Any = field(default_factory=Image)
    end_offset: int = 0
    high_watermark: int = 0
    is_committing: bool = True  # at once, as an only voter does
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

    def reply(self, _request: Asked, answer: Any) -> None:
        self.events.append(f"answer {answer}")

    def reply_error(self, request: Asked, error: Any) -> None:
        self.events.append(f"refuse {request.body} {type(error).__name__}")


class Core:
    """What the world's core does with a request."""

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
        request: Any = Asked(body)
        writer.submit(request)


async def drain(writer: DecisionWriter) -> None:
    """Run until nothing waits."""
    running = asyncio.create_task(writer.run())
    await asyncio.wait_for(writer.drained(), 60)
    await stop(running)


async def stop(running: asyncio.Task[None]) -> None:
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def settle() -> None:
    """Let the loop turn until nothing more can happen."""
    for _ in range(20):
        await asyncio.sleep(0)


def written(world: World, *bodies: str, max_waiting: int = 10_000, pause_s: float = 0) -> list[str]:
    """Submit these at once, write until all are answered; what happened."""

    async def scenario() -> None:
        writer = writer_of(world, max_waiting)
        submit(writer, *bodies)
        await asyncio.sleep(pause_s)
        await drain(writer)

    asyncio.run(scenario())
    return world.events


def test_nothing_is_shown_or_answered_before_it_is_committed() -> None:
    """Two writes and a read share one append; the commit tells readers, then answers, in order."""
    assert written(World(), "write a", "read", "write b") == [
        *("decide write a", "decide read", "decide write b", "expiry", "append 2", "commit"),
        *("publish 2", "wake readers", "answer write a", "answer read", "answer write b"),
    ]


def test_a_commit_of_a_part_answers_that_part() -> None:
    """Three writes and a read behind the second; two are committed: they and the read are answered."""

    async def scenario() -> list[str]:
        world = World(is_committing=False)
        writer = writer_of(world)
        submit(writer, "write a", "write b", "read", "write c")
        running = asyncio.create_task(writer.run())
        await settle()
        assert not [event for event in world.events if event.startswith("answer")]
        world.commit(2)
        await stop(running)
        return world.events

    events = asyncio.run(scenario())
    assert events[-4:] == ["wake readers", "answer write a", "answer write b", "answer read"]


def test_what_rests_on_nothing_new_is_answered_at_once() -> None:
    """A read while everything is committed needs no commit of its own."""
    assert written(World(is_committing=False), "read") == ["decide read", "expiry", "answer read"]


def test_records_of_the_quorum_move_the_offset() -> None:
    """A new epoch and a change of voters lie between two decisions: the image follows the log's offsets."""

    async def scenario() -> World:
        world = World()
        writer = writer_of(world)
        world.end_offset += 2
        submit(writer, "write a")
        await drain(writer)
        world.end_offset += 1
        world.commit(world.end_offset)
        return world

    world = asyncio.run(scenario())
    assert world.image.offset == world.decided.offset == 3
    assert "answer write a" in world.events


def test_a_new_cluster_gets_its_name_from_its_first_leader() -> None:
    """Before anything else is decided, and once."""
    events = written(World(image=Image(-1, "")), "write a", "write b")
    assert events[:2] == ["format new", "decide write a"]
    assert events.count("format new") == 1
    assert "append 3" in events


def test_a_lost_leadership_says_what_did_not_run() -> None:
    """Queued and read-only requests did not run; of what was recorded and not committed nobody knows."""

    async def scenario() -> World:
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
        return world

    world = asyncio.run(scenario())
    assert world.events[-3:] == [
        f"refuse write a {RequestTimedOutError.__name__}",
        f"refuse read {NotControllerError.__name__}",
        f"refuse late {NotControllerError.__name__}",
    ]
    assert world.image.offset == -1


def test_the_next_leadership_begins_with_what_is_committed() -> None:
    """The core that was dropped had decided more."""

    async def scenario() -> World:
        world = World(is_committing=False)
        writer = writer_of(world)
        submit(writer, "write a")
        running = asyncio.create_task(writer.run())
        await settle()
        writer.on_resigned()
        world.end_offset = 0  # the next leader had it cut off
        writer.on_leader()
        assert world.decided.offset == -1
        world.is_committing = True
        submit(writer, "write b")
        await asyncio.wait_for(writer.drained(), 60)
        await stop(running)
        return world

    world = asyncio.run(scenario())
    assert world.events[-1] == "answer write b"
    assert world.image.offset == 0


def test_answers_that_wait_for_a_majority_are_bounded() -> None:
    """No majority: decisions pile up to a limit, the rest stays undecided until something is committed."""

    async def scenario() -> World:
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
        return world

    asyncio.run(scenario())


def test_a_refusal_records_nothing_and_holds_up_nobody() -> None:
    """The one in the middle is bad: the others are written and answered."""
    events = written(World(), "write a", "bad", "write b")
    assert [event for event in events if event.startswith(("answer", "refuse"))] == [
        "answer write a",
        f"refuse bad {InvalidRequestError.__name__}",
        "answer write b",
    ]
    assert "append 2" in events


def test_more_than_a_group_is_answered_without_waiting_for_the_next_tick() -> None:
    """Two groups and a half, and nobody wakes the writer again: all are answered, in order."""
    count = 2 * MAX_GROUP + 50
    events = written(World(), *(f"write {number}" for number in range(count)))
    assert [event for event in events if event.startswith("answer")] == [
        f"answer write {number}" for number in range(count)
    ]
    assert len([event for event in events if event.startswith("append")]) >= 3


def test_no_session_runs_out_while_heartbeats_still_wait() -> None:
    """With more than a group waiting, expiry is asked only after the last of them was decided."""
    world = World(expiring=1)
    events = written(world, *(f"read {number}" for number in range(MAX_GROUP + 1)))
    assert events.index("expiry") > events.index(f"decide read {MAX_GROUP}")
    assert "append 1" in events, "the session that ran out was recorded"


def test_a_heartbeat_counts_from_when_it_came() -> None:
    """It waits before its turn: the core hears the time of its arrival."""
    world = World()
    before_ms = monotonic_ms()
    written(world, "read", pause_s=0.03)
    assert world.arrivals[0] < before_ms + 25


def test_the_queue_is_bounded() -> None:
    """The third of two is told to slow down at once."""
    with pytest.raises(ThrottlingQuotaExceededError):
        written(World(), "a", "b", "c", max_waiting=2)
    assert "answer b" in written(World(), "a", "b", max_waiting=2)


def heartbeat(node_id: int, key: bytes, broker_epoch: int = 7) -> Any:
    """A heartbeat of this broker epoch that came on the connection of this peer."""
    body = BrokerHeartbeatRequest(node_id, broker_epoch, 0)
    return SimpleNamespace(body=body, peer=SimpleNamespace(key=key))


def test_the_end_of_the_connection_of_the_last_heartbeat_is_reported() -> None:
    """Node 1 connected again before its old connection ended; node 2 did not; others send no heartbeats."""

    async def scenario() -> None:
        world = World()
        writer = writer_of(world)
        for node_id, key in ((1, b"old"), (2, b"b"), (1, b"new")):
            writer.submit(heartbeat(node_id, key))
        world.events.clear()
        for key in (b"old", b"stranger", b"b", b"b"):
            writer.peer_gone(cast("Any", SimpleNamespace(key=key)))
        assert world.events == ["disconnected 2 7"]
        writer.on_resigned()
        writer.peer_gone(cast("Any", SimpleNamespace(key=b"new")))
        assert world.events[-1] != "disconnected 1 7"

    asyncio.run(scenario())


def test_a_heartbeat_that_will_be_refused_takes_no_place() -> None:
    """Of a node that is not registered, or of an earlier process of a node: the connection of the process
    that is registered still counts, and a peer that names any number of nodes takes no memory."""

    async def scenario() -> None:
        world = World()
        writer = writer_of(world)
        writer.submit(heartbeat(1, b"current"))
        writer.submit(heartbeat(1, b"earlier", broker_epoch=6))
        for node_id in range(100, 200):
            writer.submit(heartbeat(node_id, b"stranger"))
        assert len(writer._heartbeat_peers) == 1
        world.events.clear()
        for key in (b"stranger", b"earlier", b"current"):
            writer.peer_gone(cast("Any", SimpleNamespace(key=key)))
        assert world.events == ["disconnected 1 7"]

    asyncio.run(scenario())


def test_notes_of_the_core_become_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """At the level of each, once, whether anything was decided or not."""
    caplog.set_level("INFO", "headrace.controller")

    async def scenario() -> None:
        world = World()
        writer = writer_of(world)
        core: Any = writer._core
        core.notes.say("fencing node 1", is_warning=True)
        core.notes.say("unfencing node 1")
        for _ in range(2):
            writer._decide_group(core)

    asyncio.run(scenario())
    found = [(record.levelname, record.message) for record in caplog.records]
    assert found == [("WARNING", "fencing node 1"), ("INFO", "unfencing node 1")]
