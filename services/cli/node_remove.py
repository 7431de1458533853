"""`headrace node remove`: take a storage node out of the cluster, to the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import BrokerIdNotRegisteredError
from .admin import open_admin
from .balance import duration_text, execute, pace_of, pace_options, show_plan
from .common import (
    Settings,
    bootstrap_option,
    changing_command,
    cluster_option,
    config_option,
    form_option,
)
from .completion import node_ids
from .output import note, print_object, size_text
from .progress import progress_bar, quiet_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.sync.admin_io import Admin
    from ..balance.model import Plan
    from ..balance.requests import Pace

DRAIN_POLL_S = 0.5


@click.command()
@click.argument("node_id", type=click.IntRange(min=0), metavar="ID", shell_complete=node_ids)
@click.option("--dry-run", "is_shown", is_flag=True, help="Only show what would move.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
@click.option("--max-moves", type=click.IntRange(min=1), metavar="N", help="Plan at most N moves at a time.")
@pace_options
@click.option("--delete-data", is_flag=True, help="Delete the log dirs of the node, on Ray.")
@click.option(
    "--stop-timeout",
    "stop_timeout_s",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    help="Seconds to wait until you have stopped the process of the node, without Ray.",
)
@click.option(
    "--cancel", "is_cancelled", is_flag=True, help="End an interrupted removal: the node gets replicas again."
)
@changing_command(bootstrap_option, cluster_option, config_option, form_option, quiet_option)
def remove(settings: Settings, *, node_id: int, **options: Any) -> None:
    """Remove storage node ID: move its replicas to other nodes, stop it, and unregister it.

    On Ray its actor is stopped, and `headrace up` does not start it again. With -b the process is yours to
    stop, when the command says so. Repeat the command to continue an interrupted removal.
    """
    from ..balance.execution import settle
    from ..balance.removal import Removal
    from ..balance.requests_io import AdminRequests, drive

    if options["is_cancelled"] and (options["is_shown"] or options["is_sure"]):
        raise click.UsageError("--cancel excludes --dry-run and --yes")
    pace = pace_of(options)
    cluster = _own_cluster(settings, node_id)
    with open_admin(settings, settings.client_config()) as admin:
        requests = AdminRequests(
            admin,
            note,
            carry_out=lambda made: _move(admin, made, pace, node_id),
            stop=_stopper(admin, cluster, options),
        )
        removal = Removal(node_id, pace, options["max_moves"])
        if options["is_cancelled"]:
            drive(removal.uncordon(), requests.perform)
            _show_result(settings, node_id, "active")
            note(f"node {node_id} gets new replicas again; `headrace balance` gives it its share")
            return
        if not options["is_shown"]:
            drive(settle(pace), requests.perform)
        try:
            made = drive(removal.proposal(), requests.perform)
        except BrokerIdNotRegisteredError:
            if cluster is None:
                raise
            _forget(cluster, node_id)  # an earlier removal was interrupted in its last step
            _show_result(settings, node_id, "unregistered")
            return
        if options["is_shown"]:
            show_plan(settings, made, pace.throttle)
            return
        if not options["is_sure"]:
            click.confirm(_question(made, pace, node_id), abort=True, err=True)
        with progress_bar(f"removing node {node_id}"):
            drive(removal.steps(), requests.perform)
        if cluster is not None:
            _forget(cluster, node_id)
        _show_result(settings, node_id, "unregistered")


def _show_result(settings: Settings, node_id: int, state: str) -> None:
    if settings.form != "text":
        print_object({"node_id": node_id, "state": state}, settings.form)


def _question(made: Plan, pace: Pace, node_id: int) -> str:
    seconds = made.duration_s(pace.throttle)
    took = "" if seconds is None else f", in at least {duration_text(seconds)}"
    return f"Remove node {node_id}? {len(made.moves)} replicas move, {size_text(made.copied_bytes)}{took}"


def _move(admin: Admin, made: Plan, pace: Pace, node_id: int) -> None:
    execute(admin, made, pace, f"headrace node remove {node_id}", ignored=(node_id,))


def _own_cluster(settings: Settings, node_id: int) -> str | None:
    """The cluster of this machine whose file has the node; None with other addresses."""
    import os

    from ...clients.bootstrap import VARIABLE
    from ..cluster_files_io import known_clusters
    from ..ray_removal_io import is_of_cluster

    if settings.bootstrap or (not settings.cluster and os.environ.get(VARIABLE)):
        return None
    name = settings.cluster_name
    return name if name in known_clusters() and is_of_cluster(name, node_id) else None


def _stopper(admin: Admin, cluster: str | None, options: dict[str, Any]) -> Callable[[int], None]:
    """Stops the node's actor; without Ray it asks the operator, and waits."""
    from ...clients.admin.admin_types import NodeState
    from ...protocol.errors import ApiTimeoutError
    from ...runtime.waiting_io import until
    from ..ray_removal_io import stop_node

    def on_ray(node_id: int) -> None:
        assert cluster is not None, "the cluster is of this machine"
        stop_node(cluster, node_id, note, delete_data=options["delete_data"])

    def is_stopped(node_id: int) -> bool:
        nodes = admin.describe_cluster(include_fenced=True).nodes
        return all(n.state is NodeState.FENCED for n in nodes if n.node_id == node_id)

    def by_hand(node_id: int) -> None:
        if is_stopped(node_id):
            return
        note(f"node {node_id} has no replicas any more: stop its process now; waiting until it is stopped")
        if not until(lambda: is_stopped(node_id), options["stop_timeout_s"], DRAIN_POLL_S):
            raise ApiTimeoutError(
                f"node {node_id} still runs; stop it and repeat `headrace node remove {node_id}`"
            )

    return by_hand if cluster is None else on_ray


def _forget(cluster: str, node_id: int) -> None:
    from ..ray_removal_io import forget_node

    forget_node(cluster, node_id)
    note(f"node {node_id} is no longer part of cluster {cluster!r}: `headrace up` does not start it")
