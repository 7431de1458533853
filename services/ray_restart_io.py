"""`headrace restart`: a rolling restart of servers on Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.security.server_keys import server_name
from . import ray_host
from .cluster_files_io import cluster_lock, read_cluster_file
from .cluster_secret_io import checked_secret
from .ray_security_io import RayServers
from .ray_session import joined
from .rolling_restart import RollingRestart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def restart(
    cluster: str,
    names: Sequence[str],
    report: Callable[[str], None],
    timeout_s: float,
    progress: Callable[[int, int], None],
) -> None:
    """Restart these servers, or all, one after the other. Errors: RestartError, ConfigError for what is no
    name of a server, UnknownClusterError, those of Ray."""
    chosen = list(map(server_name, names))
    with cluster_lock(cluster):
        cluster_file = read_cluster_file(cluster)
        namespace = ray_host.namespace_of(cluster)
        with joined(cluster_file.ray_address, namespace, cluster_file.ray_env) as ray:
            servers = RayServers(ray, cluster_file, checked_secret(cluster, namespace))
            RollingRestart(servers, report, timeout_s, progress).run(chosen)
