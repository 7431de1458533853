"""Worker processes: they start together, their errors arrive, and none is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from bench_tasks import Count, Fail, Forever, ReachGoal
from headrace.protocol.errors import HeadraceError, UnknownTopicOrPartitionError
from headrace.services.bench.fleet import Fleet, WorkerLostError

FAKES = Path(__file__).parents[3] / "fakes"


def quiet() -> None:
    """No progress line."""


def test_all_begin_at_one_moment_and_answer_in_order() -> None:
    """No worker begins before the last one is prepared; what they prepared and counted can be read."""
    with Fleet([Count(3), Count(4)], [Count(5)]) as fleet:
        fleet.start(quiet)
        first, second = fleet.finish(0, quiet), fleet.finish(1, quiet)
        assert fleet.prepared == [30, 40, 50]
        assert fleet.totals(0).read() == (7, 14, 2)
        assert fleet.totals(1).read() == (5, 10, 1)
    assert {start_ns for start_ns, _, _ in first + second} == {fleet.start_ns}
    assert all(began_ns >= fleet.start_ns for _, began_ns, _ in first + second)
    assert len({pid for _, _, pid in first + second} | {os.getpid()}) == 4


def test_readers_learn_their_goal_late() -> None:
    """The parent knows how much there is to read only when the senders are done."""
    with Fleet([Count(1)], [ReachGoal(), ReachGoal()]) as fleet:
        fleet.start(quiet)
        fleet.finish(0, quiet)
        fleet.set_goal(21)
        assert [goal for goal, _ in fleet.finish(1, quiet)] == [21, 21]
        assert fleet.totals(1).read()[0] == 42


@pytest.mark.parametrize(
    ("how", "expected", "text"),
    [
        ("early", UnknownTopicOrPartitionError, "no such topic"),
        ("odd", ValueError, "odd"),
        ("stubborn", HeadraceError, "stubborn at the end"),
        ("killed", WorkerLostError, "exit code -9"),
    ],
)
def test_an_error_of_one_worker_ends_the_whole(how: str, expected: type[Exception], text: str) -> None:
    """It is raised here, as itself where it can travel, and the workers that would go on are ended."""

    def measure(fleet: Fleet) -> None:
        fleet.start(quiet)
        fleet.finish(1, quiet)

    with pytest.raises(expected, match=text), Fleet([Forever()], [Fail(how)]) as fleet:
        measure(fleet)
    assert not psutil.pid_exists(fleet.totals(0).read()[0])


def test_workers_end_with_a_parent_that_was_killed() -> None:
    """Nobody is there to end them: they see it themselves."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from bench_tasks import Forever\n"
        "from headrace.services.bench.fleet import Fleet\n"
        "if __name__ == '__main__':\n"
        "    with Fleet([Forever()]) as fleet:\n"
        "        fleet.start(lambda: None)\n"
        "        print(fleet.totals(0).read()[0], flush=True)\n"
        "        fleet.finish(0, lambda: None)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(FAKES)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = psutil.Process(int(parent.stdout.readline()))
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert worker.wait(timeout=500) in (1, None)
