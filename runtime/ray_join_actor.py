"""Joins a Ray cluster as a driver, quietly."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def join_ray(address: str, namespace: str, ray_env: Mapping[str, str]) -> None:
    """Connect this process. `ray_env` has the RAY_* variables of that Ray; see `set_ray_env`.

    The handler of SIGTERM stays: Ray's would end the process without cleanup. Errors: those of `ray.init`,
    ConnectionError, RuntimeError or ValueError.
    """
    set_ray_env(ray_env)
    import ray

    _read_again()
    on_terminate = signal.getsignal(signal.SIGTERM) or signal.SIG_DFL
    ray.init(
        address=address,
        namespace=namespace,
        log_to_driver=False,
        configure_logging=False,
        logging_level=logging.ERROR,
    )
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, on_terminate)


def set_ray_env(ray_env: Mapping[str, str]) -> None:
    """Set the variables in this process, whose own values may be those of another Ray."""
    os.environ.update(ray_env)
    if "RAY_AUTH_TOKEN_PATH" in ray_env:
        os.environ.pop("RAY_AUTH_TOKEN", None)  # it would have precedence over the file


def _read_again() -> None:
    """Ray reads its variables when it is imported, which a program may have done before they were set."""
    from ray import _raylet
    from ray._private import ray_constants

    raylet: Any = _raylet
    constants: Any = ray_constants
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()
    name = constants.ENABLE_RAY_CLUSTERS_ENV_VAR
    constants.ENABLE_RAY_CLUSTER = constants.env_bool(name, sys.platform == "linux")
