"""Tests of stream/task/punctuation.py."""

from __future__ import annotations

from headrace.stream.task.punctuation import PunctuationQueue, Schedule


def added(queue: PunctuationQueue, first: int, interval_ms: int, calls: list[tuple[str, int]]) -> Schedule:
    name = f"every {interval_ms}"
    schedule = Schedule(name, interval_ms, lambda timestamp: calls.append((name, timestamp)))
    queue.add(first, schedule)
    return schedule


def punctuate(queue: PunctuationQueue, now: int) -> bool:
    return queue.punctuate(now, lambda schedule, timestamp: schedule.callback(timestamp))


def test_a_late_punctuator_is_called_once() -> None:
    """Intervals that were missed are skipped; the next time stays on the grid of the first one."""
    queue = PunctuationQueue()
    calls: list[tuple[str, int]] = []
    added(queue, 0, 10, calls)
    assert punctuate(queue, 35)
    assert calls == [("every 10", 35)]
    assert not punctuate(queue, 39)
    assert punctuate(queue, 40)
    assert queue.next_due() == 50


def test_a_cancelled_punctuator_is_not_called_again() -> None:
    """Also if it cancels itself."""
    queue = PunctuationQueue()
    calls: list[tuple[str, int]] = []
    schedule = added(queue, 5, 5, calls)
    schedule.callback = lambda _timestamp: schedule.cancel()
    assert punctuate(queue, 5)
    assert not punctuate(queue, 100)
    assert queue.next_due() is None


def test_punctuators_are_called_in_order_of_time() -> None:
    """The one that is due first comes first."""
    queue = PunctuationQueue()
    calls: list[tuple[str, int]] = []
    added(queue, 20, 100, calls)
    added(queue, 10, 50, calls)
    punctuate(queue, 20)
    assert calls == [("every 50", 20), ("every 100", 20)]
