"""The world of a simulation: one heap of events, one virtual clock, one seed, one trace.

Everything that happens is a call on this heap, in the order of (time, number of the call): nothing else runs,
no real time passes, and no random number comes from elsewhere than `random` or a stream made by `stream`.
So a seed says everything about a run; `trace_hash` is the same whenever and wherever it runs, and a
difference between two runs means that a clock, a set's order or another process leaked in.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WALL_MS_AT_START = 1_700_000_000_000


class Call:
    """Something that is going to happen, unless it is cancelled."""

    __slots__ = ("action", "label")

    def __init__(self, label: str, action: Callable[[], None]) -> None:
        self.label = label
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """It will not happen."""
        self.action = None


class World:
    """Time passes only in `run`. `on_event` is called after everything that happens: check the laws there."""

    def __init__(self, seed: int | str, *, keep_trace: bool = False) -> None:
        self.seed = seed
        self.random = random.Random(f"world/{seed}")
        self.now_ms = 0
        self.events = 0  # that have happened
        self.on_event: Callable[[], None] = lambda: None
        self.lines: list[str] | None = [] if keep_trace else None
        self._heap: list[tuple[int, int, Call]] = []
        self._number = 0
        self._hash = hashlib.blake2b(digest_size=16)

    @property
    def wall_ms(self) -> int:
        """The calendar clock."""
        return WALL_MS_AT_START + self.now_ms

    @property
    def trace_hash(self) -> str:
        """Of everything that has happened so far."""
        return self._hash.hexdigest()

    def stream(self, name: str) -> random.Random:
        """A random stream of its own: drawing from it moves no other."""
        return random.Random(f"{name}/{self.seed}")

    def after(self, delay_ms: int, label: str, action: Callable[[], None]) -> Call:
        """Let `action` happen in `delay_ms`; after everything that was planned for that time before."""
        assert delay_ms >= 0, f"{label} is {-delay_ms} ms late"
        call = Call(label, action)
        self._number += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._number, call))
        return call

    def note(self, text: str) -> None:
        """Make something part of the trace."""
        line = f"{self.now_ms} {text}"
        self._hash.update(line.encode())
        if self.lines is not None:
            self.lines.append(line)

    def run(
        self, duration_ms: int, *, until: Callable[[], bool] | None = None, max_events: int = 1_000_000
    ) -> bool:
        """Let time pass until `until` holds; whether it did before `duration_ms` were over.

        Without `until`, always the whole time. Errors: AssertionError after `max_events`: something spins.
        """
        end_ms, end_events = self.now_ms + duration_ms, self.events + max_events
        while self._heap and self._heap[0][0] <= end_ms:
            if until is not None and until():
                return True
            self.now_ms, _, call = heapq.heappop(self._heap)
            if call.action is None:
                continue
            self.events += 1
            assert self.events <= end_events, f"{max_events} events in {duration_ms} ms: something spins"
            self.note(call.label)
            call.action()
            self.on_event()
        self.now_ms = end_ms
        return until is not None and until()
