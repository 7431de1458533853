"""A storage node as a Ray actor: hosts a `NodeServer`, which asks the controller actors for their addresses.

The data plane runs on the node's own event-loop thread over ZeroMQ; actor calls only supervise. The
identity of a node is on its disk: a process that Ray starts again finds its id and its logs there.
"""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING, Any

import ray

from ..protocol.errors import NetworkError
from ..runtime.config_references_io import resolve_references
from ..runtime.control_secret_actor import SecretCheck
from ..runtime.named_actor import ActorEndpoint, ActorFinder, detached, own_address, own_incarnation_id
from ..runtime.server_host_io import ServerHost, settle_process
from ..runtime.thread_stacks_io import thread_stacks
from ..runtime.tracing.control_io import ControlSpans, control_call
from ..runtime.tracing.log_ids import LOG_FORMAT, log_with_ids
from .configs.node_config import NodeConfig
from .shell.node_io import NodeServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..runtime.telemetry.exporting import TelemetryFactory
    from .edge.gateway import GatewayFactory
    from .edge.native_sasl import SaslProvider
    from .embedded.contract import CoordinatorFactory

log = logging.getLogger("headrace.node")


class NodeActor:
    """Control surface of one storage node process. All calls are idempotent; those that change something need
    the secret of the cluster. Errors of these: ClusterAuthorizationFailedError.

    Errors: ConfigError from the constructor, which Ray reports as the death of the actor for good.
    """

    def __init__(
        self,
        name: str,
        namespace: str,
        controller_names: Sequence[str],
        config: Mapping[str, Any],
        coordinators: CoordinatorFactory,
        gateway: GatewayFactory,
        sasl: SaslProvider,
        telemetry: TelemetryFactory,
    ) -> None:
        log_with_ids(logging.INFO, LOG_FORMAT)
        self._config = NodeConfig.of({"listener.host": own_address(), **resolve_references(config)})
        self._coordinators, self._gateway, self._sasl = coordinators, gateway, sasl
        self._telemetry = telemetry
        finders = tuple(ActorFinder(ActorEndpoint(namespace, controller)) for controller in controller_names)
        self._check = SecretCheck(namespace, name)
        self.control_spans = ControlSpans(name, self._config)
        self._host = ServerHost(name, lambda: self._new_server(finders), on_ready=settle_process)

    def _new_server(self, finders: tuple[ActorFinder, ...]) -> NodeServer:
        server = NodeServer(
            self._config,
            finders,
            coordinators=self._coordinators,
            gateway=self._gateway,
            sasl=self._sasl,
            telemetry=self._telemetry,
        )
        server.incarnation_id = own_incarnation_id()
        return server

    @control_call
    def ready(self, timeout_s: float) -> tuple[str, int]:
        """The endpoint, once the node serves. Errors: why it cannot start; ApiTimeoutError."""
        self._host.wait_ready(timeout_s)
        return self.endpoint()

    @control_call
    def endpoint(self) -> tuple[str, int]:
        """Host and port. Errors: NetworkError (retriable) until the node serves."""
        endpoint = self._host.endpoint
        if endpoint is None:
            raise NetworkError("the storage node is starting")
        return endpoint

    @control_call
    def status(self) -> dict[str, Any]:
        """Facts for people, JSON-able; `state` is starting, running, stopping, stopped or failed."""
        return self._host.status()

    @control_call
    def stacks(self) -> dict[str, list[str]]:
        """The stacks of all threads of this process, also while the server's loop is blocked."""
        return thread_stacks()

    @control_call
    def stop(self, secret: str, timeout_s: float, delete_data: bool = False) -> None:
        """Shut down cleanly; with `delete_data` the log dirs are removed afterwards."""
        self._check(secret, "stop")
        self._host.stop(timeout_s)
        if delete_data:
            for directory in self._config.log_dirs:
                shutil.rmtree(directory, ignore_errors=True)

    @control_call
    def restart(self, secret: str, timeout_s: float) -> None:
        """Shut down cleanly and end the process behind this call; Ray starts it again."""
        self._check(secret, "restart")
        self._host.restart(timeout_s)


def node_name(index: int) -> str:
    """The actor name of storage node `index` (from 1)."""
    return f"node-{index}"


def node_actor(
    index: int,
    namespace: str,
    controller_names: Sequence[str],
    config: Mapping[str, Any],
    resources: Mapping[str, float],
    coordinators: CoordinatorFactory,
    gateway: GatewayFactory,
    sasl: SaslProvider,
    telemetry: TelemetryFactory,
) -> Any:
    """The handle of storage node `index` of this namespace: the one that runs, or a new one.

    `coordinators`, `gateway`, `sasl` and `telemetry` are functions or classes of modules, which travel by
    their names.
    """
    name = node_name(index)
    options = detached(name, namespace, resources)
    return (
        ray.remote(NodeActor)
        .options(**options)
        .remote(
            name, namespace, tuple(controller_names), dict(config), coordinators, gateway, sasl, telemetry
        )
    )
