"""The supervisor as a detached Ray actor: it outlives the program that started the application.

Ray restarts it, on any machine; it finds the wanted number of workers in Ray's key-value store, and the
workers by name.
"""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any

import ray
from ray.experimental import internal_kv

from ...runtime.named_actor import own_address
from ...runtime.server_host_io import LINGER_S, end_process
from ...runtime.tracing.control_io import ControlSpans, control_call
from ...runtime.tracing.log_ids import LOG_FORMAT, log_with_ids
from ...runtime.waiting_io import let_pass
from ..errors import WorkersError
from .observer_io import Observer
from .plan import NAMESPACE
from .processes_io import RayProcesses
from .runtime_env_io import package_of
from .supervisor_io import Supervisor

if TYPE_CHECKING:
    from .run import Run

_KEYS = NAMESPACE.encode()


class SupervisorActor:
    """Control surface of a run. All calls are idempotent."""

    def __init__(self, run: Run) -> None:
        log_with_ids(logging.INFO, LOG_FORMAT)
        self._run = run
        self.control_spans = ControlSpans(f"supervisor of {run.application_id}")
        saved = _saved(run)
        self._supervisor = Supervisor(
            run,
            run.config.first_target if saved is None else saved["target"],
            RayProcesses(run),
            lambda: Observer(run),
            lambda target, error: _save(run, target, error),
            on_failure=_end_later,
            own_node=ray.get_runtime_context().get_node_id(),
        )
        if saved is not None and not saved["target"]:
            self._supervisor.stop(saved["error"])
        self._supervisor.start()

    @control_call
    def run(self) -> Run:
        """What it runs."""
        return self._run

    @control_call
    def status(self) -> dict[str, Any]:
        """Facts for people, JSON-able."""
        context = ray.get_runtime_context()
        own = {"pid": os.getpid(), "host": own_address(), "node_id": context.get_node_id()}
        return {**self._checked().status(), "supervisor": own}

    @control_call
    def scale(self, target: int) -> None:
        """Run this many workers."""
        self._checked().scale(target, "as requested")

    @control_call
    def stop(self) -> None:
        """End all workers; `wait` says when they have ended."""
        self._checked().stop()

    @control_call
    def wait(self, timeout_s: float) -> dict[str, Any] | None:
        """The last status, once all workers have ended for good; None after `timeout_s`."""
        return self._supervisor.status() if self._checked().wait(timeout_s) else None

    def _checked(self) -> Supervisor:
        """Errors: WorkersError while a failed supervisor has not ended."""
        if self._supervisor.failure:
            raise WorkersError(self._supervisor.failure)
        return self._supervisor


def _end_later() -> None:
    """End this process, and let Ray start another one; callers get the error for a moment."""
    let_pass(LINGER_S)
    end_process(1)


def supervisor_actor(run: Run) -> Any:
    """A handle of the supervisor of a new run. Errors: ValueError if the application has one."""
    return (
        ray.remote(SupervisorActor)
        .options(
            name=run.application_id,
            namespace=NAMESPACE,
            lifetime="detached",
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=64,
            num_cpus=0.001,
            runtime_env=package_of(run.runtime_env),
        )
        .remote(run)
    )


def forget(application_id: str) -> None:
    """Delete what the supervisor of an ended run has saved."""
    internal_kv._internal_kv_del(application_id.encode(), namespace=_KEYS)  # noqa: SLF001 - as Ray Serve does


def _saved(run: Run) -> dict[str, Any] | None:
    """What was saved last by a supervisor of this run: 0 workers are wanted at its end."""
    key = run.application_id.encode()
    found = internal_kv._internal_kv_get(key, namespace=_KEYS)  # noqa: SLF001 - as above
    saved: dict[str, Any] = json.loads(found or b"{}")
    return saved if saved.get("run_id") == run.run_id else None


def _save(run: Run, target: int, error: str) -> None:
    text = json.dumps({"run_id": run.run_id, "target": target, "error": error}).encode()
    key = run.application_id.encode()
    internal_kv._internal_kv_put(key, text, overwrite=True, namespace=_KEYS)  # noqa: SLF001 - as above
