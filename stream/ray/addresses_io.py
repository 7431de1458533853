"""Where a process of a run finds the cluster, and where a worker keeps its state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ...clients.bootstrap import explicit_bootstrap, resolve_bootstrap
from ...protocol.errors import HeadraceError
from ..worker.state_directory_io import default_state_dir
from .plan import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...clients.sync.admin_io import Admin
    from .run import Run

CLUSTER_VARIABLE = "HEADRACE_CLUSTER"
FOLDER = "headrace-streams"  # beside the folders of the servers
ASK_TIMEOUT_S = 15.0


def addresses(bootstrap: str | Iterable[str] | None) -> tuple[str | None, str]:
    """The addresses that the user gives, None if they are searched for; and those that are known now.
    Errors: NoClusterError, ConfigError."""
    explicit = explicit_bootstrap(bootstrap, os.environ)
    found = resolve_bootstrap(explicit)
    return explicit, ",".join(str(address) for address in found)


def bootstrap_of(run: Run) -> str | None:
    """For clients of a process of the run: None if they find the cluster, now and later, by themselves."""
    if run.bootstrap is not None:
        return run.bootstrap
    if run.cluster is not None:
        os.environ[CLUSTER_VARIABLE] = run.cluster
    try:
        resolve_bootstrap(None)
    except HeadraceError:
        return run.known  # no storage node of the cluster is an actor on this Ray
    return None


def state_folder(given: str, admin: Admin, own_host: str) -> Path:
    """The folder under which workers on this machine have their state: state.dir if it is given, or a folder
    beside the data of a storage node of this machine, or one in the temporary folder."""
    if given:
        return Path(given)
    try:
        nodes = admin.describe_cluster(timeout=ASK_TIMEOUT_S).nodes
        hosts = {node.node_id: node.address.host for node in nodes}
        here = [node for node, host in hosts.items() if host == own_host or is_loopback(host)]
        found = admin.describe_log_dirs(here, partitions=(), timeout=ASK_TIMEOUT_S) if here else {}
    except HeadraceError:
        return default_state_dir()
    for _, dirs in sorted(found.items()):
        for each in dirs:
            data = Path(each.path).parent
            if Path(each.path).is_dir() and os.access(data, os.W_OK):
                return data / FOLDER
    return default_state_dir()
