"""An open-loop schedule: record i has a fixed intended send time, whatever the delays of earlier records.
Pure.

Latency counts from the intended time. A delayed sender sends all due records at once and drops none, so the
delay is part of each record's latency: no coordinated omission.
"""

from __future__ import annotations

from dataclasses import dataclass

NS_PER_S = 1_000_000_000
MOST_PER_S = float(
    NS_PER_S
)  # Bound: what is due is settled step by step, a few steps up to one record per ns


@dataclass(frozen=True, slots=True)
class Schedule:
    """`rate_per_s` records per second, number 0 at `start_ns`; this sender has every `stride`-th record from
    `offset` on, so that several senders share one even stream."""

    rate_per_s: float
    start_ns: int
    offset: int = 0
    stride: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.rate_per_s <= MOST_PER_S:
            raise ValueError(
                f"the rate must be above 0 and at most {MOST_PER_S:.0f}/s, not {self.rate_per_s}"
            )
        if self.stride < 1 or not 0 <= self.offset < self.stride:
            raise ValueError(f"offset {self.offset} must lie in 0..{self.stride - 1}")

    def intended_ns(self, number: int) -> int:
        """The intended send time of this sender's record `number` (from 0), on the clock of `start_ns`."""
        # computed from the start: adding intervals would add up their rounding errors
        return self.start_ns + int((number * self.stride + self.offset) * NS_PER_S / self.rate_per_s)

    def due(self, now_ns: int) -> int:
        """The number of this sender's records whose intended time has come: numbers 0..due-1."""
        if now_ns < self.start_ns:
            return 0
        place = int((now_ns - self.start_ns) * self.rate_per_s / NS_PER_S) - self.offset
        due = max(place // self.stride, -1) + 1
        # the division was rounded: correct it with the exact times
        while due and self.intended_ns(due - 1) > now_ns:
            due -= 1
        while self.intended_ns(due) <= now_ns:
            due += 1
        return due
