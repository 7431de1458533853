"""`headrace node …`: look at storage nodes, drain them, forget them."""

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
    reading_command,
)
from .output import note, print_object, print_rows

if TYPE_CHECKING:
    from ...clients.admin.admin_types import DrainedNode
    from ...clients.sync.admin_io import Admin

DRAIN_POLL_S = 0.5


@click.group()
def node() -> None:
    """Look at storage nodes, drain them, forget them."""


@node.command("list")
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
def list_nodes(settings: Settings) -> None:
    """List all registered nodes: where they listen, how they are, what they lead and hold."""
    from ..network_status import network_status

    with open_admin(settings, settings.client_config()) as admin:
        rows = network_status(admin)["nodes"]
    print_rows(rows, NODE_COLUMNS, settings.form)


@node.command()
@click.argument("node_id", type=click.IntRange(min=0), metavar="ID")
@click.option("--wait", "is_waiting", is_flag=True, help="Until the node leads nothing.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    help="Seconds for --wait.",
)
@click.option("--cancel", "is_cancelled", is_flag=True, help="Let a drained node lead again.")
@changing_command(bootstrap_option, cluster_option, config_option, form_option)
def drain(
    settings: Settings, *, node_id: int, is_waiting: bool, timeout_s: float, is_cancelled: bool
) -> None:
    """Have node ID hand over all that it leads, while it goes on running: before work on its machine.

    What nobody else may lead stays; exit code 1 with --wait if that is so for too long.
    """
    if is_waiting and is_cancelled:
        raise click.UsageError("--cancel has nothing to --wait for")
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
        note(f"node {node_id} leads {left} partitions that nobody else may lead now")
    state = "draining" if left else "drained"
    facts = {"node_id": node_id, "state": state, "leaders_left": left, "below_min_isr": found.below_min_isr}
    print_object(facts, settings.form)


@node.command()
@click.argument("node_id", type=click.IntRange(min=0), metavar="ID")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@changing_command(bootstrap_option, cluster_option, config_option)
def unregister(settings: Settings, *, node_id: int, is_sure: bool) -> None:
    """Forget node ID, which is gone for good and holds no replicas."""
    if not is_sure:
        click.confirm(f"Forget node {node_id}?", abort=True, err=True)
    with open_admin(settings, settings.client_config()) as admin:
        admin.unregister_broker(node_id)
    note(f"node {node_id} is not registered any more")


def _warn_of_acks(found: DrainedNode) -> None:
    names = found.topics_below_min_isr
    note(
        f"warning: {found.below_min_isr} partitions are below min.insync.replicas now, so producers with "
        f"acks=all fail there until replicas are back: {', '.join(names)}. "
        f"`headrace node drain {found.node_id} --cancel` takes the drain back"
    )


def _drained(admin: Admin, node_id: int, left: int, timeout_s: float) -> int:
    """0, once the node leads nothing. Errors: ApiTimeoutError."""

    def leads_nothing() -> bool:
        nonlocal left
        left = admin.drain_node(node_id).leaders_left  # again: what could not be moved before is tried again
        return not left

    if not until(leads_nothing, timeout_s, DRAIN_POLL_S):
        raise ApiTimeoutError(f"node {node_id} still leads {left} partitions: nobody else may lead them")
    return left
