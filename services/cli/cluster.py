"""`headrace up`, `down`, `status`: a cluster on Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..cluster_files_io import UnknownClusterError, admin_config, known_clusters
from ..discovery import chosen_cluster
from .common import (
    NotFoundError,
    PartialFailureError,
    Settings,
    bootstrap_option,
    changing_command,
    cluster_option,
    config_option,
    form_option,
    reading_command,
)
from .console import PORT, rest_option, serve_console
from .output import note, print_object, print_rows, size_text, write_line
from .progress import progress_bar, quiet_option
from .watch import watchable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NODE_COLUMNS = ("node_id", "endpoint", "rack", "state", "leaders", "partitions")
_SERVER_COLUMNS = ("name", "state", "role", "endpoint", "pid", "leaders", "partitions", "size", "detail")


@click.command()
@click.option(
    "-n", "--nodes", type=click.IntRange(1, 1000), help="Number of storage nodes [default: 3, or as before]."
)
@click.option(
    "--controllers",
    type=click.IntRange(1, 9),
    help="Number of controllers; the quorum tolerates the loss of a minority [default: 1, or as before].",
)
@click.option("--data-dir", metavar="DIR", help="Directory of the logs [default: ~/.headrace/data/CLUSTER].")
@click.option(
    "--ray-address",
    metavar="ADDRESS",
    help="Ray cluster to join: host:port; auto: that of this machine; local: a new one [default: RAY_ADDRESS,"
    " or that of this machine, or a new one].",
)
@click.option(
    "--disk-resource",
    metavar="NAME",
    help="Run node I on the machine with the Ray resource NAME-I (NAME-0: the first controller) [default:"
    " node:<ip>].",
)
@click.option(
    "--machines",
    type=click.IntRange(min=1),
    help="Wait until Ray has this many machines, and spread the nodes over them [default: 1].",
)
@click.option(
    "--secure",
    "is_secure",
    is_flag=True,
    help="Encrypt all connections, require users, and apply access rules: creates keys, certificates and the"
    " user admin.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=float,
    default=60.0,
    show_default=True,
    help="Seconds to wait until all servers are ready.",
)
@click.option(
    "--console",
    "has_console",
    is_flag=True,
    help="Then serve the web console, as `headrace console`, until Ctrl-C; the cluster continues to run.",
)
@click.option(
    "--console-port",
    type=click.IntRange(0, 65535),
    help="Port of the console on 127.0.0.1 [default: 8080].",
)
@rest_option
@changing_command(config_option, form_option, cluster_option, quiet_option)
def up(
    settings: Settings, *, has_console: bool, console_port: int | None, has_rest: bool, **options: Any
) -> None:
    """Start a cluster on Ray, or adopt a running one. It runs until `headrace down`.

    -X sets configs of the servers.
    """
    if console_port is not None and not has_console:
        raise click.UsageError("--console-port belongs to --console")
    if has_rest and not has_console:
        raise click.UsageError("--rest belongs to --console; `headrace rest` serves REST alone")
    from .. import ray_host

    name = settings.cluster_name
    with progress_bar(f"starting cluster {name}"):
        started = ray_host.up(ray_host.UpOptions(cluster=name, config=settings.config, **options), note)
    cluster: dict[str, Any] = {
        "cluster": started.cluster,
        "nodes": started.nodes,
        "controllers": started.controllers,
        "bootstrap": ",".join(started.bootstrap),
        "data_dir": started.data_dir,
        "ray_address": started.ray_address,
    }
    if started.config.get("listeners"):
        cluster |= kafka_addresses(ray_host.status(name)["nodes"])
    print_object(cluster, settings.form)
    if has_console:
        serve_console(
            cluster["bootstrap"],
            admin_config(started.data_dir),
            {"port": PORT if console_port is None else console_port},
            name=name,
            has_rest=has_rest,
        )


def kafka_addresses(nodes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Bootstrap addresses for Kafka clients by listener."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        for name, address in node.get("kafka", {}).get("listeners", {}).items():
            found.setdefault(f"kafka {name}", []).append(address)
    return {name: ",".join(addresses) for name, addresses in sorted(found.items())}


@click.command()
@click.option("--delete-data", is_flag=True, help="Delete the logs as well: all records are lost.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
@changing_command(form_option, cluster_option, quiet_option)
def down(settings: Settings, *, delete_data: bool, is_sure: bool) -> None:
    """Stop a cluster, and the Ray that `headrace up` started for it. The logs are kept."""
    from .. import ray_host

    name = settings.cluster_name
    if delete_data and not is_sure:
        click.confirm(f"Delete every record of cluster {name!r}?", abort=True, err=True)
    try:
        with progress_bar(f"stopping cluster {name}"):
            troubles = ray_host.down(name, note, delete_data=delete_data)
    except UnknownClusterError as error:
        raise NotFoundError(str(error)) from error  # without the hint to start one
    for trouble in troubles:
        note(f"warning: {trouble}")
    if not settings.is_text:
        print_object({"cluster": name, "state": "down", "troubles": troubles}, settings.form)
    if troubles:
        raise PartialFailureError(f"cluster {name!r} is down, but not every server stopped cleanly")
    note(f"cluster {name!r} is down")


@click.command()
@click.argument("servers", nargs=-1, metavar="[SERVER]…")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    help="Seconds to wait for each server, until all replicas are in sync again.",
)
@changing_command(cluster_option, quiet_option)
def restart(settings: Settings, *, servers: tuple[str, ...], timeout_s: float) -> None:
    """Restart servers of a cluster on Ray one after the other, without an outage, for example for an upgrade.

    SERVER is node-1, controller-2, ... [default: all].
    """
    from ..ray_restart_io import restart as restart_servers

    name = chosen_cluster(settings.cluster_name, known_clusters(), "--cluster")
    with progress_bar("restarting", unit="servers") as bar:
        restart_servers(name, servers, note, timeout_s, bar.reach)


@click.command()
@reading_command(bootstrap_option, config_option, form_option, cluster_option)
@watchable
def status(settings: Settings) -> None:
    """Show the servers of a cluster. Exit code 1 if a server that should run does not.

    With -b, describes the cluster through its storage nodes, without Ray.
    """
    if settings.bootstrap:
        found, show = _seen_by_clients(settings), _print_nodes
    else:
        found, show = _seen_by_ray(settings), _print_text
    if not settings.is_text:
        print_object(found, settings.form)
    else:
        show(found)
    prepared = found["prepared_transactions"]
    if prepared:
        note(
            f"{prepared} transactions are prepared: read_committed consumers wait until their drivers end"
            " them; `headrace txn list --state Prepared` lists them"
        )
    if found["state"] != "running":
        click.get_current_context().exit(1)


def _seen_by_ray(settings: Settings) -> dict[str, Any]:
    from .. import ray_host

    if settings.given_config():
        raise click.UsageError("-X and --command-config have no effect on `status` without -b")
    found = ray_host.status(chosen_cluster(settings.cluster_name, known_clusters(), "--cluster"))
    if found["state"] == "down" and found["bootstrap"]:
        remedy = (
            "`headrace up` restarts it with its data" if found["ray_is_ours"] else "start its head node again"
        )
        note(f"no Ray answers at {found['ray_address']}: {remedy}; -b asks the storage nodes themselves")
    return found


def _seen_by_clients(settings: Settings) -> dict[str, Any]:
    from ...clients.sync.admin_io import Admin
    from ..network_status import network_status, prepared_transactions

    with Admin(settings.addresses(), config=settings.client_config()) as admin:
        return {**network_status(admin), "prepared_transactions": prepared_transactions(admin)}


def _print_nodes(found: Mapping[str, Any]) -> None:
    print_object({name: value for name, value in found.items() if name != "nodes"}, "text")
    write_line("")
    print_rows(found["nodes"], NODE_COLUMNS, "text")


def _print_text(found: Mapping[str, Any]) -> None:
    head = ("cluster", "state", "bootstrap", "data_dir", "ray_address")
    print_object({name: found[name] for name in head}, "text")
    servers = [*found["controllers"], *found["nodes"]]
    if servers:
        write_line("")
        print_rows([_row(server) for server in servers], _SERVER_COLUMNS, "text")


def _row(server: Mapping[str, Any]) -> dict[str, Any]:
    directories = server.get("log_dirs") or []
    sizes = [entry["bytes"] for entry in directories if isinstance(entry, dict) and "bytes" in entry]
    return {
        "name": server.get("name"),
        "state": server.get("state"),
        "role": server.get("quorum", {}).get("role"),
        "endpoint": server.get("endpoint"),
        "pid": server.get("pid"),
        "leaders": _count(server.get("leaders")),
        "partitions": _count(server.get("partitions")),
        "size": size_text(sum(sizes)) if sizes else None,
        "detail": server.get("detail"),
    }


def _count(value: Any) -> int | None:
    return len(value) if isinstance(value, (list, dict)) else value
