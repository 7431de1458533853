"""`headrace node …`: list, drain and unregister storage nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...protocol.errors import ApiTimeoutError
from ...runtime.waiting_io import until
from .admin import open_admin
from .cluster import NODE_COLUMNS
from .common import (
    Settings,
    bootstrap_option,
    changing_command,
    cluster_option,
    config_option,
    form_option,
    list_form_option,
    reading_command,
)
from .completion import node_ids
from .node_remove import remove
from .output import note, print_object, print_rows
from .progress import progress_bar, quiet_option
from .watch import watchable

if TYPE_CHECKING:
    from ...clients.admin.admin_types import DrainedNode
    from ...clients.sync.admin_io import Admin

DRAIN_POLL_S = 0.5


@click.group()
def node() -> None:
    """List, drain, remove and unregister storage nodes."""


node.add_command(remove)


@node.command("list")
@reading_command(bootstrap_option, cluster_option, config_option, list_form_option)
@watchable
def list_nodes(settings: Settings) -> None:
    """List all registered nodes: endpoints, states, leaderships and replicas."""
    from ..network_status import network_status

    with open_admin(settings, settings.client_config()) as admin:
        rows = network_status(admin)["nodes"]
    print_rows(rows, NODE_COLUMNS, settings.form)


@node.command()
@click.argument("node_id", type=click.IntRange(min=0), metavar="ID", shell_complete=node_ids)
@click.option("--wait", "is_waiting", is_flag=True, help="Wait until the node leads no partition.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    help="Seconds to wait with --wait.",
)
@click.option(
    "--cancel", "is_cancelled", is_flag=True, help="End the drain: the node can lead partitions again."
)
@changing_command(bootstrap_option, cluster_option, config_option, form_option, quiet_option)
def drain(
    settings: Settings, *, node_id: int, is_waiting: bool, timeout_s: float, is_cancelled: bool
) -> None:
    """Move all leaderships off node ID, before maintenance of its machine. The node keeps running.

    Partitions without another eligible leader stay; with --wait, exit code 1 if some remain at the timeout.
    """
    if is_waiting and is_cancelled:
        raise click.UsageError("--cancel excludes --wait")
    with open_admin(settings, settings.client_config()) as admin:
        found = admin.drain_node(node_id, drained=not is_cancelled)
        left = found.leaders_left
        if found.below_min_isr:
            _warn_of_acks(found)
        if left and is_waiting:
            left = _drained(admin, node_id, left, timeout_s)
    if is_cancelled:
        print_object({"node_id": node_id, "state": "active"}, settings.form)
        return
    if left:
        note(f"node {node_id} still leads {left} partitions: no other in-sync replica is available")
    state = "draining" if left else "drained"
    facts = {"node_id": node_id, "state": state, "leaders_left": left, "below_min_isr": found.below_min_isr}
    print_object(facts, settings.form)


@node.command()
@click.argument("node_id", type=click.IntRange(min=0), metavar="ID", shell_complete=node_ids)
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
@changing_command(bootstrap_option, cluster_option, config_option)
def unregister(settings: Settings, *, node_id: int, is_sure: bool) -> None:
    """Unregister node ID, which is permanently stopped and has no replicas."""
    if not is_sure:
        click.confirm(f"Unregister node {node_id}?", abort=True, err=True)
    with open_admin(settings, settings.client_config()) as admin:
        admin.unregister_broker(node_id)
    note(f"unregistered node {node_id}")


def _warn_of_acks(found: DrainedNode) -> None:
    names = found.topics_below_min_isr
    note(
        f"warning: {found.below_min_isr} partitions are below min.insync.replicas, so producers with "
        f"acks=all fail there until their replicas rejoin the ISR: {', '.join(names)}. "
        f"`headrace node drain {found.node_id} --cancel` ends the drain"
    )


def _drained(admin: Admin, node_id: int, left: int, timeout_s: float) -> int:
    """Returns 0 once the node leads no partition. Errors: ApiTimeoutError."""

    led = left

    def leads_nothing() -> bool:
        nonlocal left
        left = admin.drain_node(node_id).leaders_left  # repeated: another replica may be in sync by now
        bar.reach(max(led - left, 0))
        return not left

    with progress_bar(f"draining node {node_id}", led, "partitions") as bar:
        is_drained = until(leads_nothing, timeout_s, DRAIN_POLL_S)
    if not is_drained:
        raise ApiTimeoutError(
            f"node {node_id} still leads {left} partitions: no other in-sync replica is available"
        )
    return left
