"""`headrace up`, `status` and `down`: a cluster of Ray actors, created or adopted by name.

This process holds no authoritative state. Actors are found by their names in the namespace
`headrace-<cluster>`, their state is on their disks, and the cluster file is a pointer to them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..protocol.errors import ConfigError
from ..runtime.ray_join_actor import set_ray_env
from ..runtime.tracing.control_io import call_context
from ..runtime.waiting_io import until
from .cluster_files_io import (
    DEFAULT_CLUSTER,
    ClusterFile,
    OwnRayEntry,
    UnknownClusterError,
    checked_name,
    cluster_lock,
    default_data_dir,
    known_clusters,
    ray_token_file,
    read_cluster_file,
    remove_cluster_file,
    write_cluster_file,
)
from .cluster_secret_io import checked_secret, forget_secret, make_secret
from .data_dirs_io import (
    check_unused,
    controllers_with_data,
    index_of,
    nodes_with_data,
    remove_data,
    removed_nodes,
)
from .discovery import CONTROLLER_PREFIX, NAMESPACE_PREFIX, NODE_PREFIX
from .own_ray_io import (
    ONE_MACHINE,
    OwnRay,
    RayStartError,
    env_of_own_ray,
    start_own_ray,
    stop_own_ray,
)
from .placement import check_new, pins_of, without_machine
from .ray_readiness import POLL_S, StartError, reason_of, wait_until_up
from .ray_session import (
    FIND,
    actor_names,
    gather,
    is_reachable,
    joined,
    machine_addresses,
    wanted_address,
)
from .secure_up import secure_config
from .secure_up_io import check_still_secured, make_certificates, make_first_user
from .server_config import changed_while_running, split_config

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    Report = Callable[[str], None]

DEFAULT_NODES = 3
READY_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 20.0
STATUS_TIMEOUT_S = 5.0
GONE_TIMEOUT_S = 15.0
_RAY_ENV = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", ONE_MACHINE)
UP_STATES = {"running", "active"}  # of a host, and of a storage node that is not fenced


@dataclass(frozen=True)
class UpOptions:
    """Arguments of `up`; None selects the value of the existing cluster, or the default."""

    cluster: str
    nodes: int | None = None
    controllers: int | None = None
    data_dir: str | None = None
    ray_address: str | None = None
    disk_resource: str | None = None
    machines: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    is_secure: bool = False
    timeout_s: float = READY_TIMEOUT_S


def up(options: UpOptions, report: Report) -> ClusterFile:
    """Start the cluster, or adopt a running one and add missing nodes.

    Errors: ConfigError if the options contradict the running cluster; RayStartError; StartError, after which
    everything that this call started is stopped.
    """
    checked_name(options.cluster)
    split_config(options.config)  # rejects invalid keys before anything is started
    with cluster_lock(options.cluster):
        before = _running_file(options.cluster, report)
        if options.is_secure:
            config = secure_config(options.config, before.data_dir if before else _data_dir(options))
            options = replace(options, config=config)
        cluster_file = _merged(options, before)
        check_still_secured(cluster_file)
        left_out = nodes_with_data(cluster_file.data_dir) - cluster_file.nodes
        if left_out > 0:
            report(f"{cluster_file.data_dir} has data of {left_out} more nodes, which are not started")
        own = None
        if not cluster_file.ray_address:
            report("starting Ray on this machine")
            ray_env = env_of_own_ray(ray_token_file(options.cluster))
            set_ray_env(ray_env)  # Order: before Ray is imported
            own = start_own_ray(ray_env, meanwhile=_import_servers)
            own_entry = OwnRayEntry(own.pid, own.created_s, own.temp_dir)
            cluster_file = _with(cluster_file, ray_address=own.address, own_ray=own_entry, ray_env=ray_env)
        has_data = Path(cluster_file.data_dir).exists()
        try:
            # Order: the file first, so that `down` can stop the parts of an interrupted `up`.
            write_cluster_file(cluster_file)
            cluster_file = _start_actors(options, cluster_file, report)
            write_cluster_file(cluster_file)
        except BaseException:
            if own is not None:
                stop_own_ray(own)
            if before is None:
                remove_cluster_file(options.cluster)
            if not has_data:
                # No client knows an address of these new servers. Existing data is kept.
                remove_data(cluster_file.data_dir)
            raise
    return cluster_file


def status(cluster: str) -> dict[str, Any]:
    """The status of all servers, JSON-able. An actor that does not answer has only a `state`.

    Errors: UnknownClusterError.
    """
    cluster_file = read_cluster_file(cluster)
    result: dict[str, Any] = {
        "cluster": cluster,
        "ray_address": cluster_file.ray_address,
        "ray_is_ours": cluster_file.own_ray is not None,
        "bootstrap": list(cluster_file.bootstrap),
        "data_dir": cluster_file.data_dir,
        "state": "down",
        "controller": None,
        "controllers": [],
        "nodes": [],
        "prepared_transactions": None,
    }
    if not is_reachable(cluster_file.ray_address):
        return result
    namespace = namespace_of(cluster)
    with joined(cluster_file.ray_address, namespace, cluster_file.ray_env) as ray:
        found = statuses_of(ray, cluster_file)
    nodes = [found[name] for name in sorted(found, key=index_of) if name.startswith(NODE_PREFIX)]
    controllers = [found[name] for name in sorted(found, key=index_of) if not name.startswith(NODE_PREFIX)]
    result["controller"] = _active(controllers)
    result["controllers"], result["nodes"] = controllers, nodes
    result["prepared_transactions"] = sum(map(_prepared, nodes))
    result["state"] = state_of(cluster_file, nodes, controllers)
    return result


def state_of(
    cluster_file: ClusterFile, nodes: list[dict[str, Any]], controllers: list[dict[str, Any]]
) -> str:
    """The state of a cluster by its file and the statuses of its actors. It is starting until `up` has
    written the addresses of the nodes."""
    if not (nodes or controllers):
        return "down"
    if not cluster_file.bootstrap:
        return "starting"
    is_whole = (
        (len(nodes), len(controllers)) == (cluster_file.nodes, cluster_file.controllers)
        and _active(controllers) is not None
        and all(server.get("state") in UP_STATES for server in (*nodes, *controllers))
    )
    return "running" if is_whole else "degraded"


def statuses_of(ray: Any, cluster_file: ClusterFile) -> dict[str, dict[str, Any]]:
    """The status of each actor of the cluster by name; one that does not answer has only a `state`."""
    namespace = namespace_of(cluster_file.cluster)
    names = actor_names(ray, namespace)
    away = without_machine(cluster_file.pins, ray.cluster_resources())
    calls = {n: ray.get_actor(n, namespace).status.remote(**call_context()) for n in names if n not in away}
    found = {name: _status_or_state(name, a) for name, a in gather(ray, calls, STATUS_TIMEOUT_S).items()}
    for name in set(names) & set(away):
        found[name] = {"name": name, "state": "waiting", "detail": f"no machine has {away[name]}"}
    return found


def server_names(cluster_file: ClusterFile) -> list[str]:
    """The names of all servers that the cluster should have, controllers first."""
    controllers, nodes = _names(cluster_file)
    return [*controllers, *nodes]


def _prepared(node: dict[str, Any]) -> int:
    metrics = node.get("coordinators", {}).get("metrics", {}).get("transaction-coordinator-metrics", {})
    return int(metrics.get("transactional-ids", {}).get("Prepared", 0))


def _active(controllers: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The controller that says it leads; if several do, for a moment, the one with the newest epoch."""
    leading = [each for each in controllers if each.get("quorum", {}).get("role") == "leader"]
    return max(leading, key=lambda each: each["quorum"]["epoch"], default=None)


