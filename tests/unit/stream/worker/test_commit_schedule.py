"""Tests of stream/worker/commit_schedule.py."""

from __future__ import annotations

from headrace.stream.records import TaskId
from headrace.stream.worker.commit_schedule import CommitSchedule

A, B, C = (TaskId(0, number) for number in range(3))


def test_each_interval_all_tasks_are_due() -> None:
    """A task that is opened meanwhile joins the others; without tasks the interval begins with the first."""
    schedule = CommitSchedule(100, 1_000, together=False)
    assert (schedule.due([], [], 1_500), schedule.next_ms) == ([], 1_600)
    assert (schedule.due([A], [], 1_550), schedule.next_ms) == ([], 1_650)
    assert schedule.due([A, B], [], 1_640) == []
    assert schedule.due([A, B], [], 1_650) == [A, B]
    schedule.committed([A, B], 1_655)
    assert (schedule.due([A, B], [], 1_700), schedule.next_ms) == ([], 1_755)


def test_a_task_that_is_not_ready_stays_due_and_delays_no_other() -> None:
    """Its own next turn is an interval after its commit."""
    schedule = CommitSchedule(100, 0, together=False)
    schedule.due([A, B], [], 0)
    assert schedule.due([A, B], [], 100) == [A, B]
    schedule.committed([A], 100)
    assert (schedule.next_ms, schedule.is_waiting(A), schedule.is_waiting(B)) == (200, False, True)
    assert schedule.due([A, B], [], 150) == [B]
    assert schedule.due([A, B], [], 200) == [A, B]
    schedule.committed([A, B], 220)
    assert schedule.due([A, B], [], 319) == []


def test_while_all_tasks_wait_none_is_due_next() -> None:
    """What they wait for wakes the thread."""
    schedule = CommitSchedule(100, 0, together=False)
    schedule.due([A], [], 0)
    assert schedule.due([A], [], 100) == [A]
    assert schedule.next_ms > 10**12


def test_task_that_requests_a_commit_is_due_at_once() -> None:
    """The others keep their time, unless they share a transaction with it."""
    alone, together = (CommitSchedule(100, 0, together=flag) for flag in (False, True))
    for schedule in (alone, together):
        schedule.due([A, B], [], 0)
    assert alone.due([A, B], [B], 50) == [B]
    assert together.due([A, B], [B], 50) == [A, B]
    alone.committed([B], 50)
    assert alone.due([A, B], [], 100) == [A]
    alone.committed([A], 100)
    assert alone.due([A, B], [], 150) == [B]


def test_a_task_that_is_closed_is_forgotten() -> None:
    """Also while it waits."""
    schedule = CommitSchedule(100, 0, together=False)
    schedule.due([A, B], [], 0)
    assert schedule.due([A, B], [], 100) == [A, B]
    assert schedule.due([B, C], [], 101) == [B, C]
    assert not schedule.is_waiting(A)
