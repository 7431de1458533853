"""`headrace security …`: keys, secrets and certificates of a cluster of this machine."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from ..cluster_files_io import known_clusters, read_cluster_file
from ..discovery import chosen_cluster
from .common import Settings, changing_command, cluster_option, form_option, reading_command
from .output import note, print_object, print_rows
from .progress import progress_bar, quiet_option
from .watch import watchable

if TYPE_CHECKING:
    from collections.abc import Mapping


@click.group()
def security() -> None:
    """Show and rotate keys, secrets and certificates of a cluster on Ray."""


@security.command()
@reading_command(cluster_option, form_option)
@watchable
def status(settings: Settings) -> None:
    """Show the fingerprints and ages of keys, secrets and certificates, but no secret."""
    from ..ray_security_io import COLUMNS, security_status

    print_rows(security_status(_cluster(settings)), COLUMNS, settings.form)


@security.command()
@click.option(
    "--keys", is_flag=True, help="Replace the keys of the servers; restarts one server after the other."
)
@click.option("--secret", is_flag=True, help="Replace the secret of calls between the actors of the cluster.")
@click.option(
    "--certificates", is_flag=True, help="Replace the certificates that `up --secure` made for Kafka clients."
)
@click.option(
    "--timeout",
    "timeout_s",
    type=float,
    default=120.0,
    show_default=True,
    help="Seconds to wait for each server.",
)
@changing_command(cluster_option, quiet_option)
def rotate(settings: Settings, *, keys: bool, timeout_s: float, **others: bool) -> None:
    """Replace keys, secret or certificates of a running cluster [default: --keys].

    After an error or Ctrl-C, the same command continues the rotation.
    """
    from .. import ray_security_io

    keys = keys or not any(others.values())
    with progress_bar("replacing keys" if keys else "rotating", unit="servers" if keys else "") as bar:
        ray_security_io.rotate(
            _cluster(settings), note, keys=keys, timeout_s=timeout_s, progress=bar.reach, **others
        )


@security.command("ray-env")
@reading_command(cluster_option, form_option)
def ray_env(settings: Settings) -> None:
    """Print the environment variables that a program needs to connect to the Ray of a cluster.

    In a shell: eval "$(headrace security ray-env)"
    """
    facts = read_cluster_file(_cluster(settings))
    variables: Mapping[str, Any] = {"RAY_ADDRESS": facts.ray_address, **facts.ray_env}
    if not settings.is_text:
        print_object(variables, settings.form)
        return
    for name, value in variables.items():
        click.echo(f"export {name}={shlex.quote(value)}")


def _cluster(settings: Settings) -> str:
    return chosen_cluster(settings.cluster_name, known_clusters(), "--cluster")
