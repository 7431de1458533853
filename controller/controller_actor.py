"""The controller as a Ray actor: hosts a `ControllerServer` and reports its endpoint.

Neither protocol uses Ray calls. Ray starts the process, restarts it after its death, and finds it by name;
its state is on its disk.
"""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING, Any, TypeVar

import ray

from ..protocol.errors import NetworkError
from ..runtime.config_references_io import resolve_references
from ..runtime.control_secret_actor import SecretCheck
from ..runtime.death_watch_actor import DeathWatch
from ..runtime.named_actor import ActorEndpoint, ActorFinder, detached, own_address
from ..runtime.server_host_io import ServerHost, settle_process
from ..runtime.thread_stacks_io import thread_stacks
from ..runtime.tracing.control_io import ControlSpans, control_call
from ..runtime.tracing.log_ids import LOG_FORMAT, log_with_ids
from .config import ControllerConfig
from .controller_io import ControllerServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..protocol.records.control import VoterDescription
    from ..runtime.incarnation import Deaths
    from ..runtime.telemetry.exporting import TelemetryFactory

T = TypeVar("T")

CALL_TIMEOUT_S = 5.0


class ControllerActor:
    """The control interface of one controller process. All calls are idempotent; those that change something
    need the secret of the cluster. Errors of these: ClusterAuthorizationFailedError.

    It has no coroutine methods: with one, Ray would run all calls in one event loop of its own, and a Ray
    call from the server's threads would block inside an async actor. Errors: ConfigError from the
    constructor, which Ray reports as the permanent death of the actor.
    """

    def __init__(
        self,
        name: str,
        namespace: str,
        other_names: Sequence[str],
        config: Mapping[str, Any],
        telemetry: TelemetryFactory,
    ) -> None:
        log_with_ids(logging.INFO, LOG_FORMAT)
        self._config = ControllerConfig.of({"listener.host": own_address(), **resolve_references(config)})
        finders = tuple(ActorFinder(ActorEndpoint(namespace, other)) for other in other_names)
        self._telemetry = telemetry
        self._check = SecretCheck(namespace, name)
        self.control_spans = ControlSpans(name)
        self._host = ServerHost(name, lambda: self._new_server(finders), on_ready=settle_process)
        self._watch = DeathWatch(ray.get_runtime_context().gcs_address, self._note_ended)
        self._watch.start()

    def _new_server(self, finders: Sequence[ActorFinder]) -> ControllerServer:
        self._server = ControllerServer(self._config, bootstrap=finders, telemetry=self._telemetry)
        return self._server

    def _note_ended(self, deaths: Deaths) -> None:
        """Called on the thread of the death watch. Errors: ClosedError, TimeoutError when the server cannot
        take it."""
        self._host.call(_on_loop(lambda: self._server.note_ended(deaths)), CALL_TIMEOUT_S)

    @control_call
    def ready(self, timeout_s: float) -> tuple[str, int]:
        """The endpoint, once the controller serves. Errors: why it cannot start; ApiTimeoutError."""
        self._host.wait_ready(timeout_s)
        return self.endpoint()

    @control_call
    def endpoint(self) -> tuple[str, int]:
        """Host and port. Errors: NetworkError (retriable) until the controller serves."""
        endpoint = self._host.endpoint
        if endpoint is None:
            raise NetworkError("the controller is starting")
        return endpoint

    @control_call
    def voter(self) -> tuple[VoterDescription, bool]:
        """This controller as a voter, and whether its disk is blank, so that it may be part of a new
        quorum."""
        facts = _on_loop(lambda: (self._server.describe_voter(), self._server.is_blank))
        return self._host.call(facts, CALL_TIMEOUT_S)

    @control_call
    def begin(self, secret: str, voters: Sequence[VoterDescription]) -> None:
        """Begin the quorum; does nothing if this controller is part of one."""
        self._check(secret, "begin")

        def begin_if_blank() -> None:
            if self._server.is_blank:
                self._server.begin(voters)

        self._host.call(_on_loop(begin_if_blank), CALL_TIMEOUT_S)

    @control_call
    def status(self) -> dict[str, Any]:
        """JSON-able; `state` is starting, running, stopping, stopped or failed."""
        return self._host.status()

    @control_call
    def stacks(self) -> dict[str, list[str]]:
        """The stacks of all threads of this process, also while the server's loop is blocked."""
        return thread_stacks()

    @control_call
    def stop(self, secret: str, timeout_s: float, delete_data: bool = False) -> None:
        """Shut down cleanly; with `delete_data` the metadata log is removed afterwards."""
        self._check(secret, "stop")
        self._watch.stop()
        self._host.stop(timeout_s)
        if delete_data:
            shutil.rmtree(self._config.metadata_log_dir, ignore_errors=True)

    @control_call
    def restart(self, secret: str, timeout_s: float) -> None:
        """Shut down cleanly and end the process behind this call; Ray starts it again."""
        self._check(secret, "restart")
        self._watch.stop()
        self._host.restart(timeout_s)


async def _on_loop(work: Callable[[], T]) -> T:
    """For `ServerHost.call`: the server is used only on its own thread."""
    return work()


def controller_name(index: int) -> str:
    """The actor name of controller `index` (from 1)."""
    return f"controller-{index}"


def controller_actor(
    index: int,
    namespace: str,
    names: Sequence[str],
    config: Mapping[str, Any],
    resources: Mapping[str, float],
    telemetry: TelemetryFactory,
) -> Any:
    """The handle of controller `index` of this namespace: the running actor, or a new one. `names` are those
    of all controllers of the cluster; one of several replaces its own lost disk automatically.
    `telemetry` is a function of a module, which travels by its name."""
    name = controller_name(index)
    joining = {"controller.quorum.auto.join.enable": True} if len(names) > 1 else {}
    options = detached(name, namespace, resources)
    others = tuple(other for other in names if other != name)
    values = {**joining, **config, "controller.id": index}
    return ray.remote(ControllerActor).options(**options).remote(name, namespace, others, values, telemetry)
