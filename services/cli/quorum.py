"""`headrace quorum`: the controllers that decide for a cluster, as their leader sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .common import Settings, bootstrap_option, cluster_option, config_option, form_option, with_settings
from .output import print_object, print_rows, write_line

if TYPE_CHECKING:
    from ...clients.admin.admin_types import QuorumDescription, QuorumReplicaInfo

_COLUMNS = ("id", "role", "end_offset", "lag", "last_fetch_ms", "last_caught_up_ms", "endpoint", "directory")


@click.group()
def quorum() -> None:
    """Look at the controllers of a cluster."""


@quorum.command()
@with_settings(bootstrap_option, config_option, form_option, cluster_option)
def status(settings: Settings) -> None:
    """Show who leads, in which epoch, what is decided, and how far every controller is."""
    from ...clients.sync.admin_io import Admin

    with Admin(settings.addresses(), config=settings.client_config()) as admin:
        facts = described(admin.describe_metadata_quorum())
    if settings.form != "text":
        print_object(facts, settings.form)
        return
    head = ("leader_id", "leader_epoch", "high_watermark", "max_follower_lag")
    print_object({name: facts[name] for name in head}, "text")
    write_line("")
    print_rows([*facts["voters"], *facts["observers"]], _COLUMNS, "text")


def described(found: QuorumDescription) -> dict[str, Any]:
    """The quorum, JSON-able; offsets count records of the metadata log, times are in ms before now."""
    voters = [_row(each, found.leader_id, "follower") for each in found.voters]
    return {
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "max_follower_lag": max((row["lag"] for row in voters if row["lag"] is not None), default=0),
        "voters": voters,
        "observers": [_row(each, found.leader_id, "observer") for each in found.observers],
    }


def _row(each: QuorumReplicaInfo, leader_id: int, role: str) -> dict[str, Any]:
    return {
        "id": each.replica_id,
        "role": "leader" if each.replica_id == leader_id and role == "follower" else role,
        "end_offset": _known(each.log_end_offset),
        "lag": _known(each.lag),
        "last_fetch_ms": _known(each.last_fetch_ago_ms),
        "last_caught_up_ms": _known(each.last_caught_up_ago_ms),
        "endpoint": f"{each.address.host}:{each.address.port}" if each.address.port else None,
        "directory": each.directory_id.hex(),
    }


def _known(value: int) -> int | None:
    return None if value < 0 else value
