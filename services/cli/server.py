"""`headrace server …`: one server per process, without Ray."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...runtime.tracing.log_ids import LOG_FORMAT, log_with_ids
from .common import Settings, changing_command, config_option, form_option, reading_command
from .output import note, print_object
from .watch import watchable

if TYPE_CHECKING:
    from ..server.config_file import ServerFile

JOURNAL_FORMAT = "%(levelname)s %(name)s: %(message)s"  # the journal has the time
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

_file_option = click.option(
    "-c",
    "--config",
    "path",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Lines of key=value, as Kafka's server.properties; -X precedes them.",
)
_level_option = click.option(
    "--log-level", "level", type=click.Choice(_LEVELS), default="INFO", show_default=True, help="Log level."
)


@click.group()
def server() -> None:
    """Run a storage node or a controller in this process, without Ray."""


@server.command("node")
@_file_option
@_level_option
@changing_command(config_option)
def run_node(settings: Settings, *, path: str, level: str) -> None:
    """Run a storage node until SIGTERM. Tells systemd when it is ready."""
    _serve("node", path, settings, level)


@server.command("controller")
@_file_option
@_level_option
@changing_command(config_option)
def run_controller(settings: Settings, *, path: str, level: str) -> None:
    """Run a controller until SIGTERM. Tells systemd when it is ready."""
    _serve("controller", path, settings, level)


@server.command("format")
@_file_option
@click.option(
    "--standalone",
    is_flag=True,
    required=True,
    help="Begin a new quorum, with this controller as the only voter; the others join it.",
)
@click.option(
    "--if-new",
    is_flag=True,
    help="Do nothing if this controller, or another one that answers, is part of a quorum.",
)
@changing_command(config_option)
def format_dir(settings: Settings, *, path: str, standalone: bool, if_new: bool) -> None:
    """Begin the quorum of a new cluster on the first of several controllers, once, before it runs.

    A single controller without other bootstrap servers needs no format.
    """
    from ..server.process_io import format_standalone

    assert standalone
    file = _read("controller", path, settings)
    if format_standalone(file, if_new=if_new):
        note(f"{file.directory}: {file.name} is the first voter of a new quorum")
    else:
        note(f"{file.directory}: the quorum exists, nothing was changed")


@server.command("status")
@_file_option
@click.option("--stacks", is_flag=True, help="Print the stacks of all threads instead.")
@reading_command(config_option, form_option)
@watchable
def show_status(settings: Settings, *, path: str, stacks: bool) -> None:
    """Print the status of the server process of this config file, which runs on this machine."""
    from ..server.config_file import directory_of
    from ..server.control_io import ask

    directory = directory_of(Path(path).read_text(), settings.config)
    found: dict[str, Any] = ask(directory, "stacks" if stacks else "status")
    if settings.is_text and stacks:
        for name, lines in found.items():
            click.echo(f"{name}\n" + "\n".join(lines))
    else:
        print_object(found, settings.form)


def _serve(role: str, path: str, settings: Settings, level: str) -> None:
    from ..server.process_io import serve

    is_journal = "JOURNAL_STREAM" in os.environ
    log_with_ids(level, JOURNAL_FORMAT if is_journal else LOG_FORMAT)
    serve(_read(role, path, settings), note)


def _read(role: str, path: str, settings: Settings) -> ServerFile:
    """Errors: ConfigError, OSError."""
    from ...protocol.errors import ConfigError
    from ...runtime.config_references_io import resolve_references
    from ..server.config_file import server_file

    try:
        return server_file(role, Path(path).read_text(), settings.config, resolve_references)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
