"""`headrace telemetry …`: what a monitoring system needs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from ..cluster_files_io import known_clusters
from ..discovery import chosen_cluster
from ..telemetry.alert_rule import rules_file
from ..telemetry.alert_rules import RULE_GROUPS
from ..telemetry.dashboards import DASHBOARDS
from .common import NotFoundError, Settings, cluster_option, reading_command
from .output import note, write_line

_DURATION = re.compile(r"([0-9]+(ms|[smhdwy]))+\Z")


@click.group()
def telemetry() -> None:
    """Print alert rules, dashboards and targets for Prometheus and Grafana."""


def _duration(_context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _DURATION.match(value):
        raise click.BadParameter(f"{value!r} is no duration of Prometheus, such as 30s", param=option)
    return value


@telemetry.command()
@click.option(
    "--for", "hold", metavar="DURATION", callback=_duration, help="Use this duration for all alerts."
)
@reading_command()
def rules(_settings: Settings, *, hold: str | None) -> None:
    """Print the alert rules for Prometheus; docs/RUNBOOK.md says what to do when one fires."""
    write_line(rules_file(RULE_GROUPS, hold).rstrip("\n"))


@telemetry.command()
@click.argument("name", required=False, type=click.Choice([each.name for each in DASHBOARDS]))
@click.option(
    "--write",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write each dashboard to a file in DIR, for Grafana's provisioning.",
)
@reading_command()
def dashboards(_settings: Settings, *, name: str | None, folder: Path | None) -> None:
    """Print the Grafana dashboard NAME, or with --write save all of them."""
    chosen = [each for each in DASHBOARDS if name in (None, each.name)]
    if folder is None:
        if name is None:
            raise click.UsageError("name a dashboard, or a folder with --write")
        write_line(json.dumps(chosen[0].as_json(), indent=2))
        return
    folder.mkdir(parents=True, exist_ok=True)
    for each in chosen:
        path = folder / f"headrace-{each.name}.json"
        path.write_text(json.dumps(each.as_json(), indent=2) + "\n")
        note(f"wrote {path}")


@telemetry.command()
@reading_command(cluster_option)
def targets(settings: Settings) -> None:
    """Print the endpoints of a running cluster, for Prometheus' file_sd_configs.

    Errors: none of its servers has the config key `metrics.listener` or `controller.metrics.listener`.
    """
    from ..ray_host import status

    cluster = chosen_cluster(settings.cluster_name, known_clusters(), "--cluster")
    found = target_groups(cluster, status(cluster))
    if not found:
        raise NotFoundError(
            "no server has an endpoint: `headrace up` with -X metrics.listener=HOST:PORT and"
            " -X controller.metrics.listener=HOST:PORT"
        )
    write_line(json.dumps(found, indent=2))


def target_groups(cluster: str, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Groups of targets by the kind of server, from the status of a cluster."""
    groups = []
    for kind in ("controllers", "nodes"):
        urls = [each.get("telemetry", {}).get("prometheus") for each in facts.get(kind, ())]
        addresses = [urlsplit(url).netloc for url in urls if url]
        if addresses:
            labels = {"job": f"headrace-{kind}", "cluster": cluster}
            groups.append({"targets": addresses, "labels": labels})
    return groups
