"""`headrace deploy …`: files for deployments."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ...protocol.errors import ConfigError
from .common import Settings, reading_command
from .output import note, write_line


@click.group()
def deploy() -> None:
    """Print files for deployments."""


def _absolute(_context: click.Context, option: click.Parameter, value: str) -> str:
    """Errors: click.BadParameter for what a unit cannot have as a path."""
    if not value.startswith("/") or any(c.isspace() or c == "%" for c in value):
        raise click.BadParameter(f"{value!r} is not an absolute path without spaces", param=option)
    return value


@deploy.command()
@click.option("--user", default="headrace", show_default=True, help="User of the servers.")
@click.option(
    "--program",
    default=lambda: str(Path(sys.executable).parent / "headrace"),
    callback=_absolute,
    help="The headrace command [default: that of this Python].",
)
@click.option(
    "--config-dir",
    default="/etc/headrace",
    show_default=True,
    callback=_absolute,
    help="Folder of the files.",
)
@click.option(
    "--data-dir",
    default="/var/lib/headrace",
    show_default=True,
    callback=_absolute,
    help="Folder of the data.",
)
@click.option(
    "--write",
    "folder",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write the files into DIR instead; files that exist there are kept.",
)
@reading_command()
def systemd(
    _settings: Settings, *, user: str, program: str, config_dir: str, data_dir: str, folder: str | None
) -> None:
    """Print systemd units for servers without Ray, and config files to start from."""
    from ..deploy.systemd import UnitOptions, config_files, unit_files

    options = UnitOptions(program, user, config_dir, data_dir)
    files = {**unit_files(options), **config_files(options)}
    if folder is None:
        for name, text in files.items():
            place = "/etc/systemd/system" if name.endswith(".service") else config_dir
            write_line(f"# {place}/{name}\n{text}")
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    existing = [name for name in files if (Path(folder) / name).exists()]
    if existing:
        raise ConfigError(f"{folder} has {', '.join(existing)}: nothing was written")
    for name, text in files.items():
        (Path(folder) / name).write_text(text)
        note(f"wrote {folder}/{name}")
