"""Discovery of a cluster for a client without bootstrap addresses: Ray actor names, or this machine's
files."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from ..stream.ray.finders import FoundRay
from .cluster_files_io import DEFAULT_CLUSTER, UnknownClusterError, known_clusters, read_cluster_file

if TYPE_CHECKING:
    from collections.abc import Iterable

CLUSTER_VARIABLE = "HEADRACE_CLUSTER"
NAMESPACE_PREFIX = "headrace-"
NODE_PREFIX = "node-"
CONTROLLER_PREFIX = "controller-"
ASK_TIMEOUT_S = 2.0


def discover() -> str | None:
    """The bootstrap addresses of the cluster named by HEADRACE_CLUSTER, or of the cluster `default`.

    A program that uses Ray searches that Ray first. None if no cluster is up, or if this one has no address
    yet. Errors: as `chosen_cluster`.
    """
    on_ray, in_files = _nodes_on_ray(), known_clusters()
    known = sorted({*on_ray, *in_files})
    if not known:
        return None
    name = chosen_cluster(os.environ.get(CLUSTER_VARIABLE), known, f"{CLUSTER_VARIABLE} or bootstrap=")
    found = _endpoints(on_ray.get(name, ()))
    if not found and name in in_files:
        found = read_cluster_file(name).bootstrap
    return ",".join(found) or None


def ray_of_cluster() -> FoundRay | None:
    """The Ray of the cluster that `discover` finds in the files of this machine; None if it has none there.
    Errors: as `chosen_cluster`."""
    known = known_clusters()
    if not known:
        return None
    facts = read_cluster_file(chosen_cluster(os.environ.get(CLUSTER_VARIABLE), known, CLUSTER_VARIABLE))
    return FoundRay(facts.ray_address, facts.ray_env) if facts.ray_address else None


def chosen_cluster(wanted: str | None, known: Iterable[str], ways: str) -> str:
    """The cluster of clients and commands: `wanted`, or the default one; never another one, to which records
    could be written by mistake. `ways`: how the user can name a cluster.

    Errors: UnknownClusterError, with the names in `known`, if it is not among them.
    """
    name, names = wanted or DEFAULT_CLUSTER, sorted(known)
    if name in names:
        return name
    text = f"no cluster {name!r} is up here"
    raise UnknownClusterError(f"{text}; name another one with {ways}: {', '.join(names)}" if names else text)


def _nodes_on_ray() -> dict[str, list[tuple[str, str]]]:
    """Cluster -> (actor, namespace) of its storage nodes, on the Ray that this process is connected to, if
    any."""
    ray: Any = sys.modules.get("ray")
    found: dict[str, list[tuple[str, str]]] = {}
    if ray is None or not ray.is_initialized():
        return found
    for entry in ray.util.list_named_actors(all_namespaces=True):
        actor, namespace = entry["name"], entry["namespace"]
        if namespace.startswith(NAMESPACE_PREFIX) and actor.startswith(NODE_PREFIX):
            found.setdefault(namespace.removeprefix(NAMESPACE_PREFIX), []).append((actor, namespace))
    return found


def _endpoints(nodes: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The addresses of the storage node actors that answer within ASK_TIMEOUT_S."""
    ray: Any = sys.modules.get("ray")
    calls = [ray.get_actor(actor, namespace).endpoint.remote() for actor, namespace in nodes]
    ready, _ = ray.wait(calls, num_returns=len(calls), timeout=ASK_TIMEOUT_S) if calls else ([], [])
    return tuple(answer for answer in (_answer(ray, call) for call in ready) if answer is not None)


def _answer(ray: Any, call: Any) -> str | None:
    try:
        host, port = ray.get(call)
    except ray.exceptions.RayError:  # a node that is starting or gone: the others are enough
        return None
    return f"{host}:{port}"
