"""`headrace storage …`: formats and describes the data dirs of servers that are not running."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...clients.bootstrap import parse_addresses
from .common import Settings, changing_command, form_option, reading_command
from .output import note, print_rows, write_line

if TYPE_CHECKING:
    from ..storage_format_io import Voter

_INFO = ("directory", "role", "id", "cluster_id", "directory_id", "state", "detail")


@click.group()
def storage() -> None:
    """Format and describe the data dirs of servers."""


@storage.command("random-uuid")
@reading_command()
def random_uuid(_settings: Settings) -> None:
    """Print a random id in Kafka's form, for a cluster or a directory."""
    from ...storage_node.log.checkpoints import uuid_text

    found = "-"
    while found.startswith("-"):  # it would be an option on a command line; Kafka's tool avoids it, too
        found = uuid_text(secrets.token_bytes(16))
    write_line(found)


@storage.command()
@click.argument(
    "directories",
    nargs=-1,
    required=True,
    metavar="DIR…",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@reading_command(form_option)
def info(settings: Settings, *, directories: tuple[Path, ...]) -> None:
    """Show the identities of data dirs: of servers, or of all servers in the data dir of a cluster.

    Exit code 1 if a dir is not formatted or has a problem.
    """
    from ..storage_format_io import describe

    rows = [row for path in directories for row in describe(path)]
    print_rows(rows, _INFO, settings.form)
    if any(row["state"] != "formatted" for row in rows):
        click.get_current_context().exit(1)


def _voters(_context: click.Context, option: click.Parameter, text: str | None) -> list[Voter]:
    """Of Kafka's ID@HOST:PORT:DIRECTORY, separated by commas. Errors: click.BadParameter."""
    from ...storage_node.log.checkpoints import CorruptFileError, uuid_from_text
    from ..storage_format_io import Voter

    found = []
    for part in [] if text is None else text.split(","):
        number, at, rest = part.partition("@")
        address, colon, directory = rest.rpartition(":")
        if not (at and colon and number.isdecimal()):
            raise click.BadParameter(f"{part!r} is not ID@HOST:PORT:DIRECTORY", param=option)
        try:
            found.append(Voter(int(number), _address(address, option), uuid_from_text(directory)))
        except CorruptFileError as error:
            raise click.BadParameter(f"{part!r}: {error}", param=option) from error
    if len({each.controller_id for each in found}) != len(found):
        raise click.BadParameter("a controller occurs twice", param=option)
    return found


def _address(text: str, option: click.Parameter) -> tuple[str, int]:
    if not text.rpartition(":")[2].isdigit():
        raise click.BadParameter(f"{text!r} is not HOST:PORT", param=option)
    host, port = parse_addresses(text)[0]
    return host, port


def _listener(_context: click.Context, option: click.Parameter, text: str | None) -> tuple[str, int] | None:
    return None if text is None else _address(text, option)


@storage.command("format")
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--cluster-id", required=True, metavar="ID", help="As of `headrace storage random-uuid`.")
@click.option("--node", "node_id", type=click.IntRange(min=0), metavar="ID", help="Id of the storage node.")
@click.option("--controller", "controller_id", type=click.IntRange(min=0), metavar="ID", help="Id.")
@click.option(
    "--standalone",
    metavar="HOST:PORT",
    callback=_listener,
    help="The controller is the only voter of a new quorum, and listens there.",
)
@click.option(
    "--initial-controllers",
    "voters",
    metavar="ID@HOST:PORT:DIRECTORY,…",
    callback=_voters,
    help="Voters of a new quorum, this controller among them, with the directory ids that they are formatted"
    " with.",
)
@click.option("--ignore-formatted", is_flag=True, help="Accept a dir that is formatted for this server.")
@changing_command(form_option)
def format_directory(
    settings: Settings,
    *,
    directory: Path,
    cluster_id: str,
    node_id: int | None,
    controller_id: int | None,
    standalone: tuple[str, int] | None,
    voters: list[Voter],
    ignore_formatted: bool,
) -> None:
    """Format the data dir of a server that `headrace up` or a deployment starts later.

    Servers format their dirs at their first start by themselves; a dir that is formatted before sets the
    cluster that the server may join, and the first voters of a quorum. Without --standalone and
    --initial-controllers a controller joins as observer.
    """
    from ..storage_format_io import describe, format_controller, format_node

    if (node_id is None) is (controller_id is None):
        raise click.UsageError("give --node ID, or --controller ID")
    if node_id is not None and (standalone or voters):
        raise click.UsageError("--standalone and --initial-controllers belong to --controller")
    if standalone and voters:
        raise click.UsageError("--standalone and --initial-controllers exclude each other")
    if node_id is not None:
        done = format_node(directory, cluster_id, node_id, ignore_formatted=ignore_formatted)
    else:
        assert controller_id is not None, "checked above"
        done = format_controller(
            directory, cluster_id, controller_id, standalone, voters, ignore_formatted=ignore_formatted
        )
    note(f"formatted {directory}" if done else f"{directory} is formatted already")
    print_rows(describe(directory), _INFO, settings.form)
