"""The writer's own rules: groups, order, limits and what time may do; the disk and the sockets are fakes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from headrace.controller.state.decision import Decision
from headrace.controller.writer_io import MAX_GROUP, DecisionWriter
from headrace.protocol.errors import InvalidRequestError, ThrottlingQuotaExceededError
from headrace.protocol.metadata.records import NoOpRecord
from headrace.runtime.clock_io import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class Asked:
    """A request; its body says what the core does with it."""

    body: str


@dataclass
class World:
    """Core, log, feed and router in one: everything that happens goes into `events`, in order."""

    events: list[str] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    expiring: int = 0
    bytes_since_snapshot: int = 0
    image: str = "image"

    # the core
    def decide(self, body: str, now_ms: int) -> Decision:
        self.arrivals.append(now_ms)
        self.events.append(f"decide {body}")
        if body == "bad":
            raise InvalidRequestError("bad")
        return Decision((NoOpRecord(),) if body.startswith("write") else (), body)

    def decide_expiry(self, _now_ms: int) -> Sequence[Any]:
        self.events.append("expiry")
        self.expiring, had = max(self.expiring - 1, 0), self.expiring
        return (NoOpRecord(),) if had else ()

    def tick(self, _now_ms: int) -> None: ...

    def apply(self, _base_offset: int, _records: Sequence[Any]) -> None:
        self.events.append("apply")

    # the log
    def append(self, _records: Sequence[Any], _wall_ms: int) -> int:
        self.events.append("append")
        self.bytes_since_snapshot += 10
        return 0

    def flush(self) -> None:
        self.events.append("flush")

    def write_snapshot(self, image: str, _wall_ms: int) -> None:
        self.events.append(f"snapshot of {image}")
        self.bytes_since_snapshot = 0

    # the feed and the router
    def publish(self, _image: str, decisions: Sequence[Any]) -> None:
        self.events.append(f"publish {len(decisions)}")

    def reply(self, _request: Asked, answer: Any) -> None:
        self.events.append(f"answer {answer}")

    def reply_error(self, _request: Asked, error: InvalidRequestError) -> None:
        self.events.append(f"refuse {error.detail}")


def written(
    world: World, *bodies: str, max_waiting: int = 10_000, snapshot_bytes: int = 1 << 30, pause_s: float = 0
) -> list[str]:
    """Submit these at once, write until all are answered; what happened."""

    async def scenario() -> None:
        with ThreadPoolExecutor(1) as disk:
            parts: Any = world
            writer = DecisionWriter(
                parts,
                parts,
                parts,
                parts,
                disk,
                max_waiting=max_waiting,
                snapshot_interval_bytes=snapshot_bytes,
                on_publish=lambda: world.events.append("wake readers"),
            )
            for body in bodies:
                request: Any = Asked(body)
                writer.submit(request)
            await asyncio.sleep(pause_s)
            running = asyncio.create_task(writer.run())
            await asyncio.wait_for(writer.drained(), 10)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())
    return world.events


def test_nothing_is_shown_or_answered_before_it_is_durable() -> None:
    """Two writes and a read share one flush; then readers, then answers, in order."""
    assert written(World(), "write a", "read", "write b") == [
        *("decide write a", "append", "apply", "decide read", "decide write b", "append", "apply", "expiry"),
        "flush",
        *("publish 2", "wake readers", "answer write a", "answer read", "answer write b"),
    ]


def test_a_refusal_records_nothing_and_holds_up_nobody() -> None:
    """The one in the middle is bad: the others are written and answered."""
    events = written(World(), "write a", "bad", "write b")
    assert [event for event in events if event.startswith(("answer", "refuse"))] == [
        "answer write a",
        "refuse bad",
        "answer write b",
    ]
    assert events.count("append") == 2


def test_more_than_a_group_is_answered_without_waiting_for_the_next_tick() -> None:
    """Two groups and a half, and nobody wakes the writer again: all are answered, in order."""
    count = 2 * MAX_GROUP + 50
    events = written(World(), *(f"write {number}" for number in range(count)))
    assert [event for event in events if event.startswith("answer")] == [
        f"answer write {number}" for number in range(count)
    ]
    assert events.count("flush") >= 3


def test_no_session_runs_out_while_heartbeats_still_wait() -> None:
    """With more than a group waiting, expiry is asked only after the last of them was decided."""
    world = World(expiring=1)
    events = written(world, *(f"read {number}" for number in range(MAX_GROUP + 1)))
    assert events.index("expiry") > events.index(f"decide read {MAX_GROUP}")
    assert events.count("append") == 1, "the session that ran out was recorded"


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


def test_a_snapshot_is_written_after_the_answers_once_the_log_has_grown() -> None:
    """20 bytes are due; the second write makes them, the third begins anew."""
    events = written(World(), "write a", "write b", snapshot_bytes=20)
    assert events[-1] == "snapshot of image"
    assert "snapshot of image" not in written(World(), "write a", snapshot_bytes=20)
