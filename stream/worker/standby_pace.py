"""When the standby tasks of a thread have their turn. Pure.

Active tasks come first: while they have records, standbys get a tenth of the thread's time (ADR 36).
"""

from __future__ import annotations

SHARE = 10
"""A busy thread gives standbys one part of its time in so many."""


class StandbyPace:
    """Times in seconds, of a clock that never goes back."""

    def __init__(self) -> None:
        self._due_s = 0.0

    def is_due(self, now_s: float, *, is_idle: bool) -> bool:
        """Whether standbys have a turn. `is_idle`: the active tasks have had no records in this turn."""
        return is_idle or now_s >= self._due_s

    def took(self, begin_s: float, end_s: float) -> None:
        """A turn of the standbys has ended."""
        self._due_s = end_s + (end_s - begin_s) * (SHARE - 1)
