"""Tests of stream/task/priority_queue.py."""

from __future__ import annotations

from typing import NamedTuple

from headrace.stream.task.priority_queue import PriorityQueue
from hypothesis import given
from hypothesis import strategies as st


class Item(NamedTuple):
    """An element: `number` tells equal timestamps apart."""

    timestamp: int
    number: int


def drained(queue: PriorityQueue[Item]) -> list[Item]:
    found = []
    while (item := queue.poll()) is not None:
        found.append(item)
    return found


@given(st.lists(st.integers(0, 20)))
def test_elements_leave_in_order_of_time(timestamps: list[int]) -> None:
    """Whatever the order in which they came."""
    queue: PriorityQueue[Item] = PriorityQueue()
    for number, timestamp in enumerate(timestamps):
        queue.offer(Item(timestamp, number))
    assert [item.timestamp for item in drained(queue)] == sorted(timestamps)


def test_equal_timestamps_leave_in_the_order_of_java() -> None:
    """java.util.PriorityQueue moves the last element to the root: 0, 4, 3, 2, 1 for five equal ones."""
    queue: PriorityQueue[Item] = PriorityQueue()
    for number in range(5):
        queue.offer(Item(7, number))
    assert [item.number for item in drained(queue)] == [0, 4, 3, 2, 1]


def test_peek_leaves_the_element_in_place() -> None:
    """None from an empty queue."""
    queue: PriorityQueue[Item] = PriorityQueue()
    assert queue.peek() is None
    queue.offer(Item(3, 0))
    assert queue.peek() == Item(3, 0)
    assert len(queue) == 1
    queue.clear()
    assert queue.poll() is None