def down(cluster: str, report: Report, *, delete_data: bool = False) -> list[str]:
    """Stop servers, and the Ray that was started for them; returns those that did not stop cleanly.

    With `delete_data` the default data dir of a cluster that is not up is removed too. Errors:
    UnknownClusterError; HeadraceError if a server still uses that dir; RayStartError if processes of the Ray
    survive SIGKILL.
    """
    with cluster_lock(cluster):
        if delete_data and cluster not in known_clusters() and Path(default_data_dir(cluster)).exists():
            check_unused(default_data_dir(cluster))
            remove_data(default_data_dir(cluster))
            report(f"removed {default_data_dir(cluster)}")
            return []
        cluster_file = read_cluster_file(cluster)
        troubles: list[str] = []
        if is_reachable(cluster_file.ray_address):
            with joined(cluster_file.ray_address, namespace_of(cluster), cluster_file.ray_env) as ray:
                troubles = _stop_actors(ray, cluster_file, report, delete_data=delete_data)
        elif cluster_file.own_ray is None:
            troubles = [f"no Ray answers at {cluster_file.ray_address}: its servers could not be stopped"]
        if cluster_file.own_ray is not None:
            report("stopping Ray")
            stop_own_ray(_own_ray(cluster_file, cluster_file.own_ray))
        if delete_data:
            remove_data(cluster_file.data_dir)
        remove_cluster_file(cluster)
    return troubles


