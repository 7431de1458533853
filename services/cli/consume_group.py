"""`headrace consume -g`: reading as a member of a group, and the bounds of a read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from .common import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...clients.sync.admin_io import Admin
    from ...clients.sync.consumer_io import Consumer
    from ...protocol.model import TopicPartition
    from .offsets import ReadRange
    from .tokens import AnyRecord

POLL_S = 0.5
POLL_RECORDS = 5000


def matching_topics(admin: Admin, expression: str) -> tuple[str, ...]:
    """Topics that match as a whole. Errors: NotFoundError if there is none, InvalidRegularExpressionError."""
    from ...runtime.regex import compile_regex

    regex = compile_regex(expression)
    found = tuple(item.name for item in admin.list_topics() if regex.matches(item.name))
    if not found:
        raise NotFoundError(f"no topic matches {expression!r}")
    return found


def group_config(group: str, partitions: tuple[int, ...], span: ReadRange) -> dict[str, str]:
    """The config of a member. The start offset is for partitions without a committed offset.

    Errors: click.UsageError for options that a group decides.
    """
    if partitions or span.until_ms is not None or span.start.kind not in ("beginning", "end"):
        raise click.UsageError("-g excludes -p, and offsets other than beginning and end")
    reset = "earliest" if span.start.kind == "beginning" else "latest"
    return {"group.id": group, "auto.offset.reset": reset}


def group_records(
    consumer: Consumer[Any, Any], topics: tuple[str, ...], count: int | None, *, exits: bool
) -> Iterator[AnyRecord | None]:
    """Records of the assigned partitions; None after each poll. With `exits`, until all partitions that are
    assigned now were read to their present ends. What was printed is committed."""
    consumer.subscribe(topics)
    printed = 0
    while count is None or printed < count:
        wanted = POLL_RECORDS if count is None else min(POLL_RECORDS, count - printed)
        records = consumer.poll(POLL_S, wanted)
        for record in records:
            yield record
            printed += 1
        if records:
            consumer.commit(records)
        yield None
        if exits and not records and _is_at_end(consumer, consumer.assignment()):
            return


def _is_at_end(consumer: Consumer[Any, Any], places: tuple[TopicPartition, ...]) -> bool:
    if not places:
        return False  # the group has not assigned partitions yet
    ends = consumer.end_offsets(*places)
    return all(consumer.position(place) >= ends[place] for place in places)


def until_idle(records: Iterator[AnyRecord | None], timeout_s: float | None) -> Iterator[AnyRecord | None]:
    """The records until none came for so long."""
    last_s = time.monotonic()
    for record in records:
        yield record
        if record is not None:
            last_s = time.monotonic()
        elif timeout_s is not None and time.monotonic() - last_s >= timeout_s:
            return
