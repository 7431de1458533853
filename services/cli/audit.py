"""`headrace audit`: the decisions of the authorizer, from the audit topic."""

from __future__ import annotations

import json
import math
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import UnknownTopicOrPartitionError
from ...protocol.model import AUDIT_TOPIC, TopicPartition
from ...runtime.waiting_io import until
from .common import Settings, bootstrap_option, cluster_option, config_option, form_option, reading_command
from .interrupts import interrupts
from .output import note, print_rows, print_stream, write_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...clients.sync.admin_io import Admin
    from ...clients.sync.consumer_io import Consumer

POLL_S = 0.5
COLUMNS = ("time", "principal", "host", "api", "operation", "resource", "result", "count", "rule")


@click.command()
@click.option(
    "--principal", metavar="TYPE:NAME", help="Only decisions about this principal, such as User:alice."
)
@click.option("--operation", metavar="NAME", help="Only decisions about this operation, such as WRITE.")
@click.option("--resource", metavar="NAME", help="Only decisions about the resource with this name.")
@click.option("--denied", "result", flag_value="denied", help="Only denied operations.")
@click.option("--allowed", "result", flag_value="allowed", help="Only allowed operations.")
@click.option(
    "--since",
    metavar="DURATION",
    help="Only decisions of this last period, such as PT1H or P1D [default: all].",
)
@click.option("-f", "--follow", is_flag=True, help="Print new decisions as they are written, until Ctrl-C.")
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
def audit(settings: Settings, *, since: str | None, follow: bool, **wanted: str | None) -> None:
    """Show denied operations, and the allowed operations that audit.allowed.operations names.

    Each row is one decision, or several equal decisions within a second.
    """
    from ...clients.durations import duration_ms
    from ...clients.sync.cluster_io import connect

    since_ms = None if since is None else int(time.time() * 1000) - duration_ms(since)
    with (
        interrupts(),
        connect(settings.addresses(), config=settings.client_config()) as cluster,
        cluster.consumer(enable_auto_commit=False) as consumer,
    ):
        places = _partitions(cluster.admin())
        if not places:
            note("no decision was written yet; there are none without authorizer.class.name")
            if follow:
                until(lambda: bool(_partitions(cluster.admin())), math.inf, POLL_S)
                places = _partitions(cluster.admin())
        rows = (row for row in _rows(consumer, places, since_ms, follows=follow) if _matches(row, wanted))
        if follow:
            if settings.is_text:
                for row in rows:
                    write_line(_line(row))
            else:
                print_stream(rows, "jsonl" if settings.form == "json" else settings.form)
        elif (found := list(rows)) or not settings.is_text:
            print_rows(found, COLUMNS, settings.form)


def _partitions(admin: Admin) -> list[TopicPartition]:
    """The partitions of the audit topic; none while it does not exist."""
    try:
        (topic,) = admin.describe_topics(AUDIT_TOPIC).values()
    except UnknownTopicOrPartitionError:
        return []
    return [TopicPartition(AUDIT_TOPIC, info.partition) for info in topic.partitions]


def _rows(
    consumer: Consumer[Any, Any], places: list[TopicPartition], since_ms: int | None, *, follows: bool
) -> Iterator[dict[str, Any]]:
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    if since_ms is not None and places:
        consumer.seek_to_time(since_ms, *places)
    ends = consumer.end_offsets(*places)
    while follows or any(consumer.position(place) < ends[place] for place in places):
        for record in consumer.poll(POLL_S):
            yield row_of(json.loads(record.value or b"{}"))


def row_of(event: dict[str, Any]) -> dict[str, Any]:
    """One event as a row: the fields of COLUMNS, then the others."""
    at = datetime.fromtimestamp(event["time_ms"] / 1000, UTC)
    count, missing = event.get("count", 1), event.get("missing", 0)
    return {
        "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "principal": event["principal"],
        "host": event["host"],
        "api": event["api"],
        "operation": event["operation"],
        "resource": f"{event['resource_type']}:{event['resource']}",
        "result": "allowed" if event["allowed"] else "denied",
        "count": count,
        "rule": event.get("rule", ""),
        "client_id": event["client_id"],
        "mechanism": event["mechanism"],
        "node_id": event["node_id"],
        "missing": missing,
    }


def _matches(row: dict[str, Any], wanted: dict[str, str | None]) -> bool:
    resource = row["resource"].partition(":")[2]
    return all(
        value is None or value == (resource if name == "resource" else row[name])
        for name, value in wanted.items()
    )


def _line(row: dict[str, Any]) -> str:
    return "  ".join(str(row[column]) for column in COLUMNS)
