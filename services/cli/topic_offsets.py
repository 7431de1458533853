"""`headrace topic offsets`: offsets of partitions, by time and by Kafka's special times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...protocol.model import TopicPartition
from ..group_reset import time_of
from ..network_status import pieces
from .admin import open_admin, raise_first
from .common import (
    NotFoundError,
    Settings,
    bootstrap_option,
    cluster_option,
    config_option,
    form_option,
    reading_command,
)
from .completion import topic_names
from .output import print_rows
from .watch import watchable

if TYPE_CHECKING:
    from ...clients.admin.admin_types import OffsetSpec
    from ...clients.sync.admin_io import Admin

_COLUMNS = ("topic", "partition", "offset", "timestamp", "leader_epoch")
# Kafka's numbers. There is no tiered storage: all records are local, and none are tiered or to be uploaded.
_LATEST, _EARLIEST, _LATEST_TIERED, _PENDING_UPLOAD = -1, -2, -5, -6
SPECIAL_TIMES = {
    "latest": _LATEST,
    "earliest": _EARLIEST,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": _LATEST_TIERED,
    "earliest-pending-upload": _PENDING_UPLOAD,
}
_EARLIEST_LOCAL = SPECIAL_TIMES["earliest-local"]


def parse_time(text: str) -> int:
    """A special time of Kafka's by name or number, a time in ms, or ISO 8601.

    Errors: ValueError, ConfigError.
    """
    if text in SPECIAL_TIMES:
        return SPECIAL_TIMES[text]
    if text.lstrip("-").isdecimal() and len(text) < 20:
        number = int(text)
        if number < 0 and number not in SPECIAL_TIMES.values():
            raise ValueError(f"special times are -1 to {_PENDING_UPLOAD}, not {number}")
        return number
    return time_of(text)


def parse_scope(text: str) -> tuple[str, list[int] | None]:
    """`T`, or `T:0,2-4`: the topic, and its partitions or None for all. Errors: ValueError."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    found: list[int] = []
    for part in numbers.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(part) > 20:
            raise ValueError(f"{text!r}: partitions are numbers and ranges such as 0,2-4")
        low, high = int(first), int(last) if dash else int(first)
        if high < low or high - low >= _MAX_RANGE:
            raise ValueError(f"{text!r}: {part!r} is no range of partitions")
        found += range(low, high + 1)
    return topic, list(dict.fromkeys(found))


_MAX_RANGE = 100_000  # Bound: partitions of one range


@click.command()
@click.argument("scopes", nargs=-1, metavar="[TOPIC[:P,…]…]", shell_complete=topic_names)
@click.option(
    "--time",
    "when",
    metavar="TIME",
    default="latest",
    show_default=True,
    help=f"First record at or after this time, in ms or ISO 8601; or {', '.join(SPECIAL_TIMES)}, or Kafka's"
    " numbers -1 to -6 for these.",
)
@click.option("--internal", is_flag=True, help="Include internal topics, if no topic is named.")
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@watchable
def offsets(settings: Settings, *, scopes: tuple[str, ...], when: str, internal: bool) -> None:
    """Show an offset of each partition: the end, the beginning, or the first record at a time.

    TOPIC may have partitions, such as orders:0,2-4; without topics, all of them. The offset is empty if no
    record matches. There is no tiered storage: earliest-local is earliest, and latest-tiered and
    earliest-pending-upload have no offset.
    """
    try:
        timestamp = parse_time(when)
        wanted = [parse_scope(text) for text in scopes]
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    with open_admin(settings, settings.client_config()) as admin:
        places, errors = _places(admin, wanted, internal=internal)
        found, failed = _offsets(admin, places, timestamp)
    rows = [_row(place, *found[place]) for place in places if place in found]
    print_rows(rows, _COLUMNS, settings.form)
    raise_first(
        {**errors, **{str(place): error for place, error in failed.items()}}, len(places) + len(errors)
    )


def _places(
    admin: Admin, wanted: list[tuple[str, list[int] | None]], *, internal: bool
) -> tuple[list[TopicPartition], dict[str, BaseException]]:
    """The partitions, and the errors of topics. Errors: NotFoundError for a partition."""
    if not wanted:
        wanted = [(item.name, None) for item in admin.list_topics(internal=internal)]
    places: dict[TopicPartition, None] = {}
    errors: dict[str, BaseException] = {}
    for piece in pieces(list(dict.fromkeys(topic for topic, _ in wanted))):
        described = admin.describe_topics(*piece)
        errors |= described.errors
        for topic, numbers in wanted:
            if topic not in piece or topic in described.errors:
                continue
            known = [part.partition for part in described[topic].partitions]
            missing = sorted(set(numbers or ()) - set(known))
            if missing:
                raise NotFoundError(
                    f"topic {topic!r} has no partition {missing[0]}: it has {len(known)} partitions"
                )
            places |= dict.fromkeys(TopicPartition(topic, number) for number in numbers or sorted(known))
    return list(places), errors


Offset = tuple[int | None, int | None, int | None]  # offset, timestamp, leader epoch


def _offsets(
    admin: Admin, places: list[TopicPartition], timestamp: int
) -> tuple[dict[TopicPartition, Offset], dict[TopicPartition, BaseException]]:
    from ...clients.admin.admin_types import OffsetSpec

    if timestamp in (_LATEST_TIERED, _PENDING_UPLOAD):
        return dict.fromkeys(places, (None, None, None)), {}
    spec: OffsetSpec = OffsetSpec(_EARLIEST if timestamp == _EARLIEST_LOCAL else timestamp)
    results = admin.list_offsets(dict.fromkeys(places, spec))
    found: dict[TopicPartition, Offset] = {}
    for place in (place for place in places if place not in results.errors):
        each = results[place]
        has = each.offset >= 0
        found[place] = (
            each.offset if has else None,
            each.timestamp if has and each.timestamp >= 0 else None,
            each.leader_epoch if has else None,
        )
    return found, results.errors


def _row(
    place: TopicPartition, offset: int | None, timestamp: int | None, epoch: int | None
) -> dict[str, Any]:
    return {
        "topic": place.topic,
        "partition": place.partition,
        "offset": offset,
        "timestamp": timestamp,
        "leader_epoch": epoch,
    }
