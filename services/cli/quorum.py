"""`headrace quorum`: the controllers of a cluster, as their leader sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...clients.bootstrap import parse_addresses
from ...protocol.errors import DuplicateVoterError, VoterNotFoundError
from .admin import open_admin
from .common import (
    Settings,
    bootstrap_option,
    changing_command,
    cluster_option,
    config_option,
    form_option,
    reading_command,
)
from .output import note, print_object, print_rows, write_line
from .watch import watchable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...clients.admin.admin_types import QuorumDescription, QuorumReplicaInfo
    from ...clients.cluster.network import Address

_COLUMNS = ("id", "role", "end_offset", "lag", "last_fetch_ms", "last_caught_up_ms", "endpoint", "directory")
DIRECTORY_ID_BYTES = 16


def _directory_id(_context: click.Context, _option: click.Parameter, text: str | None) -> bytes | None:
    """Errors: click.BadParameter."""
    try:
        found = None if text is None else bytes.fromhex(text)
    except ValueError:
        found = b""
    if found is not None and len(found) != DIRECTORY_ID_BYTES:
        raise click.BadParameter("a directory id has 32 hex digits; see `headrace quorum status`")
    return found


def _endpoint(_context: click.Context, _argument: click.Parameter, text: str) -> Address:
    """Errors: click.BadParameter, ConfigError."""
    if "," in text or not text.rpartition(":")[2].isdigit():
        raise click.BadParameter(f"{text!r} is not HOST:PORT")
    return parse_addresses(text)[0]


_directory_option = click.option(
    "--directory",
    metavar="HEX",
    callback=_directory_id,
    help="Directory id of the controller [default: as the leader knows it].",
)


@click.group()
def quorum() -> None:
    """Describe the controller quorum, and add and remove voters."""


@quorum.command()
@reading_command(bootstrap_option, config_option, form_option, cluster_option)
@watchable
def status(settings: Settings) -> None:
    """Show the leader, the epoch, the high watermark and the lag of every controller."""
    with open_admin(settings, settings.client_config()) as admin:
        facts = described(admin.describe_metadata_quorum())
    if not settings.is_text:
        print_object(facts, settings.form)
        return
    head = ("leader_id", "leader_epoch", "high_watermark", "max_follower_lag")
    print_object({name: facts[name] for name in head}, "text")
    write_line("")
    print_rows([*facts["voters"], *facts["observers"]], _COLUMNS, "text")


@quorum.command("add-voter")
@click.argument("controller_id", type=click.IntRange(min=0), metavar="ID")
@click.argument("address", metavar="HOST:PORT", callback=_endpoint)
@_directory_option
@changing_command(bootstrap_option, config_option, cluster_option)
def add_voter(settings: Settings, *, controller_id: int, address: Address, directory: bytes | None) -> None:
    """Add controller ID to the voters; it is an observer that listens at HOST:PORT."""
    with open_admin(settings, settings.client_config()) as admin:
        found = admin.describe_metadata_quorum()
        if directory is None and _known_as(controller_id, found.voters):
            raise DuplicateVoterError(f"controller {controller_id} is a voter already")
        key = directory or _directory(controller_id, found.observers, "an observer: start it first")
        admin.add_raft_voter(controller_id, key, address)
    note(f"added controller {controller_id} to the voters")


@quorum.command("remove-voter")
@click.argument("controller_id", type=click.IntRange(min=0), metavar="ID")
@_directory_option
@changing_command(bootstrap_option, config_option, cluster_option)
def remove_voter(settings: Settings, *, controller_id: int, directory: bytes | None) -> None:
    """Remove controller ID from the voters. A controller that joins automatically must be stopped first."""
    with open_admin(settings, settings.client_config()) as admin:
        voters = admin.describe_metadata_quorum().voters
        admin.remove_raft_voter(controller_id, directory or _directory(controller_id, voters, "a voter"))
    note(f"removed controller {controller_id} from the voters")


def described(found: QuorumDescription) -> dict[str, Any]:
    """The quorum as JSON-able values; offsets of the metadata log, times in ms before now."""
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


def _known_as(controller_id: int, replicas: Iterable[QuorumReplicaInfo]) -> list[bytes]:
    return [each.directory_id for each in replicas if each.replica_id == controller_id]


def _directory(controller_id: int, replicas: Iterable[QuorumReplicaInfo], what: str) -> bytes:
    """The directory id of the controller. Errors: VoterNotFoundError; click.UsageError if there are
    several."""
    found = _known_as(controller_id, replicas)
    if not found:
        raise VoterNotFoundError(f"controller {controller_id} is not {what}")
    if len(found) > 1:  # it was restarted with an empty disk, or two controllers have the same id
        names = ", ".join(directory.hex() for directory in found)
        raise click.UsageError(
            f"controller {controller_id} has several metadata directories: give --directory, one of {names}"
        )
    return found[0]


def _known(value: int) -> int | None:
    return None if value < 0 else value
