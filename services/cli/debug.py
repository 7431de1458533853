"""`headrace debug …`: what a maintainer needs to find the cause of a problem."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from ...protocol.errors import NoClusterError
from ..cluster_files_io import ClusterFile, known_clusters, read_cluster_file
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
from .output import note, print_object
from .progress import progress_bar, quiet_option

MIB = 1 << 20


@click.group()
def debug() -> None:
    """Collect facts about a problem."""


@debug.command()
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The archive to write [default: headrace-debug-TIME.tar.gz in this folder].",
)
@click.option(
    "--data-dir", "data_dirs", multiple=True, metavar="DIR", help="Data dir of servers here; repeatable."
)
@click.option("--log", "logs", multiple=True, type=click.Path(exists=True), help="A log file; repeatable.")
@click.option(
    "--server-config",
    "configs",
    multiple=True,
    type=click.Path(exists=True),
    help="A config file of a server, secrets are masked; repeatable.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    help="Seconds; what is not there by then is listed as missing.",
)
@click.option(
    "--max-size",
    "max_mib",
    type=click.IntRange(1, 2048),
    default=128,
    show_default=True,
    help="MiB before compression; logs are cut first.",
)
@reading_command(bootstrap_option, cluster_option, config_option, form_option, quiet_option)
def bundle(
    settings: Settings,
    *,
    path: str | None,
    data_dirs: tuple[str, ...],
    logs: tuple[str, ...],
    configs: tuple[str, ...],
    timeout_s: float,
    max_mib: int,
) -> None:
    """Write one archive: status, stacks, configs, descriptions, logs, figures. Secrets are masked.

    Works while a part of the cluster is down: `manifest.json` lists what is missing. Read it before you send
    it: names of topics, groups, users and hosts are in it.
    """
    from ..bundle.bundle_io import BundleOptions, write_bundle

    cluster_file = _cluster_file(settings)
    bootstrap = _bootstrap(settings)
    made_at = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    given = dict.fromkeys(data_dirs)
    if cluster_file is not None and cluster_file.own_ray is None and not given:
        given = {cluster_file.data_dir: None}
    options = BundleOptions(
        path or f"headrace-debug-{made_at}.tar.gz",
        bootstrap,
        settings.client_config() if bootstrap is not None else {},
        cluster_file,
        tuple(given),
        logs,
        configs,
        timeout_s,
        max_mib * MIB,
    )
    with progress_bar("collecting") as bar:

        def report(text: str) -> None:
            note(text)
            bar.describe(text)

        facts = write_bundle(options, report)
    if settings.is_text:
        for missing in facts.pop("missing"):
            note(f"missing: {missing}")
    print_object(facts, settings.form)


def _cluster_file(settings: Settings) -> ClusterFile | None:
    """The cluster of this machine; None for one that -b names."""
    if settings.bootstrap:
        return None
    try:
        return read_cluster_file(chosen_cluster(settings.cluster_name, known_clusters(), "--cluster"))
    except NoClusterError:
        if settings.cluster:
            raise
        return None


def _bootstrap(settings: Settings) -> str | None:
    try:
        return settings.addresses() or ""
    except (NoClusterError, NotFoundError):
        return None
