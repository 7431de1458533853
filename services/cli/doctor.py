"""`headrace doctor`: problems of machines and of a cluster, with the commands that fix them."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
from .progress import progress_bar, quiet_option

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
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Config file of a server of this machine, which is checked before its start; repeatable. -X pairs"
    " then precede its keys, and a cluster is only asked with -b or --cluster.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1),
    metavar="N",
    help="Storage nodes that the cluster will have, for the replication factors in the config files.",
)
@click.option("--strict", "is_strict", is_flag=True, help="Warnings, too, make the exit code 1.")
@reading_command(bootstrap_option, cluster_option, config_option, form_option, quiet_option)
def doctor(
    settings: Settings,
    *,
    is_all: bool,
    data_dirs: tuple[str, ...],
    listen: tuple[tuple[str, int], ...],
    configs: tuple[str, ...],
    nodes: int | None,
    is_strict: bool,
) -> None:
    """Check this machine, and the cluster if one runs: each problem with the command that fixes it.

    Exit code 1 if there is an error: a server cannot run, or records can be lost.
    """
    from ..doctor.doctor_io import DoctorOptions, examine, examine_all
    from ..doctor.findings import Severity
    from ..doctor.report import lines

    if is_all and (settings.bootstrap or configs):
        other = "-b" if settings.bootstrap else "--config"
        raise click.UsageError(f"--all asks Ray for the machines: it excludes {other}")
    if nodes is not None and not configs:
        raise click.UsageError("--nodes is for the replication factors in the files of --config")
    is_named = bool(settings.bootstrap or settings.cluster)
    options = DoctorOptions(data_dirs, listen, configs=configs, nodes=nodes)
    if configs:
        options = replace(options, overrides=settings.config)
    if is_named or not configs:
        options = replace(options, **_cluster(settings, is_config_of_server=bool(configs)))
    if is_all:
        with progress_bar("examining all machines"):
            report = examine_all(read_cluster_file(_name(settings)), options)
    else:
        if not data_dirs and not configs:
            with contextlib.suppress(NoClusterError):
                options = replace(options, data_dirs=(read_cluster_file(_name(settings)).data_dir,))
        with progress_bar("examining this machine"):
            report = examine(options)
    if settings.is_text:
        for line in lines(report):
            write_line(line)
    else:
        print_object(report.to_json(), settings.form)
    limit = Severity.WARNING if is_strict else Severity.ERROR
    if _has(report.findings(), limit):
        click.get_current_context().exit(1)


def _cluster(settings: Settings, *, is_config_of_server: bool) -> dict[str, Any]:
    """Options of the cluster to ask, none if there is none. Errors: NoClusterError for a named one."""
    bootstrap = _bootstrap(settings)
    if bootstrap is None and not settings.bootstrap:
        return {}
    config = settings.client_config_without_pairs() if is_config_of_server else settings.client_config()
    return {"bootstrap": bootstrap, "client_config": config}


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
