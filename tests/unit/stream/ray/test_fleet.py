"""Which workers should run, and what replaces those that end."""

from headrace.stream.ray.config import WorkersConfig
from headrace.stream.ray.fleet import Fleet, FleetState, StartWorker, StopWorker, WorkerState
from headrace.stream.ray.plan import WorkerId

CONFIG = WorkersConfig(restart_backoff_ms=100, restart_backoff_max_ms=1000, healthy_ms=10_000, max_failures=3)


def started(*workers: tuple[int, int]) -> tuple[StartWorker, ...]:
    """The effects that start these processes."""
    return tuple(StartWorker(WorkerId(*each)) for each in workers)


def running(target: int) -> Fleet:
    """A fleet whose workers run since time 0."""
    fleet = Fleet(CONFIG, target)
    for effect in fleet.step(0):
        fleet.running(effect.worker, 0)
    return fleet


def test_starts_as_many_as_wanted_once() -> None:
    """The effects are not repeated."""
    fleet = Fleet(CONFIG, 2)
    assert fleet.step(0) == started((1, 1), (2, 1))
    assert fleet.step(0) == ()


def test_scales_up_and_down() -> None:
    """The workers with the highest numbers are stopped, and gone when they have ended; a worker that comes
    back has another process number."""
    fleet = running(2)
    fleet.scale(3)
    assert fleet.step(1) == started((3, 1))
    fleet.scale(1)
    assert fleet.step(2) == (StopWorker(WorkerId(2, 1)), StopWorker(WorkerId(3, 1)))
    fleet.scale(2)
    assert fleet.step(3) == ()  # worker 2 is still stopping
    fleet.ended(WorkerId(2, 1), 4, "")
    fleet.ended(WorkerId(3, 1), 4, "")
    assert fleet.step(5) == started((2, 2))
    assert fleet.slots[2].restarts == 0
    assert sorted(fleet.slots) == [1, 2]


def test_dead_worker_is_replaced_at_once_then_with_growing_waits() -> None:
    """A worker that ran for long has no failures before it."""
    fleet = running(2)
    fleet.ended(WorkerId(1, 1), 20_000, "killed")
    assert fleet.step(20_000) == started((1, 2))
    fleet.ended(WorkerId(1, 2), 20_010, "killed")
    assert fleet.step(20_109) == ()
    assert fleet.step(20_110) == started((1, 3))
    fleet.ended(WorkerId(1, 3), 20_120, "killed")
    assert fleet.step(20_319) == ()
    assert fleet.step(20_320) == started((1, 4))
    assert fleet.slots[1].failures == 3
    fleet.running(WorkerId(1, 4), 20_330)
    fleet.ended(WorkerId(1, 4), 40_000, "killed")
    assert fleet.slots[1].failures == 1
    assert fleet.step(40_000) == started((1, 5))
    assert fleet.slots[1].restarts == 4
    assert fleet.state is FleetState.RUNNING


def test_waits_have_a_limit() -> None:
    """Also after a hundred failures."""
    fleet = Fleet(WorkersConfig(restart_backoff_ms=100, restart_backoff_max_ms=1000, max_failures=0), 1)
    now = 0
    for life in range(1, 101):
        assert fleet.step(now) == started((1, life))
        fleet.ended(WorkerId(1, life), now, "killed")
        now += 1000
    assert fleet.state is FleetState.RUNNING


def test_application_fails_when_all_workers_fail() -> None:
    """Not before the last one of them has failed often enough; the error names the last one."""
    fleet = Fleet(CONFIG, 2)
    now = 0
    for _ in range(3):
        for effect in fleet.step(now):
            if effect.worker.slot == 1:
                fleet.ended(effect.worker, now, "ValueError: one")
        now += 5000
    assert fleet.state is FleetState.RUNNING
    fleet.ended(WorkerId(2, 1), now, "ValueError: two")
    fleet.step(now)
    fleet.ended(WorkerId(2, 2), now, "ValueError: two")
    fleet.step(now + 5000)
    fleet.ended(WorkerId(2, 3), now + 5000, "ValueError: two")
    assert fleet.error == "each of 2 workers failed 3 times in a row; the last error: ValueError: two"
    stopped = fleet.step(now + 5000)
    assert stopped == (StopWorker(WorkerId(1, 4)),)
    assert fleet.state is FleetState.STOPPING
    fleet.ended(WorkerId(1, 4), now + 5000, "")
    assert fleet.state is FleetState.FAILED


def test_stop_ends_all_and_cannot_be_undone() -> None:
    """Scaling, and errors, come too late."""
    fleet = running(2)
    fleet.stop()
    fleet.scale(5)
    fleet.fail("late")
    assert fleet.step(1) == (StopWorker(WorkerId(1, 1)), StopWorker(WorkerId(2, 1)))
    fleet.ended(WorkerId(2, 1), 2, "")
    assert fleet.state is FleetState.STOPPING
    fleet.ended(WorkerId(1, 1), 2, "error while closing")
    assert fleet.state is FleetState.STOPPED
    assert fleet.error == ""
    assert fleet.step(3) == ()


def test_news_of_an_older_process_changes_nothing() -> None:
    """Its end was reported twice, or late."""
    fleet = running(1)
    fleet.ended(WorkerId(1, 1), 1, "killed")
    fleet.ended(WorkerId(1, 1), 2, "killed")
    assert fleet.slots[1].failures == 1
    assert fleet.step(2) == started((1, 2))
    fleet.running(WorkerId(1, 1), 3)
    fleet.ended(WorkerId(1, 1), 3, "killed")
    assert fleet.slots[1].state is WorkerState.STARTING
    fleet.ended(WorkerId(7, 1), 3, "never started")
    assert sorted(fleet.slots) == [1]


def test_running_workers_are_adopted() -> None:
    """Of a slot with two processes the newest; those above the wanted number are stopped."""
    fleet = Fleet(CONFIG, 2)
    for worker in ((1, 3), (1, 2), (3, 1)):
        fleet.adopt(WorkerId(*worker))
    assert fleet.step(0) == (*started((2, 1)), StopWorker(WorkerId(3, 1)))
    fleet.running(WorkerId(1, 3), 5)
    assert fleet.slots[1].state is WorkerState.RUNNING
