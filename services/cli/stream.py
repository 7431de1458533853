"""`headrace stream`: run, describe and reset applications of headrace.stream."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import ConfigError
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
from .completion import group_names
from .output import note, print_rows, write_line
from .sent_topology import sent_topology, topology_lines, topology_rows
from .stream_query import query, serve
from .stream_reset import reset
from .stream_status import status, top
from .stream_workers import app_config, run_workers, scale, stop, worker_options

if TYPE_CHECKING:
    from ...protocol.records.streams_group_records import TopologyDescription
    from ...stream import App


@click.group("stream")
def group() -> None:
    """Run, describe, query, reset and monitor streams applications."""


_WAYS = {
    "SAME": "its topology has not changed",
    "ROLLING": "instances can be replaced one by one",
    "STOP": "no instance runs",
}

group.add_command(query)
group.add_command(serve)
group.add_command(reset)
group.add_command(status)
group.add_command(top)
group.add_command(scale)
group.add_command(stop)


@group.command()
@click.argument("target", metavar="MODULE:APP")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Number of threads of this process [default: num.stream.threads of the application].",
)
@click.option(
    "--allow-topology-change",
    is_flag=True,
    help="Start although the changed topology leaves stores empty; see `stream diff`.",
)
@worker_options
@changing_command(bootstrap_option, cluster_option, config_option, form_option)
def run(
    settings: Settings, *, target: str, threads: int | None, allow_topology_change: bool, **given: Any
) -> None:
    """Run application APP of a Python MODULE until SIGINT or SIGTERM; then commit and close its stores.

    APP is a `headrace.stream.App`, or a function that returns one. The application runs in this process, or
    with --workers or --autoscale on Ray; if it already runs on Ray, it is scaled. Processes with the same
    application id share its tasks. -X overrides configs of the application, also those of its clients, such
    as -X producer.linger.ms=5. --command-config is the config of all of its clients.
    """
    if allow_topology_change:
        settings.config["allow.topology.change"] = "true"
    if given["workers"] is not None or given["autoscale"] is not None:
        run_workers(settings, target, threads, given)
        return
    alone = next((name for name, value in given.items() if value), None)
    if alone is not None:
        raise click.UsageError(f"--{alone.replace('_', '-')} needs --workers or --autoscale")
    app = app_of(target)
    note(f"application {app.application_id}; Ctrl-C ends it")
    app.run(settings.addresses(), threads=threads, config=app_config(settings))
    note(f"application {app.application_id} has ended; all that it processed is committed")


@group.command()
@click.argument("target", metavar="MODULE:APP")
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
def diff(settings: Settings, *, target: str) -> None:
    """Compare the topology of application APP of a Python MODULE with the topology in its group.

    Each difference begins with the upgrade that it needs: rolling (replace instances one by one), stop (stop
    all instances first) or loss (stores start empty, or records are lost). Exit code 1 if the application
    would refuse to start.
    """
    from ...stream.errors import IncompatibleTopologyError
    from ...stream.worker.upgrade_io import preview
    from ...stream.worker.upgrade_io import refusal as refusal_of

    app = app_of(target)
    with open_admin(settings, settings.client_config()) as admin:
        found = preview(admin, app.topology(), app.config)
    if found is None:
        note(f"application {app.application_id} has no group with a topology: nothing to compare")
        return
    if settings.is_text:
        for line in found.changes.lines():
            write_line(line)
    else:
        rows = [{"effect": each.effect.name.lower(), "text": each.text} for each in found.changes.changes]
        print_rows(rows, (), settings.form)
    if found.is_refused:
        raise IncompatibleTopologyError(refusal_of(app.application_id, found))
    note(f"the application can start: {_WAYS[found.changes.effect.name]}")


@group.command()
@click.argument("target", metavar="ID|MODULE:APP", shell_complete=group_names)
@click.option(
    "--svg",
    "path",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Also write a drawing of the topology to this file.",
)
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
def describe(settings: Settings, *, target: str, path: str | None) -> None:
    """Show the topology of an application.

    With an application ID, shows the topology that its instances sent to their group; the code is not needed.
    With a Python MODULE and an APP in it, no cluster is needed. The text has the form of Kafka Streams; -o
    json has the nodes with their topics, stores and connections.
    """
    graph = app_of(target).topology().graph() if ":" in target else _sent(settings, target)
    if settings.is_text:
        for line in topology_lines(graph):
            write_line(line)
    else:
        print_rows(topology_rows(graph), (), settings.form)
    if path is not None:
        from ...stream.topology.drawing import drawing

        Path(path).write_text(drawing(graph))
        note(f"the drawing is in {path}")


def _sent(settings: Settings, application_id: str) -> TopologyDescription:
    """The description that the group of the application has. Errors: HeadraceError."""
    with open_admin(settings, settings.client_config()) as admin:
        found = sent_topology(admin, application_id)
    if found is None:
        raise ConfigError(
            f"no instance of application {application_id!r} has sent its topology: Kafka Streams does not,"
            " nor does topology.description.push.enabled=false; MODULE:APP shows that of a program"
        )
    return found


def app_of(target: str) -> App:
    """The application that `module:name` names. Errors: ConfigError."""
    from ...stream.targets_io import app_of as find

    return find(target, [os.getcwd()])
