"""The controller as a Ray actor: hosts a `ControllerServer`, and says where it listens.

Nothing of the data or control protocol goes through Ray calls. Ray starts the process, starts it again
after its death, and finds it by name; its state is on its disk.
"""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING, Any

import ray

from ..protocol.errors import NetworkError
from ..runtime.server_host_io import ServerHost, settle_process
from .config import ControllerConfig
from .controller_io import ControllerServer

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTROLLER_NAME = "controller-1"


class ControllerActor:
    """Control surface of one controller process. All calls are idempotent.

    Errors: ConfigError from the constructor, which Ray reports as the death of the actor for good.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._config = ControllerConfig.of({"listener.host": _own_address(), **config})
        self._host = ServerHost(
            CONTROLLER_NAME, lambda: ControllerServer(self._config), on_ready=settle_process
        )

    def ready(self, timeout_s: float) -> tuple[str, int]:
        """The endpoint, once the controller serves. Errors: why it cannot start; ApiTimeoutError."""
        self._host.wait_ready(timeout_s)
        return self.endpoint()

    def endpoint(self) -> tuple[str, int]:
        """Host and port. Errors: NetworkError (retriable) until the controller serves."""
        endpoint = self._host.endpoint
        if endpoint is None:
            raise NetworkError("the controller is starting")
        return endpoint

    def status(self) -> dict[str, Any]:
        """Facts for people, JSON-able; `state` is starting, running, stopping, stopped or failed."""
        return self._host.status()

    def stop(self, timeout_s: float, delete_data: bool = False) -> None:
        """Shut down cleanly; with `delete_data` the metadata log is removed afterwards."""
        self._host.stop(timeout_s)
        if delete_data:
            shutil.rmtree(self._config.metadata_log_dir, ignore_errors=True)


def _own_address() -> str:
    """The address by which other machines of the Ray cluster reach this one."""
    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]


def controller_actor(namespace: str, config: Mapping[str, Any], resources: Mapping[str, float]) -> Any:
    """The handle of the controller actor of this namespace: the one that runs, or a new one."""
    options: dict[str, Any] = {
        "name": CONTROLLER_NAME,
        "namespace": namespace,
        "lifetime": "detached",
        "get_if_exists": True,
        "max_restarts": -1,
        "max_task_retries": 0,  # a retry would repeat a control call that may have taken effect
        "max_concurrency": 16,
        "num_cpus": 0.01,  # the scheduler counts it, the work is small
        "resources": dict(resources),
    }
    return ray.remote(ControllerActor).options(**options).remote(dict(config))
