"""The supervisor of an application: keeps as many workers as wanted, near the leaders of its partitions.

The loop compares what should run with what runs (`fleet.py`), and performs the difference. What is wanted is
saved before it is done, so that a restarted supervisor goes on: it finds the workers by name.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from .autoscaling import Autoscaler, Limits, PastEnds
from .fleet import Fleet, FleetState, StartWorker
from .plan import leads_by_node, node_for
from .run import describe_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...protocol.model import TopicPartition
    from .observer_io import Progress
    from .plan import WorkerId
    from .processes_io import Processes
    from .run import Report, Run

log = logging.getLogger("headrace.stream")

TICK_S = 0.25
LEADERS_AGE_S = 60.0
RUNNING = "RUNNING"


class Cluster(Protocol):
    """What is asked of the cluster of the application."""

    def leaders(self) -> list[str]:
        """The host of the leader of each source partition."""

    def progress(self, until: Mapping[TopicPartition, int] | None) -> Progress | None:
        """What the group has not processed up to these ends; None if it is not known."""

    def close(self) -> None:
        """Close connections."""


class Supervisor:
    """Runs from `start` until all workers have ended. `save` stores durably how many workers are wanted, 0 at
    the end, and the error that ended the application. `on_failure`: the loop has failed."""

    def __init__(
        self,
        run: Run,
        target: int,
        processes: Processes,
        new_cluster: Callable[[], Cluster],
        save: Callable[[int, str], None],
        *,
        on_failure: Callable[[], None],
        own_node: str | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run, self._processes, self._save, self._now_s = run, processes, save, now_s
        self._fleet = Fleet(run.config, target)
        self._on_failure = on_failure
        self._new_cluster, self._own_node = new_cluster, own_node
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._nodes: dict[WorkerId, str] = {}  # where its process is
        self._homes: dict[int, str] = {}  # slot -> the node of its last process
        self._leads: tuple[float, list[str]] | None = None
        self._lag: int | None = None
        self._last_change = ""
        self.failure = ""
        self._threads = [threading.Thread(target=self._guarded, name="supervisor", daemon=True)]
        if run.config.scales:
            self._threads.append(threading.Thread(target=self._measure, name="autoscaling", daemon=True))

    def start(self) -> None:
        """Adopt what runs, and start the loop."""
        for worker in self._processes.adopt():
            self._fleet.adopt(worker)
        for thread in self._threads:
            thread.start()

    # --- calls ----------------------------------------------------------------------------------------------

    def scale(self, target: int, reason: str) -> None:
        """Run this many workers from now on."""
        with self._lock:
            if target == self._fleet.target or self._fleet.state is not FleetState.RUNNING:
                return
            self._save(target, "")
            self._last_change = f"{self._fleet.target} to {target} workers: {reason}"
            log.info("%s: %s", self._run.application_id, self._last_change)
            self._fleet.scale(target)

    def stop(self, error: str = "") -> None:
        """End all workers, because of an error if there is one; `wait` says when they have ended."""
        with self._lock:
            self._save(0, error)
            if error:
                self._fleet.fail(error)
            else:
                self._fleet.stop()

    def wait(self, timeout_s: float) -> bool:
        """Whether all workers have ended for good."""
        return self._over.wait(timeout_s)

    def status(self) -> dict[str, Any]:
        """Facts for people, JSON-able."""
        statuses = self._processes.statuses()
        with self._lock:
            fleet = self._fleet
            newest = {worker.slot: facts for worker, facts in sorted(statuses.items())}
            workers = [
                {
                    "worker": number,
                    "state": slot.state.value,
                    "restarts": slot.restarts,
                    "failures": slot.failures,
                    "last_error": slot.error,
                    "instance": newest.get(number, {}),
                }
                for number, slot in sorted(fleet.slots.items())
            ]
            found: dict[str, Any] = {
                "application_id": self._run.application_id,
                "run_id": self._run.run_id,
                "state": fleet.state.value,
                "error": fleet.error,
                "target": fleet.target,
                "workers": workers,
                "lag": self._lag,
                "last_change": self._last_change,
            }
        if self._run.config.scales:
            found["autoscale"] = [self._run.config.autoscale_min, self._run.config.autoscale_max]
        return found

    # --- the loop -------------------------------------------------------------------------------------------

    def _guarded(self) -> None:
        try:
            self._loop()
        except BaseException as error:
            log.critical("the supervisor of %s failed", self._run.application_id, exc_info=error)
            self.failure = f"the supervisor failed: {describe_error(error)}"
            self._on_failure()
        else:
            self._over.set()

    def _loop(self) -> None:
        while self._fleet.state in (FleetState.RUNNING, FleetState.STOPPING):
            with self._lock:
                effects = self._fleet.step(self._now_ms())
                ends = self._fleet.state is not FleetState.RUNNING
            for effect in effects:
                if isinstance(effect, StartWorker):
                    self._start(effect.worker)
                else:
                    timeout_s = self._run.config.stop_timeout_ms / 1000
                    self._processes.stop(effect.worker, timeout_s, leaves=not ends)
            began_s = self._now_s()
            events = list(self._processes.events(TICK_S))
            for worker, report in events:
                self._take(worker, report)
            if not events:
                self._over.wait(max(0.0, TICK_S - (self._now_s() - began_s)))

    def _start(self, worker: WorkerId) -> None:
        node = self._node_for(worker)
        log.info("%s: %s starts near node %s", self._run.application_id, worker, node)
        if node is not None:
            self._nodes[worker] = node
        self._processes.start(worker, node)

    def _take(self, worker: WorkerId, report: Report) -> None:
        node = report.facts.get("node_id")
        if node:
            self._nodes[worker] = self._homes[worker.slot] = node
        with self._lock:
            if report.has_ended:
                self._nodes.pop(worker, None)
                if report.error:
                    log.error("%s: %s: %s", self._run.application_id, worker, report.error)
                if report.ends_application and self._fleet.state is FleetState.RUNNING:
                    self.stop(f"{worker} has requested the end of the application: {report.error}")
                self._fleet.ended(worker, self._now_ms(), report.error or "its instance was closed")
                if self._fleet.error:
                    self._save(0, self._fleet.error)
            elif report.state == RUNNING:
                self._fleet.running(worker, self._now_ms())

    def _node_for(self, worker: WorkerId) -> str | None:
        nodes = self._processes.nodes()
        occupied: dict[str, int] = {}
        for node in self._nodes.values():
            occupied[node] = occupied.get(node, 0) + 1
        leads = leads_by_node(self._leaders(), nodes, self._own_node)
        return node_for(sorted(nodes), leads, occupied, self._homes.get(worker.slot))

    def _leaders(self) -> list[str]:
        if self._leads is None or self._now_s() - self._leads[0] > LEADERS_AGE_S:
            cluster = self._new_cluster()
            try:
                self._leads = self._now_s(), cluster.leaders()
            finally:
                cluster.close()
        return self._leads[1]

    def _measure(self) -> None:
        """The thread of automatic scaling."""
        config = self._run.config
        limits = Limits(
            config.autoscale_min,
            config.autoscale_max,
            config.autoscale_lag,
            config.autoscale_up_ms,
            config.autoscale_down_ms,
        )
        scaler, past = Autoscaler(limits), PastEnds(self._run.commit_every_ms)
        cluster = self._new_cluster()
        while not self._over.wait(config.autoscale_interval_ms / 1000):
            now_ms = self._now_ms()
            found = cluster.progress(past.at(now_ms))
            self._lag = None if found is None else found.lag
            if found is not None:
                past.note(now_ms, found.ends)
            workers = self._fleet.target
            tasks = None if found is None else found.tasks or None
            wanted = scaler.decide(now_ms, workers, self._lag, tasks)
            self.scale(wanted, f"lag of {self._lag} records, {tasks} tasks")
        cluster.close()

    def _now_ms(self) -> int:
        return int(self._now_s() * 1000)