def namespace_of(cluster: str) -> str:
    """The Ray namespace that holds the actors of a cluster."""
    return NAMESPACE_PREFIX + cluster


def _running_file(cluster: str, report: Report) -> ClusterFile | None:
    """The file of a cluster whose Ray answers; the file of a Ray that has ended is removed."""
    try:
        cluster_file = read_cluster_file(cluster)
    except UnknownClusterError:
        return None
    if is_reachable(cluster_file.ray_address):
        return cluster_file
    if cluster_file.own_ray is not None:
        report(f"the Ray of cluster {cluster!r} has ended; starting a new one with its data")
        stop_own_ray(_own_ray(cluster_file, cluster_file.own_ray))
        # Its only machine may have another address now.
        return _with(cluster_file, ray_address="", own_ray=None, pins={})
    return None


def _data_dir(options: UpOptions) -> str:
    """The data dir of a new cluster."""
    return str(Path(options.data_dir or default_data_dir(options.cluster)).expanduser().absolute())


def _merged(options: UpOptions, before: ClusterFile | None) -> ClusterFile:
    """The target state of the cluster, from the options and the existing cluster. Errors: ConfigError."""
    if before is None:
        data_dir = _data_dir(options)
        address = wanted_address(options.ray_address) or ""
        nodes, config = options.nodes or nodes_with_data(data_dir) or DEFAULT_NODES, dict(options.config)
        # A quorum needs its majority: at least as many controllers as have data, whatever was asked for.
        controllers = max(options.controllers or 1, controllers_with_data(data_dir))
        # `status` and `down` connect to this Ray as `up` did, also from a shell without the variable.
        ray_env = {name: os.environ[name] for name in _RAY_ENV if os.environ.get(name)}
        return ClusterFile(
            options.cluster,
            address,
            (),
            nodes,
            data_dir,
            ray_env={"RAY_AUTH_MODE": "disabled", **ray_env},
            config=config,
            controllers=controllers,
            removed=removed_nodes(data_dir),
        )
    controllers = options.controllers or before.controllers
    if controllers < before.controllers or (before.ray_address and controllers > before.controllers):
        raise _other_controllers(before.cluster, before.controllers)
    nodes = options.nodes or before.nodes
    if nodes < before.nodes:
        raise _too_few(before.cluster, before.nodes)
    if options.data_dir and _data_dir(options) != before.data_dir:
        raise ConfigError(
            f"cluster {before.cluster!r} has its data in {before.data_dir}: run `headrace down` first"
        )
    is_running = bool(before.ray_address)
    changed = sorted(name for name, value in options.config.items() if before.config.get(name) != value)
    if is_running and changed:
        raise _config_of_running(before.cluster, changed[0], options.config[changed[0]])
    if is_running and options.ray_address not in (None, FIND, before.ray_address):
        raise ConfigError(f"cluster {before.cluster!r} runs on the Ray at {before.ray_address}")
    return _with(before, nodes=nodes, controllers=controllers, config={**before.config, **options.config})


