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
from .stream_workers import run_workers, scale, stop, worker_options

if TYPE_CHECKING:
    from ...protocol.records.streams_group_records import TopologyDescription
    from ...stream import App


@click.group("stream")
def group() -> None:
    """Streams applications."""


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
@click.option("--threads", type=click.IntRange(min=1), help="Threads of this process [default: the app's].")
@click.option("--allow-topology-change", is_flag=True, help="Start although stores begin empty; see `diff`.")
@worker_options
@changing_command(bootstrap_option, cluster_option, config_option, form_option)
def run(
    settings: Settings, *, target: str, threads: int | None, allow_topology_change: bool, **given: Any
) -> None:
    """Run the application APP of a Python MODULE, until SIGINT or SIGTERM.

    Then it commits and closes its stores. It runs in this process, or with --workers or --autoscale on Ray.
    An application that runs on Ray is found by its id, and scaled. APP is a `headrace.stream.App`, or a
    function that returns one.
    Several processes with the same application id share the work. -X overrides its config, also of its
    clients: -X producer.linger.ms=5.
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
    app.run(settings.addresses(), threads=threads, config=settings.config)
    note(f"application {app.application_id} has ended; all that it processed is committed")


@group.command()
@click.argument("target", metavar="MODULE:APP")
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
def diff(settings: Settings, *, target: str) -> None:
    """Compare the topology of the application APP of a Python MODULE with the one that its group has.

    Each difference begins with what it needs: rolling (instances are replaced one by one), stop (all stop
    first) or loss (stores begin empty, or records are lost). The exit code is 1 where the application would
    not start."""
    from ...stream.errors import IncompatibleTopologyError
    from ...stream.worker.upgrade_io import preview
    from ...stream.worker.upgrade_io import refusal as refusal_of

    app = app_of(target)
    with open_admin(settings, settings.client_config()) as admin:
        found = preview(admin, app.topology(), app.config)
    if found is None:
        note(f"application {app.application_id} has no group with a topology: nothing to compare")
        return
    if settings.form == "text":
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
    help="Write a drawing, too.",
)
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
def describe(settings: Settings, *, target: str, path: str | None) -> None:
    """Show the topology of an application.

    With the application ID it is the one that its instances have sent to their group: its code is not needed.
    With a Python MODULE and an APP in it no cluster is needed. The text is that of Kafka Streams; -o json has
    the nodes with their topics, stores and connections.
    """
    graph = app_of(target).topology().graph() if ":" in target else _sent(settings, target)
    if settings.form == "text":
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
