"""Finds, joins and leaves a Ray cluster. Ray is imported only when one is joined."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runtime.ray_join_actor import join_ray, set_ray_env
from .own_ray_io import RayStartError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

START_OWN = "local"  # as an address: start a new Ray in any case
FIND = "auto"  # as an address: the Ray that `ray start` started on this machine
CONNECT_TIMEOUT_S = 2.0


def wanted_address(given: str | None) -> str | None:
    """The address of the Ray to join, or None to start one.

    Order of precedence: `given`, RAY_ADDRESS, the Ray that `ray start` started on this machine. Errors:
    RayStartError for "auto" if none runs.
    """
    wanted = given or os.environ.get("RAY_ADDRESS") or ""
    if wanted == START_OWN:
        return None
    if wanted and wanted != FIND:
        return wanted
    found = _address_left_by_ray_start()
    if found is None and wanted == FIND:
        raise RayStartError(
            "no Ray runs on this machine; start one with `ray start --head`, or leave out the address"
        )
    return found


def is_reachable(address: str) -> bool:
    """Whether a server listens at the address; Ray itself would retry for half a minute."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return True  # not host:port (a Ray client URL): Ray decides
    try:
        with socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False


@contextlib.contextmanager
def joined(address: str, namespace: str, ray_env: Mapping[str, str] | None = None) -> Iterator[Any]:
    """The `ray` module, connected to that cluster; disconnected at the end unless it was connected before.
    `ray_env`: the RAY_* variables of that Ray.

    Errors: RayStartError if Ray does not answer or rejects the connection.
    """
    if not is_reachable(address):
        raise RayStartError(f"no Ray answers at {address}")
    set_ray_env(ray_env or {})  # Order: before Ray is imported
    import ray

    if ray.is_initialized():
        yield ray
        return
    try:
        join_ray(address, namespace, ray_env or {})
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RayStartError(f"cannot join the Ray at {address}: {error}") from error
    try:
        # Ray prints notices on standard output, which is for results of commands only
        with contextlib.redirect_stdout(sys.stderr):
            yield ray
    finally:
        ray.shutdown()


def actor_names(ray: Any, namespace: str) -> list[str]:
    """Names of all live or restarting actors of a namespace, sorted."""
    entries: list[Mapping[str, str]] = ray.util.list_named_actors(all_namespaces=True)
    return sorted(entry["name"] for entry in entries if entry["namespace"] == namespace)


def machine_addresses(ray: Any) -> list[str]:
    """IP addresses of all live machines of the Ray cluster, sorted."""
    return sorted({node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]})


def gather(ray: Any, calls: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """The result of each call, or its exception; GetTimeoutError for unfinished calls."""
    deadline = time.monotonic() + timeout_s
    answers: dict[str, Any] = {}
    for name, call in calls.items():
        left_s = max(0.0, deadline - time.monotonic())
        try:
            answers[name] = ray.get(call, timeout=left_s)
        except ray.exceptions.RayError as error:
            answers[name] = cause_of(error)
    return answers


def cause_of(error: BaseException) -> BaseException:
    """The exception of an actor's method, without Ray's wrapper; the error itself if Ray raised it."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error


def _address_left_by_ray_start() -> str | None:
    marker = Path(os.environ.get("RAY_TMPDIR") or "/tmp") / "ray" / "ray_current_cluster"  # noqa: S108 - Ray's place
    try:
        address = marker.read_text().strip()
    except OSError:
        return None
    return address if address and is_reachable(address) else None