def _start_actors(options: UpOptions, cluster_file: ClusterFile, report: Report) -> ClusterFile:
    namespace = namespace_of(cluster_file.cluster)
    with joined(cluster_file.ray_address, namespace, cluster_file.ray_env) as ray:
        _wait_for_machines(ray, options.machines or 1, options.timeout_s, report)
        before = actor_names(ray, namespace)
        cluster_file = _with_those_there(options, cluster_file, before)
        resources = ray.cluster_resources()
        pins = _pins(cluster_file, machine_addresses(ray), options.disk_resource)
        check_new(pins, {*cluster_file.pins, *before}, resources)
        # a running server without a known pin was started from elsewhere: it keeps its pin
        cluster_file = _with(
            cluster_file,
            pins={n: pin for n, pin in pins.items() if n in cluster_file.pins or n not in before},
        )
        away = without_machine(cluster_file.pins, resources)
        try:
            secret = make_secret(cluster_file.cluster, namespace, report, is_running=bool(before))
            make_certificates(cluster_file, machine_addresses(ray), report)
            actors = _import_servers().create_servers(cluster_file, *_names(cluster_file), pins)
            adopted = sorted(set(actors) & set(before))
            report(f"adopted {', '.join(adopted)}" if adopted else f"starting {len(actors)} actors")
            for name, pin in away.items():
                report(f"{name} waits for a machine with Ray resource {pin}, and starts when it joins")
            present = {name: actor for name, actor in actors.items() if name not in away}
            endpoints = wait_until_up(
                ray, present, _names(cluster_file)[0], secret, options.timeout_s, report
            )
            make_first_user(cluster_file, endpoints, report)
        except BaseException:
            for name in set(actor_names(ray, namespace)) - set(before):
                ray.kill(ray.get_actor(name, namespace), no_restart=True)
            until(lambda: set(actor_names(ray, namespace)) <= set(before), GONE_TIMEOUT_S, POLL_S)
            raise
    nodes = sorted((name for name in endpoints if name.startswith(NODE_PREFIX)), key=index_of)
    return _with(cluster_file, bootstrap=tuple(endpoints[name] for name in nodes))


def _import_servers() -> ModuleType:
    """Takes a second or two, with Ray."""
    from . import ray_servers_io

    return ray_servers_io


def _wait_for_machines(ray: Any, machines: int, timeout_s: float, report: Report) -> None:
    """Return once the Ray has `machines` machines: servers are tied to the machines present at their start.

    Errors: StartError.
    """
    there = machine_addresses(ray)
    if len(there) < machines:
        report(f"waiting until Ray has {machines} machines; it has {len(there)}")
    if not until(lambda: len(machine_addresses(ray)) >= machines, timeout_s, POLL_S):
        there = machine_addresses(ray)
        raise StartError(
            f"Ray has {len(there)} of {machines} machines after {timeout_s:.0f} s: {', '.join(there)}"
        )


def _with_those_there(options: UpOptions, cluster_file: ClusterFile, names: list[str]) -> ClusterFile:
    """The cluster file with the nodes that run, perhaps started from another machine. Errors: ConfigError."""
    there = sum(1 for name in names if name.startswith(NODE_PREFIX))
    controllers = len(names) - there
    if cluster_file.bootstrap or not names:
        return cluster_file  # the file has them, or there are none
    if options.config:
        raise _config_of_running(cluster_file.cluster, *min(options.config.items()))
    if (options.nodes or there) < there:
        raise _too_few(cluster_file.cluster, there)
    if controllers and options.controllers not in (None, controllers):
        raise _other_controllers(cluster_file.cluster, controllers)
    running = {index_of(name)[0] for name in names if name.startswith(NODE_PREFIX)}
    removed = tuple(index for index in range(1, max(running, default=0)) if index not in running)
    return _with(
        cluster_file,
        nodes=options.nodes or there,
        controllers=controllers or cluster_file.controllers,
        removed=removed,
    )


