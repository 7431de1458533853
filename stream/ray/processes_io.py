"""The processes of workers, as the supervisor sees them: starts, reports, and ends. All calls of Ray for
workers are here; the supervisor's loop runs over any object of the same interface."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayActorError, RayError

from .plan import NAMESPACE, WorkerId, workers_in
from .run import Report, describe_error
from .worker_actor import worker_actor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .run import Run

log = logging.getLogger("headrace.stream")

REPORT_S = 30.0  # longest wait for a report without news
STATUS_S = 3.0


class Processes(Protocol):
    """The processes of one run."""

    def adopt(self) -> list[WorkerId]:
        """Those that run already, and are watched from now on. Processes of other runs are killed."""

    def start(self, worker: WorkerId, node: str | None) -> None:
        """Start a process near a node. Errors are reported as its end."""

    def stop(self, worker: WorkerId, timeout_s: float, *, leaves: bool) -> None:
        """Ask it to end; it is killed after `timeout_s`."""

    def events(self, timeout_s: float) -> Iterable[tuple[WorkerId, Report]]:
        """Reports since the last call; waits for the first one. An ended process is gone."""

    def statuses(self) -> dict[WorkerId, dict[str, Any]]:
        """What the processes say of themselves; of one that does not answer its last report."""

    def nodes(self) -> dict[str, str]:
        """The id and the address of each Ray node."""


@dataclass(slots=True)
class _Process:
    actor: Any
    question: Any
    last: Report | None = None
    kill_at_s: float | None = None


class RayProcesses:
    """See Processes."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._processes: dict[WorkerId, _Process] = {}
        self._failed: list[tuple[WorkerId, Report]] = []

    def adopt(self) -> list[WorkerId]:
        names = [
            each["name"]
            for each in ray.util.list_named_actors(all_namespaces=True)
            if each["namespace"] == NAMESPACE
        ]
        for name, (run_id, worker) in workers_in(names, self._run.application_id).items():
            try:
                actor = ray.get_actor(name, NAMESPACE)
            except ValueError:
                continue  # it has just ended
            if run_id == self._run.run_id:
                self._watch(worker, actor)
            else:
                ray.kill(actor, no_restart=True)
        return sorted(self._processes)

    def start(self, worker: WorkerId, node: str | None) -> None:
        try:
            actor = worker_actor(self._run, worker, node)
        except (ValueError, RayError) as error:
            self._failed.append((worker, _ended(describe_error(error))))
            return
        self._watch(worker, actor)

    def stop(self, worker: WorkerId, timeout_s: float, *, leaves: bool) -> None:
        process = self._processes.get(worker)
        if process is None:
            return
        has_begun = process.last is not None
        process.kill_at_s = time.monotonic() + (timeout_s if has_begun else 0.0)
        if has_begun:
            process.actor.stop.remote(leaves=leaves)

    def events(self, timeout_s: float) -> Iterable[tuple[WorkerId, Report]]:
        found, self._failed = self._failed, []
        found += self._overdue()
        questions = {process.question: worker for worker, process in self._processes.items()}
        if questions:
            wait_s = 0 if found else timeout_s
            ready, _ = ray.wait(list(questions), num_returns=len(questions), timeout=0)
            if not ready and wait_s:
                ready, _ = ray.wait(list(questions), num_returns=1, timeout=wait_s)
            for question in ready:
                report = self._answer(questions[question], question)
                if report is not None:
                    found.append((questions[question], report))
        return found

    def statuses(self) -> dict[WorkerId, dict[str, Any]]:
        processes = dict(self._processes)
        calls = {worker: each.actor.status.remote() for worker, each in processes.items() if each.last}
        if calls:
            ray.wait(list(calls.values()), num_returns=len(calls), timeout=STATUS_S)
        found: dict[WorkerId, dict[str, Any]] = {}
        for worker, each in processes.items():
            found[worker] = {} if each.last is None else {"state": each.last.state, **each.last.facts}
            if worker in calls:
                try:
                    found[worker] = ray.get(calls[worker], timeout=0)
                except RayError:
                    found[worker]["state"] = "SILENT"
        return found

    def nodes(self) -> dict[str, str]:
        return {node["NodeID"]: node["NodeManagerAddress"] for node in _nodes() if node["Alive"]}

    # --- internals ------------------------------------------------------------------------------------------

    def _watch(self, worker: WorkerId, actor: Any) -> None:
        self._processes[worker] = _Process(actor, actor.report.remote(-1, REPORT_S))

    def _answer(self, worker: WorkerId, question: Any) -> Report | None:
        process = self._processes[worker]
        try:
            report: Report = ray.get(question)
        except ActorUnavailableError as error:
            log.info("%s is not reachable: %s", worker, error)
            report = process.last or Report(-1, "SILENT")
            process.question = process.actor.report.remote(report.version, REPORT_S)
            return None
        except RayActorError as error:
            self._forget(worker)
            return _ended(f"its process ended: {_first_line(error)}")
        except RayError as error:
            self._forget(worker)
            return _ended(describe_error(error))
        process.last = report
        if report.has_ended:
            self._forget(worker)
        else:
            process.question = process.actor.report.remote(report.version, REPORT_S)
        return report

    def _overdue(self) -> list[tuple[WorkerId, Report]]:
        now_s = time.monotonic()
        late = [
            w for w, each in self._processes.items() if each.kill_at_s is not None and each.kill_at_s <= now_s
        ]
        for worker in late:
            self._forget(worker)
        return [(worker, _ended("it did not end in time, and was killed")) for worker in late]

    def _forget(self, worker: WorkerId) -> None:
        ray.kill(self._processes.pop(worker).actor, no_restart=True)


def _nodes() -> Iterable[dict[str, Any]]:
    found: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return found


def _ended(error: str) -> Report:
    return Report(-1, "ERROR", has_ended=True, error=error)


def _first_line(error: BaseException) -> str:
    """Ray's messages span a page."""
    text = error.error_msg if isinstance(error, ActorDiedError) else str(error)
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
