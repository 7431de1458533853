"""The supervisor over processes and a cluster in memory."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from headrace.protocol.model import TopicPartition
from headrace.stream.ray.config import WorkersConfig
from headrace.stream.ray.observer_io import Progress
from headrace.stream.ray.plan import WorkerId
from headrace.stream.ray.run import Report, Run
from headrace.stream.ray.supervisor_io import Supervisor
from waiting import wait_for


class Processes:
    """Processes that run at once, and end when they are asked to."""

    def __init__(self, running: Iterable[WorkerId] = ()) -> None:
        self.running = dict.fromkeys(running, "a")
        self.near: list[tuple[WorkerId, str | None]] = []
        self.stopped: list[tuple[WorkerId, bool]] = []
        self.is_broken = False
        self._news: list[tuple[WorkerId, Report]] = []
        self._came = threading.Condition()

    def adopt(self) -> list[WorkerId]:
        return list(self.running)

    def start(self, worker: WorkerId, node: str | None) -> None:
        assert not self.is_broken
        self.near.append((worker, node))
        self.running[worker] = node or ""
        self._report(worker, Report(1, "RUNNING", facts={"node_id": node}))

    def stop(self, worker: WorkerId, timeout_s: float, *, leaves: bool) -> None:
        self.stopped.append((worker, leaves))
        self.end(worker, "")

    def events(self, timeout_s: float) -> Iterable[tuple[WorkerId, Report]]:
        with self._came:
            self._came.wait_for(lambda: bool(self._news), timeout_s)
            news, self._news = self._news, []
            return news

    def statuses(self) -> dict[WorkerId, dict[str, Any]]:
        return {worker: {"state": "RUNNING"} for worker in dict(self.running)}

    def nodes(self) -> dict[str, str]:
        return {"a": "10.0.0.1", "b": "10.0.0.2"}

    def end(self, worker: WorkerId, error: str, *, ends_application: bool = False) -> None:
        """A process ends."""
        del self.running[worker]
        self._report(worker, Report(2, "ERROR", True, error, ends_application))

    def _report(self, worker: WorkerId, report: Report) -> None:
        with self._came:
            self._news.append((worker, report))
            self._came.notify_all()


class FakeCluster:
    """Leaders on the second machine, and a lag that the test sets."""

    def __init__(self) -> None:
        self.lag = 0

    def leaders(self) -> list[str]:
        return ["10.0.0.2", "10.0.0.2", "10.0.0.1", "10.0.0.2"]

    def progress(self, until: Mapping[TopicPartition, int] | None) -> Progress | None:
        return Progress({TopicPartition("t", 0): self.lag}, None if until is None else self.lag, 8)

    def close(self) -> None:
        """Nothing to close."""


class Rig:
    """A supervisor, what it has, and what it has saved."""

    def __init__(self, target: int = 2, running: Iterable[WorkerId] = (), **config: Any) -> None:
        self.processes, self.cluster = Processes(running), FakeCluster()
        self.saved: list[tuple[int, str]] = []
        self.failed = threading.Event()
        settings = WorkersConfig.of({"worker.restart.backoff.ms": 1, "worker.max.failures": 3}, **config)
        run = Run(
            application_id="app",
            run_id="r",
            program=None,
            config=settings,
            bootstrap=None,
            known="",
            cluster=None,
        )
        self.supervisor = Supervisor(
            run,
            target,
            self.processes,
            lambda: self.cluster,
            lambda target, error: self.saved.append((target, error)),
            on_failure=self.failed.set,
        )

    def until_running(self, *workers: tuple[int, int]) -> None:
        """These processes run, and no others."""
        wanted = {WorkerId(*each) for each in workers}
        wait_for(lambda: set(self.processes.running) == wanted, f"{wanted}, not {self.processes.running}")


@pytest.fixture
def rig() -> Iterator[Rig]:
    """Two workers."""
    made = Rig()
    made.supervisor.start()
    made.until_running((1, 1), (2, 1))
    yield made
    made.supervisor.stop()


def test_scales_and_stops(rig: Rig) -> None:
    """Workers start near the leaders. Those that are too many leave their group; at the end of the
    application they do not. What is wanted is saved."""
    rig.supervisor.scale(4, "as requested")
    rig.until_running((1, 1), (2, 1), (3, 1), (4, 1))
    assert sorted(node or "" for _, node in rig.processes.near) == ["a", "b", "b", "b"]
    assert rig.supervisor.status()["last_change"] == "2 to 4 workers: as requested"
    rig.supervisor.scale(1, "as requested")
    rig.until_running((1, 1))
    assert sorted(rig.processes.stopped) == [(WorkerId(n, 1), True) for n in (2, 3, 4)]
    rig.supervisor.stop()
    assert rig.supervisor.wait(60)
    assert rig.processes.stopped[-1] == (WorkerId(1, 1), False)
    assert rig.saved == [(4, ""), (1, ""), (0, "")]
    status = rig.supervisor.status()
    assert (status["state"], status["error"], status["workers"]) == ("STOPPED", "", [])


def test_replaces_a_dead_worker_where_its_state_is(rig: Rig) -> None:
    """Its status has the error."""
    place = {worker.slot: node for worker, node in rig.processes.near}
    rig.processes.end(WorkerId(2, 1), "killed")
    rig.until_running((1, 1), (2, 2))
    assert rig.processes.near[-1] == (WorkerId(2, 2), place[2])
    wait_for(lambda: rig.supervisor.status()["workers"][1]["state"] == "RUNNING", "it runs")
    worker = rig.supervisor.status()["workers"][1]
    assert (worker["restarts"], worker["last_error"]) == (1, "killed")


def test_workers_that_always_fail_end_the_application(rig: Rig) -> None:
    """The error is saved for the next supervisor."""
    for life in (1, 2, 3):
        for slot in (1, 2):
            worker = WorkerId(slot, life)
            wait_for(lambda worker=worker: worker in rig.processes.running, f"{worker} runs")
            rig.processes.end(worker, "ValueError: bad")
    assert rig.supervisor.wait(60)
    status = rig.supervisor.status()
    assert status["state"] == "FAILED"
    assert status["error"] == "each of 2 workers failed 3 times in a row; the last error: ValueError: bad"
    assert rig.saved[-1] == (0, status["error"])


def test_worker_that_ends_the_application(rig: Rig) -> None:
    """Its handler of uncaught errors said SHUTDOWN_APPLICATION: the others end, and none is replaced."""
    rig.processes.end(WorkerId(1, 1), "ValueError: bad", ends_application=True)
    assert rig.supervisor.wait(60)
    assert [worker for worker, _ in rig.processes.near] == [WorkerId(1, 1), WorkerId(2, 1)]
    assert rig.processes.stopped == [(WorkerId(2, 1), False)]
    assert rig.supervisor.status()["error"].endswith("the end of the application: ValueError: bad")


def test_restarted_supervisor_finds_its_workers() -> None:
    """They go on; those that are missing are started."""
    rig = Rig(3, [WorkerId(1, 4), WorkerId(3, 2)])
    rig.supervisor.start()
    rig.until_running((1, 4), (2, 1), (3, 2))
    rig.supervisor.stop()
    assert rig.supervisor.wait(60)


def test_scales_by_lag() -> None:
    """Up while it is too large, to the upper bound, and down when it is gone."""
    rig = Rig(
        1,
        autoscale_min=1,
        autoscale_max=3,
        autoscale_lag=10,
        autoscale_interval_ms=10,
        autoscale_up_ms=0,
        autoscale_down_ms=0,
    )
    rig.cluster.lag = 1000
    rig.supervisor.start()
    rig.until_running((1, 1), (2, 1), (3, 1))
    assert rig.supervisor.status()["autoscale"] == [1, 3]
    assert rig.saved == [(2, ""), (3, "")]
    rig.cluster.lag = 0
    rig.until_running((1, 1))
    assert rig.supervisor.status()["lag"] == 0
    rig.supervisor.stop()
    assert rig.supervisor.wait(60)


def test_failure_of_the_loop_is_reported() -> None:
    """The process of the supervisor ends then, and Ray starts another one."""
    rig = Rig()
    rig.processes.is_broken = True
    rig.supervisor.start()
    assert rig.failed.wait(60)
    assert rig.supervisor.failure.startswith("the supervisor failed: AssertionError")


def test_runs_are_compared() -> None:
    """The number of workers may differ, nothing else that their processes are made of."""
    rig = Rig()
    run = replace(rig.supervisor._run, program=Program("orders:app"))
    assert run.other_than(replace(run, config=WorkersConfig.of(run.config.to_mapping(), workers=9))) is None
    assert run.other_than(replace(run, threads=2)) == "threads"
    assert run.other_than(replace(run, config=WorkersConfig(gpus=1))) == "worker.gpus"
    assert run.other_than(replace(run, program=Program("orders:other"))) == "program"


class Program:
    """Something with a target."""

    def __init__(self, target: str) -> None:
        self.target = target
