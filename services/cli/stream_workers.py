"""`headrace stream run --workers`, `scale` and `stop`: applications on Ray workers."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...protocol.errors import NoClusterError
from ..cluster_files_io import known_clusters, read_cluster_file
from ..discovery import chosen_cluster
from ..ray_session import joined, wanted_address
from .common import Settings, changing_command, cluster_option, key_value_pairs
from .interrupts import interrupts
from .output import note
from .progress import progress_bar, quiet_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...stream import Workers

F = TypeVar("F", bound="Callable[..., Any]")

NAMESPACE = "headrace_streams"
POLL_S = 1.0
_MIB = 1 << 20


def ray_option(command: F) -> F:
    """--ray-address: the Ray of the workers."""
    return click.option(
        "--ray-address",
        metavar="HOST:PORT",
        help="Ray cluster that runs the workers [default: that of the headrace cluster].",
    )(command)


def worker_options(command: F) -> F:
    """The options of `run` for workers on Ray."""
    options = (
        click.option("--workers", type=click.IntRange(min=1), help="Number of Ray workers to run on."),
        click.option(
            "--autoscale",
            metavar="MIN:MAX",
            callback=_bounds,
            help="Scale the number of Ray workers by lag, within these bounds.",
        ),
        click.option("--cpus", type=click.FloatRange(min=0), help="CPUs that Ray reserves for each worker."),
        click.option(
            "--memory",
            type=click.IntRange(min=1),
            metavar="MIB",
            help="Memory that Ray reserves for each worker, in MiB.",
        ),
        click.option("--gpus", type=click.FloatRange(min=0), help="GPUs that Ray reserves for each worker."),
        click.option(
            "--resource",
            "resources",
            multiple=True,
            metavar="NAME=AMOUNT",
            callback=_amounts,
            help="Custom Ray resource for each worker; repeatable.",
        ),
        click.option(
            "--working-dir", metavar="DIR", help="Directory that Ray copies to the machines of the workers."
        ),
        click.option("--detach", is_flag=True, help="Return when the workers run; `stream stop` ends them."),
        click.option(
            "--timeout",
            "timeout_s",
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            help="With --detach: seconds to wait until all workers run [default: 120].",
        ),
        ray_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def app_config(settings: Settings) -> dict[str, str]:
    """The config of an application: the file of --command-config is that of each of its clients, -X pairs are
    its own."""
    clients = ("admin", "consumer", "producer")
    of_file = settings.command_config.items()
    return {f"{client}.{name}": value for client in clients for name, value in of_file} | settings.config


def run_workers(settings: Settings, target: str, threads: int | None, given: dict[str, Any]) -> None:
    """Start or find the application, and stay until it ends, unless it is detached."""
    from ...stream import run

    options = {name: given[name] for name in ("workers", "autoscale", "resources") if given[name] is not None}
    shares = {"cpus": given["cpus"], "gpus": given["gpus"]}
    if given["memory"] is not None:
        shares["memory_bytes"] = given["memory"] * _MIB
    options |= {name: share for name, share in shares.items() if share is not None}
    if given["working_dir"]:
        options["runtime_env"] = {"working_dir": given["working_dir"]}
    with interrupts(), _on_ray(settings, given["ray_address"]):
        workers = run(target, settings.addresses(), threads=threads, config=app_config(settings), **options)
        name = workers.application_id
        note(f"application {name} is starting on Ray")
        if given["detach"]:
            limit = {} if given["timeout_s"] is None else {"timeout_s": given["timeout_s"]}
            workers.wait_until_running(**limit)
            note(f"application {name} runs; `headrace stream stop {name}` ends it")
            return
        note("Ctrl-C ends it")
        _follow(workers)


def _follow(workers: Workers) -> None:
    """Report changes until the application ends, and stop it at an interrupt."""
    name, said = workers.application_id, ""
    try:
        while not workers.wait(POLL_S):
            line = _line(workers.status())
            if line != said:
                note(line)
                said = line
    except KeyboardInterrupt:
        note(f"stopping {name}: its workers commit and close their stores")
        workers.stop()
    note(f"application {name} has ended; all that it processed is committed")


def _line(status: dict[str, Any]) -> str:
    running = [each for each in status["workers"] if each["instance"].get("state") == "RUNNING"]
    parts = [f"{len(running)} of {status['target']} workers run"]
    if status["last_change"]:
        parts.append(status["last_change"])
    parts += [
        f"worker {each['worker']}: {each['last_error']}" for each in status["workers"] if each["last_error"]
    ]
    return "; ".join(parts)


@click.command()
@click.argument("application_id", metavar="APP")
@click.argument("workers", type=click.IntRange(min=1), metavar="N")
@ray_option
@changing_command(cluster_option, quiet_option)
def scale(settings: Settings, *, application_id: str, workers: int, ray_address: str | None) -> None:
    """Set the number of Ray workers of the running application APP to N."""
    from ...stream import connect_workers

    with progress_bar(f"scaling {application_id}"), _on_ray(settings, ray_address):
        found = connect_workers(application_id)
        before = found.status()["target"]
        found.scale(workers)
    note(f"application {application_id}: {before} to {workers} workers")


@click.command()
@click.argument("application_id", metavar="APP")
@ray_option
@changing_command(cluster_option, quiet_option)
def stop(settings: Settings, *, application_id: str, ray_address: str | None) -> None:
    """Stop application APP on Ray: its workers commit and close their stores."""
    from ...stream import connect_workers

    with progress_bar(f"stopping {application_id}"), _on_ray(settings, ray_address):
        connect_workers(application_id).stop()
    note(f"application {application_id} has ended; all that it processed is committed")


@contextlib.contextmanager
def _on_ray(settings: Settings, given: str | None) -> Iterator[None]:
    """Connected to the Ray of the workers: `given`, that of the cluster, or RAY_ADDRESS. Errors:
    NoClusterError, UnknownClusterError."""
    name, known = settings.cluster_name, known_clusters()
    facts = read_cluster_file(name) if name in known else None
    address = given or (facts.ray_address if facts is not None else None) or wanted_address(None)
    if not address:
        chosen = chosen_cluster(name, known, "--cluster, or its Ray with --ray-address")
        raise NoClusterError(f"cluster {chosen!r} does not run on Ray: name one with --ray-address")
    with joined(address, NAMESPACE, facts.ray_env if facts is not None else None):
        yield


def _bounds(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    low, separator, high = text.partition(":")
    if not separator or not low.isdecimal() or not high.isdecimal():
        raise click.BadParameter(f"{text!r} is not MIN:MAX, such as 1:8")
    return int(low), int(high)


def _amounts(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, float] | None:
    pairs = key_value_pairs(context, option, values)
    try:
        return {name: float(amount) for name, amount in pairs.items()} or None
    except ValueError as error:
        raise click.BadParameter(f"an amount is a number: {error}") from None
