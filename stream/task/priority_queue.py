"""A binary heap whose order among equal elements is that of java.util.PriorityQueue.

Records and punctuators with equal timestamps are processed in this order.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar


class Timed(Protocol):
    """An element of the queue."""

    @property
    def timestamp(self) -> int: ...


T = TypeVar("T", bound=Timed)


class PriorityQueue(Generic[T]):
    """Elements by ascending timestamp, which must not change while they are in the queue."""

    __slots__ = ("elements",)

    def __init__(self) -> None:
        self.elements: list[T] = []
        """A heap, always the same list: for those that ask after each record whether there are any."""

    def __len__(self) -> int:
        return len(self.elements)

    def peek(self) -> T | None:
        return self.elements[0] if self.elements else None

    def offer(self, element: T) -> None:
        heap = self.elements
        heap.append(element)
        at = len(heap) - 1
        while at:
            above = (at - 1) // 2
            if element.timestamp >= heap[above].timestamp:
                break
            heap[at] = heap[above]
            at = above
        heap[at] = element

    def poll(self) -> T | None:
        """Remove the first element; None if the queue is empty."""
        heap = self.elements
        if not heap:
            return None
        first, last = heap[0], heap.pop()
        if heap:
            self._sift_down(0, last)
        return first

    def _sift_down(self, at: int, element: T) -> None:
        heap = self.elements
        size = len(heap)
        while at < size // 2:
            below = 2 * at + 1
            if below + 1 < size and heap[below].timestamp > heap[below + 1].timestamp:
                below += 1
            if element.timestamp <= heap[below].timestamp:
                break
            heap[at] = heap[below]
            at = below
        heap[at] = element

    def clear(self) -> None:
        self.elements.clear()
