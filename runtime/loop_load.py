"""How busy the thread of an event loop is: its CPU time, looked at about once a second. Pure.

Neither asyncio nor uvloop tells the time in which a loop waits. CPU time of the thread is that of callbacks
and of the loop itself; waits for a disk inside a callback are not in it, and show as stalls (stalls.py).
"""

from __future__ import annotations

from collections import deque

WINDOW = 60  # looks


class LoopLoad:
    """Fed by a timer on the loop's thread."""

    __slots__ = ("_looks",)

    def __init__(self) -> None:
        self._looks: deque[tuple[float, float]] = deque(maxlen=WINDOW + 1)

    def look(self, now_s: float, cpu_s: float) -> None:
        """The thread has used `cpu_s` of CPU time at `now_s`."""
        self._looks.append((now_s, cpu_s))

    def idle_ratio(self) -> float:
        """The part of the window without CPU time, 0 to 1; 1 before the second look."""
        if len(self._looks) < 2:
            return 1.0
        (first_s, first_cpu_s), (last_s, last_cpu_s) = self._looks[0], self._looks[-1]
        passed_s = last_s - first_s
        return 1.0 if passed_s <= 0 else min(max(1 - (last_cpu_s - first_cpu_s) / passed_s, 0.0), 1.0)
