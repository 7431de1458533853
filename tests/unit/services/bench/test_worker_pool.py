"""Worker processes: they start together, their errors are raised, and none is left."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from bench_tasks import Count, Fail, Forever, ReachGoal
from headrace.protocol.errors import HeadraceError, UnknownTopicOrPartitionError
from headrace.services.bench.worker_pool import WorkerLostError, WorkerPool

FAKES = Path(__file__).parents[3] / "fakes"


def quiet() -> None:
    """Without a progress line."""


def test_workers_start_together_and_results_are_in_order() -> None:
    """No worker starts before the last one is ready; prepared numbers and totals can be read."""
    with WorkerPool([Count(3), Count(4)], [Count(5)]) as pool:
        pool.start(quiet)
        first, second = pool.finish(0, quiet), pool.finish(1, quiet)
        assert pool.prepared == [30, 40, 50]
        assert pool.totals(0).read() == (7, 14, 2)
        assert pool.totals(1).read() == (5, 10, 1)
    assert {start_ns for start_ns, _, _ in first + second} == {pool.start_ns}
    assert all(began_ns >= pool.start_ns for _, began_ns, _ in first + second)
    assert len({pid for _, _, pid in first + second} | {os.getpid()}) == 4


def test_readers_get_their_goal_after_the_start() -> None:
    """The parent knows it when the senders are done."""
    with WorkerPool([Count(1)], [ReachGoal(), ReachGoal()]) as pool:
        pool.start(quiet)
        pool.finish(0, quiet)
        pool.set_goal(21)
        assert [goal for goal, _ in pool.finish(1, quiet)] == [21, 21]
        assert pool.totals(1).read()[0] == 42


@pytest.mark.parametrize(
    ("how", "expected", "text"),
    [
        ("early", UnknownTopicOrPartitionError, "no such topic"),
        ("odd", ValueError, "odd"),
        ("stubborn", HeadraceError, "stubborn at the end"),
        ("killed", WorkerLostError, "exit code -9"),
    ],
)
def test_error_of_one_worker_ends_all(how: str, expected: type[Exception], text: str) -> None:
    """It is raised in the parent, as itself if it can be pickled."""

    def measure(pool: WorkerPool) -> None:
        pool.start(quiet)
        pool.finish(1, quiet)

    with pytest.raises(expected, match=text), WorkerPool([Forever()], [Fail(how)]) as pool:
        measure(pool)
    assert not psutil.pid_exists(pool.totals(0).read()[0])


def test_workers_end_when_the_parent_was_killed() -> None:
    """Their pipe is closed."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from bench_tasks import Forever\n"
        "from headrace.services.bench.worker_pool import WorkerPool\n"
        "if __name__ == '__main__':\n"
        "    with WorkerPool([Forever()]) as pool:\n"
        "        pool.start(lambda: None)\n"
        "        print(pool.totals(0).read()[0], flush=True)\n"
        "        pool.finish(0, lambda: None)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(FAKES)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = psutil.Process(int(parent.stdout.readline()))
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert worker.wait(timeout=500) in (1, None)
