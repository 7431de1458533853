"""What a stream thread measures."""

from __future__ import annotations

from headrace.stream.metrics.meters import TaskMeter, ThreadMeters
from headrace.stream.records import TaskId


def test_the_runs_of_a_turn_are_one_measurement() -> None:
    """The rows of a batch of columns count; the duration is that of a record."""
    meter = TaskMeter()
    meter.add(100, 3_000_000)
    meter.add(1, 1_000_000)
    assert meter.end_turn(99, 1000) == 200
    assert (meter.process.total, meter.process.total_ms) == (200, 4.0)
    assert meter.process.average_ms(1000) == meter.process.highest_ms(1000) == 0.02
    assert meter.end_turn(99, 2000) == 0
    meter.add(3, 10)
    assert meter.end_turn(0, 3000) == 3  # the task was made again, and its batches count from 0


def test_created_and_closed_tasks_are_counted() -> None:
    """Each rebalance; a task that stays keeps its meter."""
    meters = ThreadMeters(0)
    one, other = TaskId(0, 0), TaskId(0, 1)
    meters.keep({one, other}, 0)
    kept = meters.tasks[other]
    meters.keep({other}, 5)
    assert (meters.created.total, meters.closed.total) == (2, 1)
    assert meters.tasks == {other: kept}


def test_poll_metrics_count_records_per_poll() -> None:
    """With the records that they returned, also none: 2.5 per poll."""
    meters = ThreadMeters(0)
    meters.polled_records(0, 2_000_000, 10)
    meters.polled_records(5, 4_000_000, 10)
    assert (meters.poll.total, meters.poll.average_ms(10), meters.polled.average_ms(10)) == (2, 3.0, 2.5)
