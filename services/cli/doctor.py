"""`headrace doctor`: problems of machines and of a cluster, with the commands that fix them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from ...protocol.errors import NoClusterError
from ..cluster_files_io import known_clusters, read_cluster_file
from ..discovery import chosen_cluster
from .common import (
    NotFoundError,
    Settings,
    bootstrap_option,
    cluster_option,
    config_option,
    form_option,
    reading_command,
)
from .output import print_object, write_line

if TYPE_CHECKING:
    from ..doctor.findings import Finding


def _listeners(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, int], ...]:
    """Errors: click.BadParameter."""
    found = list[tuple[str, int]]()
    for text in values:
        host, _, port = text.rpartition(":")
        if not port.isdigit() or not 0 < int(port) < 65_536:
            raise click.BadParameter(f"{text!r} is not HOST:PORT or :PORT")
        found.append((host, int(port)))
    return tuple(found)


@click.command()
@click.option("--all", "is_all", is_flag=True, help="Check all machines of the cluster, through Ray.")
@click.option(
    "--data-dir",
    "data_dirs",
    multiple=True,
    metavar="DIR",
    help="Data dir of a server, on which fsync is measured; repeatable [default: that of the cluster].",
)
@click.option(
    "--listen",
    multiple=True,
    metavar="HOST:PORT",
    callback=_listeners,
    help="Address on which a server will listen; repeatable.",
)
@click.option("--strict", "is_strict", is_flag=True, help="Warnings, too, make the exit code 1.")
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
def doctor(
    settings: Settings,
    *,
    is_all: bool,
    data_dirs: tuple[str, ...],
    listen: tuple[tuple[str, int], ...],
    is_strict: bool,
) -> None:
    """Check this machine, and the cluster if one runs: each problem with the command that fixes it.

    Exit code 1 if there is an error: a server cannot run, or records can be lost.
    """
    from ..doctor.doctor_io import DoctorOptions, examine, examine_all
    from ..doctor.findings import Severity
    from ..doctor.report import lines

    bootstrap, config = _bootstrap(settings), None
    if bootstrap is not None or settings.bootstrap:
        config = settings.client_config()
    options = DoctorOptions(data_dirs, listen, bootstrap, config)
    if is_all:
        if settings.bootstrap:
            raise click.UsageError("--all asks Ray for the machines: it needs --cluster instead of -b")
        report = examine_all(read_cluster_file(_name(settings)), options)
    else:
        if not data_dirs:
            with contextlib.suppress(NoClusterError):
                options = DoctorOptions(
                    (read_cluster_file(_name(settings)).data_dir,), listen, bootstrap, config
                )
        report = examine(options)
    if settings.form == "text":
        for line in lines(report):
            write_line(line)
    else:
        print_object(report.to_json(), settings.form)
    limit = Severity.WARNING if is_strict else Severity.ERROR
    if _has(report.findings(), limit):
        click.get_current_context().exit(1)


def _has(findings: list[Finding], limit: int) -> bool:
    return any(each.severity >= limit for each in findings)


def _bootstrap(settings: Settings) -> str | None:
    """Addresses of the cluster; None if there is none. Errors: NoClusterError for a named one."""
    try:
        return settings.addresses() or ""
    except (NoClusterError, NotFoundError):
        if settings.cluster:
            raise
        return None


def _name(settings: Settings) -> str:
    """Errors: UnknownClusterError."""
    return chosen_cluster(settings.cluster_name, known_clusters(), "--cluster")
