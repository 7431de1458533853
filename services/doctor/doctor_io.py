"""Runs the doctor: on this machine, or on all machines of a cluster on Ray."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.errors import HeadraceError
from ..cluster_files_io import default_data_dir
from .cluster_io import cluster_facts
from .config_io import config_facts
from .facts import ServerFacts
from .machine_io import machine_facts, ray_facts
from .ports_io import advertised_facts, reach_facts
from .report import Report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..cluster_files_io import ClusterFile
    from .facts import AdvertisedFacts, ClusterFacts


@dataclass(frozen=True)
class DoctorOptions:
    """What to check: `bootstrap` is None for no cluster; `listen` are host and port of listeners. `configs`
    are config files of servers, `overrides` keys that precede theirs, `nodes` as of `Report`."""

    data_dirs: tuple[str, ...] = ()
    listen: tuple[tuple[str, int], ...] = ()
    bootstrap: str | None = None
    client_config: Mapping[str, str] | None = None
    configs: tuple[str, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)
    nodes: int | None = None


def examine(options: DoctorOptions) -> Report:
    """The report on this machine, its config files, and the cluster, as far as they are given. Errors:
    OSError for a config file that cannot be read."""
    configs = [config_facts(path, options.overrides) for path in dict.fromkeys(options.configs)]
    data_dirs = (*options.data_dirs, *(each for config in configs for each in config.data_dirs))
    waiting = [each for config in configs if not config.is_running for each in config.listeners]
    listen = (*options.listen, *((each.host, each.port) for each in waiting))
    machine = machine_facts(data_dirs or (default_data_dir("default"),), listen)
    cluster, trouble = _cluster(options)
    reach = reach_facts(cluster.nodes.values()) if cluster is not None else ()
    machine = msgspec.structs.replace(machine, reach=reach, ray=ray_facts(is_worker=False))
    return Report([machine], cluster, unreachable=trouble, configs=configs, nodes=options.nodes)


def examine_all(cluster_file: ClusterFile, options: DoctorOptions) -> Report:
    """The report on all machines of a cluster on Ray. Errors: RayStartError if its Ray does not answer."""
    from ..ray_host import namespace_of, statuses_of
    from ..ray_session import joined
    from .probe_actor import gather_machines

    with joined(cluster_file.ray_address, namespace_of(cluster_file.cluster), cluster_file.ray_env) as ray:
        statuses = statuses_of(ray, cluster_file)
        ports = _ports(statuses)
        endpoints = [status["endpoint"] for status in statuses.values() if status.get("endpoint")]
        data_dirs = options.data_dirs or (cluster_file.data_dir,)
        machines, silent = gather_machines(ray, data_dirs, ports, endpoints)
    mode = cluster_file.ray_env.get("RAY_AUTH_MODE", "")
    machines = [
        msgspec.structs.replace(
            each, ray=msgspec.structs.replace(each.ray, auth_mode=mode or each.ray.auth_mode)
        )
        if each.ray
        else each
        for each in machines
    ]
    cluster, trouble = _cluster(options)
    return Report(machines, cluster, _advertised(statuses), silent, trouble, _servers(statuses))


def _cluster(options: DoctorOptions) -> tuple[ClusterFacts | None, str]:
    from ...clients.sync.admin_io import Admin

    if options.bootstrap is None:
        return None, ""
    try:
        with Admin(options.bootstrap, config=options.client_config) as admin:
            return cluster_facts(admin), ""
    except (HeadraceError, OSError, TimeoutError) as error:
        return None, str(error)


def _ports(statuses: Mapping[str, Mapping[str, Any]]) -> dict[str, Sequence[tuple[str, int]]]:
    """Listeners by the address of their machine."""
    found = defaultdict[str, list[tuple[str, int]]](list)
    for status in statuses.values():
        host, _, port = str(status.get("endpoint") or "").rpartition(":")
        if host:
            found[host].append((host, int(port)))
            for address in status.get("kafka", {}).get("listeners", {}).values():
                found[host].append((host, int(address.rpartition(":")[2])))
    return dict(found)


def _servers(statuses: Mapping[str, Mapping[str, Any]]) -> list[ServerFacts]:
    """The servers whose machine is known."""
    return [
        ServerFacts(name=name, address=host, version=str(status.get("version", "")))
        for name, status in sorted(statuses.items())
        if (host := str(status.get("endpoint") or "").rpartition(":")[0])
    ]


def _advertised(statuses: Mapping[str, Mapping[str, Any]]) -> list[AdvertisedFacts]:
    return [
        advertised_facts(name, listener, address)
        for name, status in sorted(statuses.items())
        for listener, address in status.get("kafka", {}).get("listeners", {}).items()
    ]
