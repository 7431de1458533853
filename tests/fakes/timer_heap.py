"""The oracle of the timing wheel: a plain heap with slow cancellation."""

import heapq


class TimerHeap:
    """The interface of TimingWheel; deadlines are rounded down to the tick."""

    def __init__(self, tick_ms: int = 1, now_ms: int = 0) -> None:
        self._tick_ms = tick_ms
        self._now_ms = now_ms
        self._heap: list[tuple[int, int, object]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: object, deadline_ms: int) -> int:
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ms, self._sequence, item))
        return self._sequence

    def cancel(self, sequence: int) -> bool:
        left = [entry for entry in self._heap if entry[1] != sequence]
        was_there = len(left) < len(self._heap)
        self._heap = left
        heapq.heapify(self._heap)
        return was_there

    def advance(self, now_ms: int) -> list[object]:
        self._now_ms = max(self._now_ms, now_ms)
        due = []
        while self._heap and self._heap[0][0] // self._tick_ms <= self._now_ms // self._tick_ms:
            due.append(heapq.heappop(self._heap)[2])
        return due

    def earliest_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None
