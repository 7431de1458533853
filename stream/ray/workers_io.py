"""The handle of an application that runs on Ray, for any program that is connected to it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError, RayActorError

from ...runtime.tracing.control_io import call_context
from ...runtime.waiting_io import let_pass
from ..errors import WorkersError
from .addresses_io import bootstrap_of
from .config import MOST_WORKERS
from .fleet import FleetState
from .plan import NAMESPACE, supervisors_in, workers_in
from .supervisor_actor import forget, supervisor_actor

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from ..query.client_io import Queries
    from .program_io import Program
    from .run import Run

CALL_S = 60.0  # a supervisor that Ray restarts on another machine answers after about 20 s
WAIT_S = 5.0
RETRY_S = 0.5
STOP_S = 90.0
RUNNING = "RUNNING"


class Workers:
    """An application on Ray. At the end of a `with` statement it is stopped."""

    def __init__(self, application_id: str, supervisor: Any) -> None:
        self.application_id = application_id
        self._supervisor = supervisor

    def status(self) -> dict[str, Any]:
        """Facts for people, JSON-able.

        Keys: `state` (RUNNING, STOPPING, STOPPED, FAILED), `error`, `target`, `lag`, `last_change`, and
        `workers`: of each its number, `state`, `restarts`, `last_error`, and as `instance` its state,
        `endpoint`, `host`, `node_id`, `pid`, `state_dir` and `threads` with tasks. Errors: WorkersError.
        """
        found: dict[str, Any] = self._call(lambda: self._supervisor.status.remote(**call_context()))
        return found

    def scale(self, workers: int) -> None:
        """Run this many workers from now on, which is saved; it returns before they have started or ended.
        Those above it commit, and give their tasks away. Errors: WorkersError, ValueError."""
        if not 1 <= workers <= MOST_WORKERS:
            raise ValueError(f"workers must be 1 to {MOST_WORKERS}, not {workers}; `stop` ends it")
        self._call(lambda: self._supervisor.scale.remote(workers, **call_context()))

    def run(self) -> Run:
        """What runs. Errors: WorkersError."""
        found: Run = self._call(lambda: self._supervisor.run.remote(**call_context()))
        return found

    def queries(self, *, timeout_s: float = 10.0) -> Queries:
        """A handle for queries about the state of all workers, with the serdes of the program; close it.
        Errors: WorkersError."""
        run = self.run()
        program: Program = run.program
        app, _ = program.load()
        secret = {"query.secret": run.query_secret} if run.query_secret else {}
        return app.queries(bootstrap_of(run), timeout_s=timeout_s, config={**run.app_config, **secret})

    def wait_until_running(self, timeout_s: float = 120.0) -> None:
        """Wait until as many workers as wanted run, with their tasks restored. Errors: WorkersError, with the
        last error of a worker after `timeout_s`."""
        ends_at_s = time.monotonic() + timeout_s
        while True:
            status = self.status()
            _check(status)
            running = [each for each in status["workers"] if each["instance"].get("state") == RUNNING]
            if len(running) >= status["target"]:
                return
            if time.monotonic() > ends_at_s:
                raise WorkersError(_why_not(status, len(running), timeout_s))
            let_pass(RETRY_S)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the application has ended. False after `timeout_s`. Errors: WorkersError with the error
        that ended it."""
        ends_at_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = WAIT_S if ends_at_s is None else min(WAIT_S, max(ends_at_s - time.monotonic(), 0.0))
            try:
                ended = self._wait(left_s)
            except WorkersError:
                if self.is_known:
                    raise
                return True  # another program has stopped it
            if ended is not None:
                _check(ended)
                return True
            if ends_at_s is not None and time.monotonic() >= ends_at_s:
                return False

    @property
    def is_known(self) -> bool:
        """Whether Ray knows the application."""
        return self.application_id in supervisors_in(actor_names())

    def stop(self, timeout_s: float = STOP_S) -> None:
        """End the application: its workers commit and close their stores. Its state stays on the machines.

        Errors: WorkersError if it did not end in time, or was ended by an error before.
        """
        ended = None
        try:
            self._call(lambda: self._supervisor.stop.remote(**call_context()))
            ends_at_s = time.monotonic() + timeout_s
            while ended is None and time.monotonic() < ends_at_s:
                ended = self._wait(WAIT_S)
        finally:
            remove(self.application_id)
        if ended is None:
            raise WorkersError(f"{self.application_id} did not end within {timeout_s:.0f} s: it was killed")
        _check(ended)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_known:
            self.stop()

    def _wait(self, timeout_s: float) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._call(
            lambda: self._supervisor.wait.remote(timeout_s, **call_context())
        )
        return found

    def _call(self, call: Callable[[], Any]) -> Any:
        """The result of an idempotent call, repeated while Ray restarts the supervisor."""
        ends_at_s = time.monotonic() + CALL_S
        while True:
            try:
                return ray.get(call(), timeout=max(ends_at_s - time.monotonic(), 1.0))
            except ActorDiedError as error:
                raise WorkersError(f"{self.application_id} does not run on Ray any more") from error
            except (ActorUnavailableError, RayActorError, GetTimeoutError) as error:
                if time.monotonic() >= ends_at_s:
                    raise WorkersError(
                        f"the supervisor of {self.application_id} does not answer for {CALL_S:.0f} s"
                    ) from error
                let_pass(RETRY_S)


def found_workers(application_id: str) -> Workers:
    """The handle of an application that runs. Errors: WorkersError."""
    try:
        return Workers(application_id, ray.get_actor(application_id, NAMESPACE))
    except ValueError as error:
        known = ", ".join(supervisors_in(actor_names()))
        hint = f"; there are {known}" if known else ""
        raise WorkersError(f"no application {application_id!r} runs on this Ray{hint}") from error


def new_workers(run: Run) -> Workers:
    """Start the supervisor of a run. Errors: WorkersError if it fails at once."""
    workers = Workers(run.application_id, supervisor_actor(run))
    workers.status()
    return workers


def remove(application_id: str) -> None:
    """Kill what is left of an application: its supervisor first, which would replace workers."""
    names = actor_names()
    left = [each for each in supervisors_in(names) if each == application_id]
    for name in (*left, *workers_in(names, application_id)):
        try:
            ray.kill(ray.get_actor(name, NAMESPACE), no_restart=True)
        except ValueError:
            continue  # it has just ended
    forget(application_id)


def actor_names() -> list[str]:
    """The names of all supervisors and workers on this Ray."""
    entries = ray.util.list_named_actors(all_namespaces=True)
    return [entry["name"] for entry in entries if entry["namespace"] == NAMESPACE]


def _check(status: dict[str, Any]) -> None:
    """Errors: WorkersError if the application was ended by an error."""
    if status["state"] == FleetState.FAILED.value or status["error"]:
        raise WorkersError(f"{status['application_id']}: {status['error']}")


def _why_not(status: dict[str, Any], running: int, timeout_s: float) -> str:
    workers = status["workers"]
    errors = [f"worker {each['worker']}: {each['last_error']}" for each in workers if each["last_error"]]
    silent = [str(each["worker"]) for each in workers if not each["instance"]]
    text = (
        f"{running} of {status['target']} workers of {status['application_id']} run after {timeout_s:.0f} s"
    )
    if silent:
        text += f"; Ray has not started worker {', '.join(silent)}: too few processors, memory or resources?"
    return "; ".join((text, *errors))