def _config_of_running(cluster: str, name: str, value: Any) -> ConfigError:
    live = changed_while_running(name)
    remedy = f"run `headrace down` before changing {name}"
    if live is not None:
        where = "" if cluster == DEFAULT_CLUSTER else f" --cluster {cluster}"
        remedy = (
            f"`headrace config alter{where} --cluster-wide --set {live}={value}` changes it while it runs"
        )
    return ConfigError(f"cluster {cluster!r} is running: {remedy}")


def _too_few(cluster: str, nodes: int) -> ConfigError:
    return ConfigError(f"cluster {cluster!r} has {nodes} storage nodes: `up` does not remove nodes")


def _other_controllers(cluster: str, controllers: int) -> ConfigError:
    # Running controllers know the others from their start. A single controller that loses its disk would form
    # a second quorum beside added ones.
    return ConfigError(
        f"cluster {cluster!r} has {controllers} controllers: run `headrace down` before adding more"
    )


def _names(cluster_file: ClusterFile) -> tuple[list[str], list[str]]:
    controllers = [f"{CONTROLLER_PREFIX}{index}" for index in range(1, cluster_file.controllers + 1)]
    return controllers, [f"{NODE_PREFIX}{index}" for index in node_indices(cluster_file)]


def node_indices(cluster_file: ClusterFile) -> tuple[int, ...]:
    """The ids of the storage nodes: the lowest ones that were not removed."""
    last = cluster_file.nodes + len(cluster_file.removed)
    kept = (index for index in range(1, last + 1) if index not in cluster_file.removed)
    return tuple(kept)[: cluster_file.nodes]


def _pins(cluster_file: ClusterFile, machines: list[str], disk_resource: str | None) -> dict[str, str]:
    controllers, nodes = _names(cluster_file)
    indices = {name: index_of(name)[0] for name in (*controllers, *nodes)}
    return pins_of({**indices, controllers[0]: 0}, cluster_file.pins, machines, disk_resource)


def _stop_actors(ray: Any, cluster_file: ClusterFile, report: Report, *, delete_data: bool) -> list[str]:
    """Stop nodes first, while controllers can handle their shutdown, then kill all actors."""
    namespace = namespace_of(cluster_file.cluster)
    names = actor_names(ray, namespace)
    secret = checked_secret(cluster_file.cluster, namespace)
    handles = {name: ray.get_actor(name, namespace) for name in names}
    away = without_machine(cluster_file.pins, ray.cluster_resources())
    troubles = [
        f"{name}: no machine, its data was not deleted" for name in names if delete_data and name in away
    ]
    for group in (
        [name for name in names if name.startswith(NODE_PREFIX)],
        [name for name in names if not name.startswith(NODE_PREFIX)],
    ):
        if group:
            report(f"stopping {', '.join(group)}")
        asked = [name for name in group if name not in away]
        calls = {
            name: handles[name].stop.remote(secret, STOP_TIMEOUT_S, delete_data, **call_context())
            for name in asked
        }
        for name, answer in gather(ray, calls, STOP_TIMEOUT_S + 2).items():
            if isinstance(answer, BaseException):
                troubles.append(f"{name} did not stop cleanly: {reason_of(answer)}")
        for name in group:
            ray.kill(handles[name], no_restart=True)
    until(lambda: not actor_names(ray, namespace), GONE_TIMEOUT_S, POLL_S)
    forget_secret(namespace)
    return troubles


def _status_or_state(name: str, answer: Any) -> dict[str, Any]:
    if isinstance(answer, BaseException):
        return {"name": name, "state": "silent", "detail": reason_of(answer)}
    return dict(answer)


def _own_ray(cluster_file: ClusterFile, own: OwnRayEntry) -> OwnRay:
    return OwnRay(cluster_file.ray_address, own.pid, own.created_s, own.temp_dir)


def _with(cluster_file: ClusterFile, **changes: Any) -> ClusterFile:
    import msgspec

    return msgspec.structs.replace(cluster_file, **changes)


__all__ = ["RayStartError", "StartError", "UpOptions", "down", "namespace_of", "status", "up"]
