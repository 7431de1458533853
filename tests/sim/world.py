"""The base of a simulation: one heap of events, one virtual clock, one seed, one trace.

Every event is a call on this heap, in the order of (time, number of the call). No code uses real time, and
all random numbers come from `random` or from a stream made by `stream`. So a run depends on its seed only,
and `trace_hash` is equal on every machine: a difference between two runs of a seed means that a clock, the
order of a set or another process has influenced one of them.
"""

from __future__ import annotations

import gc
import hashlib
import random
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

WALL_MS_AT_START = 1_700_000_000_000
HASHED_AT_ONCE = 1_000  # lines of the trace


@contextmanager
def uncollected() -> Iterator[None]:
    """Disable the garbage collector in the block: a run makes few reference cycles and keeps a long history,
    and takes a fifth less time without it."""
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.enable()


class Call:
    """A planned event, which can be cancelled."""

    __slots__ = ("action", "label")

    def __init__(self, label: str, action: Callable[[], None]) -> None:
        self.label = label
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Drop the event."""
        self.action = None


class Pause:
    """The pauses of a process, as by SIGSTOP and SIGCONT. Events that arrive during a pause run after it in
    the order of their arrival, also when the pause is shortened or extended."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.until_ms = 0
        self._waiting: dict[int, tuple[Call, str, Callable[[], None], int]] = {}
        self._number = 0

    @property
    def is_on(self) -> bool:
        """Whether the process is paused."""
        return self._world.now_ms < self.until_ms

    def begin(self, duration_ms: int) -> None:
        """Pause for `duration_ms` from now; replaces the end of a pause that is on."""
        self._set(self._world.now_ms + duration_ms)

    def end(self) -> None:
        if self.is_on:
            self._set(self._world.now_ms)

    def defer(self, label: str, action: Callable[[], None], extra_ms: int = 0) -> None:
        """Run an action `extra_ms` after the end of the pause."""
        self._number += 1
        number = self._number

        def happen() -> None:
            del self._waiting[number]
            action()

        delay_ms = max(self.until_ms + extra_ms - self._world.now_ms, 0)
        self._waiting[number] = (self._world.after(delay_ms, label, happen), label, action, extra_ms)

    def _set(self, until_ms: int) -> None:
        self.until_ms = until_ms
        waiting = list(self._waiting.values())
        self._waiting.clear()
        for call, label, action, extra_ms in waiting:
            call.cancel()
            self.defer(label, action, extra_ms)


class World:
    """The clock advances only in `run`. `on_event` is called after every event and checks the laws.

    `on_message` is called when a message arrives, before its receiver handles it: source, target, body (the
    KafkaError of a request that failed), frames, and for a response the body of its request, if known.
    """

    def __init__(self, seed: int | str, *, keep_trace: bool = False) -> None:
        self.seed = seed
        self.random = random.Random(f"world/{seed}")
        self.now_ms = 0
        self.events = 0  # events so far
        self.on_event: Callable[[], None] = lambda: None
        self.on_message: Callable[[str, str, Any, Sequence[bytes], Any], None] = lambda *_: None
        self.lines: list[str] | None = [] if keep_trace else None
        self._heap: list[tuple[int, int, Call]] = []
        self._number = 0
        self._hash = hashlib.blake2b(digest_size=16)
        self._unhashed: list[str] = []  # the newest lines of the trace

    @property
    def wall_ms(self) -> int:
        """The wall clock."""
        return WALL_MS_AT_START + self.now_ms

    @property
    def trace_hash(self) -> str:
        """The hash of all events so far."""
        self._hash_lines()
        return self._hash.hexdigest()

    def _hash_lines(self) -> None:
        self._hash.update("".join(self._unhashed).encode())
        self._unhashed.clear()

    def stream(self, name: str) -> random.Random:
        """An independent random stream: drawing from it does not change the draws of others."""
        return random.Random(f"{name}/{self.seed}")

    def after(self, delay_ms: int, label: str, action: Callable[[], None]) -> Call:
        """Schedule `action` in `delay_ms`, after all events already scheduled for that time."""
        assert delay_ms >= 0, f"{label} is {-delay_ms} ms late"
        call = Call(label, action)
        number = self._number = self._number + 1
        heappush(self._heap, (self.now_ms + delay_ms, number, call))
        return call

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        line = f"{self.now_ms} {text}"
        self._unhashed.append(line)
        if self.lines is not None:
            self.lines.append(line)

    def run(
        self, duration_ms: int, *, until: Callable[[], bool] | None = None, max_events: int = 1_000_000
    ) -> bool:
        """Run events until `until` holds; returns whether it did within `duration_ms`.

        Without `until`, run for the whole duration. Errors: AssertionError after `max_events`: an endless
        loop.
        """
        with uncollected():
            return self._run(duration_ms, until, max_events)

    def _run(self, duration_ms: int, until: Callable[[], bool] | None, max_events: int) -> bool:
        end_ms, end_events = self.now_ms + duration_ms, self.events + max_events
        heap, unhashed, lines = self._heap, self._unhashed, self.lines
        while heap and heap[0][0] <= end_ms:
            if until is not None and until():
                return True
            now_ms, _, call = heappop(heap)
            self.now_ms = now_ms
            action = call.action
            if action is None:
                continue
            self.events += 1
            assert self.events <= end_events, f"{max_events} events in {duration_ms} ms: an endless loop"
            if lines is None:  # like `note`, without a function call
                unhashed.append(f"{now_ms} {call.label}")
            else:
                self.note(call.label)
            action()
            self.on_event()
            if len(unhashed) >= HASHED_AT_ONCE:
                self._hash_lines()
        self.now_ms = end_ms
        return until is not None and until()
