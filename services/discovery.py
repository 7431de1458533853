"""How a client with no bootstrap address finds a cluster: by Ray actor names, or this machine's files."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..protocol.errors import ConfigError
from .cluster_files_io import DEFAULT_CLUSTER, UnknownClusterError, known_clusters, read_cluster_file

CLUSTER_VARIABLE = "HEADRACE_CLUSTER"
NAMESPACE_PREFIX = "headrace-"
NODE_PREFIX = "node-"
CONTROLLER_PREFIX = "controller-"
ASK_TIMEOUT_S = 2.0


def discover() -> str | None:
    """The bootstrap addresses of the cluster meant by HEADRACE_CLUSTER, or of the only one there is.

    Inside a program that uses Ray, the cluster is looked for there first. None when there is none.
    Errors: ConfigError when several clusters are there and none is named.
    """
    wanted = os.environ.get(CLUSTER_VARIABLE) or None
    return _from_ray(wanted) or _from_files(wanted)


def _from_files(wanted: str | None) -> str | None:
    known = known_clusters()
    name = wanted or (DEFAULT_CLUSTER if DEFAULT_CLUSTER in known else _only(known))
    if name is None:
        return None
    try:
        return ",".join(read_cluster_file(name).bootstrap) or None
    except UnknownClusterError:
        return None


def _from_ray(wanted: str | None) -> str | None:
    """Ask the storage node actors of the Ray that this process is connected to, if it is."""
    ray: Any = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    actors = [
        (entry["namespace"].removeprefix(NAMESPACE_PREFIX), entry["name"], entry["namespace"])
        for entry in ray.util.list_named_actors(all_namespaces=True)
        if entry["namespace"].startswith(NAMESPACE_PREFIX) and entry["name"].startswith(NODE_PREFIX)
    ]
    clusters = sorted({cluster for cluster, _, _ in actors})
    name = wanted or (DEFAULT_CLUSTER if DEFAULT_CLUSTER in clusters else _only(clusters))
    handles = [ray.get_actor(actor, namespace) for cluster, actor, namespace in actors if cluster == name]
    calls = [handle.endpoint.remote() for handle in handles]
    ready, _ = ray.wait(calls, num_returns=len(calls), timeout=ASK_TIMEOUT_S) if calls else ([], [])
    found = [answer for answer in (_answer(ray, call) for call in ready) if answer is not None]
    return ",".join(found) or None


def _answer(ray: Any, call: Any) -> str | None:
    try:
        host, port = ray.get(call)
    except ray.exceptions.RayError:  # a node that starts, or is gone: the others will do
        return None
    return f"{host}:{port}"


def _only(names: list[str]) -> str | None:
    if len(names) > 1:
        raise ConfigError(
            f"several clusters are here ({', '.join(names)}): set {CLUSTER_VARIABLE} or pass bootstrap"
        )
    return names[0] if names else None
