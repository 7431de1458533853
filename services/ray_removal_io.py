"""Takes one storage node out of a cluster on Ray: its actor, its data, its place in the cluster file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..protocol.errors import HeadraceError
from ..runtime.tracing.control_io import call_context
from ..runtime.waiting_io import until
from .cluster_files_io import cluster_lock, read_cluster_file, write_cluster_file
from .cluster_secret_io import checked_secret
from .data_dirs_io import mark_removed
from .discovery import NODE_PREFIX
from .placement import without_machine
from .ray_host import GONE_TIMEOUT_S, STOP_TIMEOUT_S, namespace_of, node_indices
from .ray_readiness import POLL_S, reason_of
from .ray_session import actor_names, gather, is_reachable, joined

if TYPE_CHECKING:
    from collections.abc import Callable

    from .cluster_files_io import ClusterFile

    Report = Callable[[str], None]


def stop_node(cluster: str, node_id: int, report: Report, *, delete_data: bool) -> None:
    """Shut the node down cleanly and end its actor; nothing happens without one. Errors: HeadraceError if
    another `up` or `down` runs, Ray does not answer, or the node does not stop."""
    name = f"{NODE_PREFIX}{node_id}"
    with cluster_lock(cluster):
        cluster_file = read_cluster_file(cluster)
        namespace = namespace_of(cluster)
        if not is_reachable(cluster_file.ray_address):
            raise HeadraceError(f"no Ray answers at {cluster_file.ray_address}: {name} cannot be stopped")
        with joined(cluster_file.ray_address, namespace, cluster_file.ray_env) as ray:
            if name not in actor_names(ray, namespace):
                return
            actor = ray.get_actor(name, namespace)
            has_no_machine = name in without_machine(cluster_file.pins, ray.cluster_resources())
            if not has_no_machine:
                report(f"stopping {name}")
                secret = checked_secret(cluster, namespace)
                stopping = actor.stop.remote(secret, STOP_TIMEOUT_S, delete_data, **call_context())
                answer = gather(ray, {name: stopping}, STOP_TIMEOUT_S + 2)[name]
                if isinstance(answer, BaseException):
                    report(f"warning: {name} did not stop cleanly: {reason_of(answer)}")
            ray.kill(actor, no_restart=True)
            until(lambda: name not in actor_names(ray, namespace), GONE_TIMEOUT_S, POLL_S)


def forget_node(cluster: str, node_id: int) -> None:
    """Take the node out of the cluster file, and mark it in the data dir, so that `up` does not start it
    again, also after `down`. Idempotent. Errors: as `read_cluster_file`."""
    with cluster_lock(cluster):
        before = read_cluster_file(cluster)
        after = without_node(before, node_id)
        if after is not before:
            mark_removed(before.data_dir, node_id)
            write_cluster_file(after)


def without_node(cluster_file: ClusterFile, node_id: int) -> ClusterFile:
    """The cluster file without one of its nodes. Pure."""
    indices = node_indices(cluster_file)
    if node_id not in indices:
        return cluster_file
    name, place = f"{NODE_PREFIX}{node_id}", indices.index(node_id)
    bootstrap = cluster_file.bootstrap
    if len(bootstrap) == len(indices):  # in the order of the nodes
        bootstrap = bootstrap[:place] + bootstrap[place + 1 :]
    return msgspec.structs.replace(
        cluster_file,
        nodes=cluster_file.nodes - 1,
        removed=tuple(sorted({*cluster_file.removed, node_id})),
        bootstrap=bootstrap,
        pins={each: pin for each, pin in cluster_file.pins.items() if each != name},
    )


def is_of_cluster(cluster: str, node_id: int) -> bool:
    """Whether the cluster file has the node. Errors: as `read_cluster_file`."""
    return node_id in node_indices(read_cluster_file(cluster))
