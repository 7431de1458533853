"""`headrace stream`: run, describe and reset applications of headrace.stream."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...protocol.errors import ConfigError
from ...runtime.nearest import did_you_mean
from .common import (
    Settings,
    bootstrap_option,
    changing_command,
    cluster_option,
    config_option,
    form_option,
    reading_command,
)
from .output import note, write_line
from .stream_query import query
from .stream_reset import reset

if TYPE_CHECKING:
    from ...stream import App


@click.group("stream")
def group() -> None:
    """Streams applications."""


group.add_command(query)
group.add_command(reset)


@group.command()
@click.argument("target", metavar="MODULE:APP")
@click.option("--threads", type=click.IntRange(min=1), help="Threads of this process [default: the app's].")
@changing_command(bootstrap_option, cluster_option, config_option, form_option)
def run(settings: Settings, *, target: str, threads: int | None) -> None:
    """Run the application APP of a Python MODULE in this process, until SIGINT or SIGTERM.

    Then it commits and closes its stores. APP is a `headrace.stream.App`, or a function that returns one.
    Several processes with the same application id share the work. -X overrides its config, also of its
    clients: -X producer.linger.ms=5.
    """
    app = app_of(target)
    note(f"application {app.application_id}; Ctrl-C ends it")
    app.run(settings.addresses(), threads=threads, config=settings.config)
    note(f"application {app.application_id} has ended; all that it processed is committed")


@group.command()
@click.argument("target", metavar="MODULE:APP")
@click.option("--svg", "path", metavar="FILE", type=click.Path(dir_okay=False), help="Write a drawing, too.")
@reading_command()
def describe(_settings: Settings, *, target: str, path: str | None) -> None:
    """Show the topology of the application APP of a Python MODULE; no cluster is needed."""
    app = app_of(target)
    write_line(app.describe().rstrip("\n"))
    if path is not None:
        from ...stream.topology.drawing import drawing

        Path(path).write_text(drawing(app.build(app.application_id)))
        note(f"the drawing is in {path}")


def app_of(target: str) -> App:
    """The application that `module:name` names. Errors: ConfigError."""
    from ...stream import App

    module_name, separator, name = target.partition(":")
    if not separator or not module_name or not name:
        raise ConfigError(f"{target!r} is not MODULE:APP, such as orders:app")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module_name}.".startswith(f"{missing}."):
            raise ConfigError(f"there is no module {missing!r} here or in the environment") from error
        raise ConfigError(
            f"module {module_name} cannot be imported: {type(error).__name__}: {error}; --debug shows where"
        ) from error
    found = getattr(module, name, None)
    if found is None:
        raise ConfigError(f"module {module_name} has no {name!r}{did_you_mean(name, vars(module))}")
    if callable(found) and not isinstance(found, App):
        found = found()
    if not isinstance(found, App):
        raise ConfigError(
            f"{target} is {type(found).__name__}, not a headrace.stream.App or a function that returns one"
        )
    return found
