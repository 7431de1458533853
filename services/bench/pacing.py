"""An open-loop schedule: record i is meant to be sent at a fixed time, whatever became of those before. Pure.

Latency counts from the intended time. A sender that was held up sends at once all that came due meanwhile,
drops nothing, and the wait is in the figures of each record: no coordinated omission.
"""

from __future__ import annotations

from dataclasses import dataclass

NS_PER_S = 1_000_000_000
MOST_PER_S = float(
    NS_PER_S
)  # Bound: what is due is settled step by step, a few steps up to one record per ns


@dataclass(frozen=True, slots=True)
class Schedule:
    """`rate_per_s` records a second, the first (number 0) at `start_ns`; every `stride`-th of them from
    `offset` on is ours, so that several senders share one even stream."""

    rate_per_s: float
    start_ns: int
    offset: int = 0
    stride: int = 1

    def __post_init__(self) -> None:
        """Errors: ValueError."""
        if not 0 < self.rate_per_s <= MOST_PER_S:
            raise ValueError(f"a rate lies above 0 and is at most {MOST_PER_S:.0f}/s, not {self.rate_per_s}")
        if self.stride < 1 or not 0 <= self.offset < self.stride:
            raise ValueError(f"offset {self.offset} must lie in 0..{self.stride - 1}")

    def intended_ns(self, number: int) -> int:
        """When our record `number` (from 0) is meant to be sent; on the clock of `start_ns`."""
        # from the start each time: adding up an interval would add up its rounding
        return self.start_ns + int((number * self.stride + self.offset) * NS_PER_S / self.rate_per_s)

    def due(self, now_ns: int) -> int:
        """How many of our records are meant to be sent by now: numbers 0..due-1."""
        if now_ns < self.start_ns:
            return 0
        place = int((now_ns - self.start_ns) * self.rate_per_s / NS_PER_S) - self.offset
        due = max(place // self.stride, -1) + 1
        # the division was rounded: settle it by the times themselves
        while due and self.intended_ns(due - 1) > now_ns:
            due -= 1
        while self.intended_ns(due) <= now_ns:
            due += 1
        return due
