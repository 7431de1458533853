"""A worker as a Ray actor: one instance of the application in a process of its own.

The supervisor watches it by `report`, and replaces it; Ray restarts it by no means. Its tasks, its state and
its queries are those of any instance: no record passes through Ray.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import ray

from ...clients.sync.admin_io import Admin
from ...runtime.named_actor import own_address
from ...runtime.tracing.log_ids import LOG_FORMAT, log_with_ids
from ..config import split_config
from ..garbage_io import rare_collections
from ..query.hosts import HostInfo
from ..worker.states import InstanceState
from ..worker.uncaught import SHUTDOWN_APPLICATION, shut_down
from .addresses_io import bootstrap_of, state_folder
from .plan import NAMESPACE, actor_options, worker_name
from .run import Report, describe_error

if TYPE_CHECKING:
    from ..worker.instance_io import AppInstance
    from .plan import WorkerId
    from .run import Run

log = logging.getLogger("headrace.stream")


class WorkerActor:
    """Control surface of one worker. All calls are idempotent."""

    def __init__(self, run: Run, worker: WorkerId) -> None:
        log_with_ids(logging.INFO, LOG_FORMAT)
        self._run, self._worker = run, worker
        self._changed = threading.Condition()
        self._version = 0
        self._state = InstanceState.CREATED.value
        self._has_ended = False
        self._error = ""
        self._ends_application = False
        self._is_stopping = False
        self._instance: AppInstance | None = None
        self._facts: dict[str, Any] = {
            "pid": os.getpid(),
            "host": own_address(),
            "node_id": ray.get_runtime_context().get_node_id(),
        }
        threading.Thread(target=self._main, name=str(worker), daemon=True).start()

    def report(self, seen: int, timeout_s: float) -> Report:
        """The state, once its version is above `seen`, or after `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > seen, timeout_s)
            return self._reported()

    def status(self) -> dict[str, Any]:
        """Facts for people, JSON-able: the state, threads and tasks."""
        with self._changed:
            found = self._reported()
        threads = () if self._instance is None else self._instance.threads
        return {
            "state": found.state,
            "error": found.error,
            **found.facts,
            "threads": [
                {
                    "name": thread.name,
                    "state": thread.state.value,
                    "active": [str(task.id) for task in thread.tasks],
                    "standby": [str(task.id) for task in thread.standby_tasks],
                }
                for thread in threads
            ],
        }

    def stop(self, *, leaves: bool) -> None:
        """Commit, close the stores and end; the end is reported. `leaves`: a static member gives its tasks
        away at once."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
            instance = self._instance
        if instance is None:
            return  # `_main` sees it
        while leaves and instance.remove_thread() is not None:
            pass
        instance.close()

    # --- the thread of the instance ---------------------------------------------------------------------

    def _main(self) -> None:
        try:
            with rare_collections():
                self._work()
        except BaseException as error:
            log.exception("%s of %s ended", self._worker, self._run.application_id)
            self._end(describe_error(error))
        else:
            self._end("")

    def _work(self) -> None:
        run = self._run
        app, on_uncaught = run.program.load()
        decide = on_uncaught or shut_down

        def decided(error: BaseException) -> str:
            decision = decide(error)
            self._ends_application = self._ends_application or decision == SHUTDOWN_APPLICATION
            return decision

        bootstrap = bootstrap_of(run)
        own, clients = split_config(run.app_config)
        given = str(own.get("state.dir", own.get("state_dir", app.config.state_dir)))
        with Admin(bootstrap, config={**app.client_configs["admin"], **clients["admin"]}) as admin:
            folder = state_folder(given, admin, self._facts["host"])
        config = {
            **run.app_config,
            "state.dir": str(folder / self._worker.folder),
            "application.server": _with_port(self._facts["host"]),
        }
        if run.query_secret:
            config["query.secret"] = run.query_secret
        for prefix in ("consumer", "main.consumer"):
            static = {**app.client_configs[prefix], **clients[prefix]}.get("group.instance.id")
            if static:
                config[f"{prefix}.group.instance.id"] = f"{static}-{self._worker.slot}"
        instance = app.instance(
            bootstrap,
            threads=run.threads,
            config=config,
            on_uncaught=decided,
            on_state_change=lambda new, _old: self._move(new.value),
        )
        instance.start()
        with self._changed:
            self._instance = instance
            self._facts["state_dir"] = str(folder / self._worker.folder)
            self._facts["endpoint"] = _text(instance.config.endpoint)
            self._version += 1
            self._changed.notify_all()
            is_stopping = self._is_stopping
        if is_stopping:
            instance.close()
        instance.wait()

    def _move(self, state: str) -> None:
        with self._changed:
            self._state = state
            self._version += 1
            self._changed.notify_all()

    def _end(self, error: str) -> None:
        with self._changed:
            self._has_ended, self._error = True, error
            self._version += 1
            self._changed.notify_all()

    def _reported(self) -> Report:
        return Report(
            self._version,
            self._state,
            self._has_ended,
            self._error,
            self._ends_application,
            {**self._facts, "at": time.time()},
        )


def _with_port(host: str) -> str:
    return f"[{host}]:0" if ":" in host else f"{host}:0"


def _text(endpoint: tuple[str, int] | None) -> str:
    return "" if endpoint is None else str(HostInfo(*endpoint))


def worker_actor(run: Run, worker: WorkerId, node: str | None) -> Any:
    """A handle of a new worker, near `node` if there is room. It outlives the supervisor, which finds it by
    name. Errors: ValueError if there is an actor of its name."""
    strategy: Any = "DEFAULT"
    if node is not None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # An actor with a hard affinity to a node that has ended can be scheduled nowhere. With a soft one
        # alone it would wait for the node for as long as its processors or GPUs are taken.
        strategy = NodeAffinitySchedulingStrategy(node_id=node, soft=True, _spill_on_unavailable=True)
    options = {
        **actor_options(run.config, run.resources),
        "name": worker_name(run.application_id, run.run_id, worker),
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "max_restarts": 0,
        "max_task_retries": 0,
        "max_concurrency": 16,
        "scheduling_strategy": strategy,
    }
    if run.runtime_env:
        options["runtime_env"] = dict(run.runtime_env)
    return ray.remote(WorkerActor).options(**options).remote(run, worker)
