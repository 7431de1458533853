"""`headrace consume`: print records, with kcat's offsets and format tokens, as with `kcat -C`."""

from __future__ import annotations

import base64
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from .common import NotFoundError, Settings, bootstrap_option, cluster_option, config_option, reading_command
from .completion import group_names, topic_names
from .consume_group import POLL_RECORDS, POLL_S, group_config, group_records, matching_topics, until_idle
from .interrupts import interrupts
from .offsets import NOTATION, ReadRange, read_range, start_offset
from .output import TEXT_FORMATS
from .progress import progress_bar, quiet_option
from .tokens import RecordFormat, default_format, unescaped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...clients.sync.admin_io import Admin
    from ...clients.sync.consumer_io import Consumer
    from ...protocol.model import TopicPartition
    from .progress import ProgressBar
    from .tokens import AnyRecord

_FORMATS = ("text", "json", "jsonl")  # a record at a time


@click.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC…]", shell_complete=topic_names)
@click.option("--include", "regex", metavar="REGEX", help="Topics that match this expression as a whole.")
@click.option(
    "-g",
    "--group",
    metavar="NAME",
    shell_complete=group_names,
    help="Read as a member of this group, which assigns the partitions, and commit offsets.",
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Read only this partition; repeatable.",
)
@click.option(
    "-o",
    "--offset",
    "--output",
    "where",
    multiple=True,
    metavar="OFFSET|FORMAT",
    help=f"Start offset: {NOTATION}. Or the output format: text, json, jsonl. Repeatable [default:"
    " beginning].",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, min_open=True),
    help="Exit after this many seconds without a record.",
)
@click.option("-e", "--exit-at-end", is_flag=True, help="Exit at the current end of each partition.")
@click.option("-c", "--count", type=click.IntRange(min=0), help="Exit after this many records.")
@click.option(
    "-f",
    "--format",
    "text_format",
    metavar="TEXT",
    help="Format of a record, with the tokens %t %p %o %T %k %K %s %S %R %h %% \\n of kcat.",
)
@click.option(
    "-K", "--key-delimiter", metavar="TEXT", help="Print the key and this delimiter before each value."
)
@click.option("-Z", "--null", "shows_null", is_flag=True, help="Print NULL for a null key or value.")
@click.option("-u", "--unbuffered", is_flag=True, help="Flush the output after each record.")
@reading_command(bootstrap_option, cluster_option, config_option, quiet_option)
def consume(settings: Settings, *, topics: tuple[str, ...], **options: Any) -> None:
    """Print the records of topics, and new records as they arrive, until Ctrl-C."""
    if bool(topics) == (options["regex"] is not None):
        raise click.UsageError("name topics, or give --include")
    forms = [text for text in options["where"] if text in _FORMATS]
    form = forms[-1] if forms else "text" if settings.form in TEXT_FORMATS else settings.form
    if form not in _FORMATS:
        raise click.UsageError(f"`consume` prints {', '.join(_FORMATS)}, not {form}")
    try:
        span = read_range(tuple(text for text in options["where"] if text not in _FORMATS))
        null = b"NULL" if options["shows_null"] else b""
        text_format = options["text_format"]
        if text_format is None:
            delimiter = options["key_delimiter"]
            text_format = default_format(None if delimiter is None else unescaped(delimiter))
        render = RecordFormat(text_format, null).render if form == "text" else envelope
    except ValueError as error:
        raise click.UsageError(str(error)) from error

    from ...clients.config import AdminConfig, ConnectionConfig, ConsumerConfig, given
    from ...clients.sync.cluster_io import connect

    keys = given(
        settings.given_config(), {}, (ConsumerConfig, AdminConfig, ConnectionConfig)
    )  # no keys of producers
    if "group.id" in keys:
        raise click.UsageError("name the group with -g: without it `consume` assigns partitions itself")
    config = settings.client_config()
    if options["group"] is not None:
        config |= group_config(options["group"], options["partitions"], span)
    with (
        interrupts(),
        connect(settings.addresses(), config=config) as cluster,
        # a group.id from the environment belongs to programs: this command must not commit offsets for it
        cluster.consumer(enable_auto_commit=False) as consumer,
    ):
        total = None
        topics = topics or matching_topics(cluster.admin(), options["regex"])
        if options["group"] is not None:
            found = group_records(consumer, topics, options["count"], exits=options["exit_at_end"])
        else:
            places = _places(cluster.admin(), topics, options["partitions"])
            stops = _assign(consumer, places, span, exits=options["exit_at_end"])
            total = sum(max(stops[place] - consumer.position(place), 0) for place in stops) or None
            found = _records(consumer, places, stops, options["count"])
        total = total if options["count"] is None else options["count"]
        with progress_bar("reading", total, "records", prints_lines=True) as bar:
            found = _counted(until_idle(found, options["timeout_s"]), bar)
            _print(found, render, form, options["unbuffered"])


def envelope(record: AnyRecord) -> bytes:
    """One record as a JSON object. Bytes that are not UTF-8 are base64, and a field says so.

    Headers are [name, value], or [name, value, "base64"].
    """
    facts: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
    for name, data in (("key", record.key), ("value", record.value)):
        facts[name], encoding = _text(data)
        if encoding:
            facts[f"{name}_encoding"] = encoding
    facts["headers"] = [[name, *_header_text(value)] for name, value in record.headers]
    return json.dumps(facts, ensure_ascii=False).encode() + b"\n"


def _header_text(data: bytes | None) -> list[str | None]:
    text, encoding = _text(data)
    return [text, encoding] if encoding else [text]


def _text(data: bytes | None) -> tuple[str | None, str | None]:
    """(text, encoding): the encoding is None for null and UTF-8."""
    if data is None:
        return None, None
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), "base64"


def _places(admin: Admin, topics: tuple[str, ...], wanted: tuple[int, ...]) -> list[TopicPartition]:
    from ...protocol.model import TopicPartition

    places: list[TopicPartition] = []
    for topic, found in admin.describe_topics(*dict.fromkeys(topics)).items():
        there = {info.partition for info in found.partitions}
        missing = sorted(set(wanted) - there)
        if missing:
            raise NotFoundError(
                f"topic {topic!r} has no partition {missing[0]}: it has {len(there)} partitions"
            )
        places += [TopicPartition(topic, partition) for partition in sorted(wanted or there)]
    return places


def _assign(
    consumer: Consumer[Any, Any], places: list[TopicPartition], span: ReadRange, *, exits: bool
) -> dict[TopicPartition, int]:
    """Assign the start positions; returns the offset at which each partition ends (exclusive), empty for
    never."""
    beginnings, ends = consumer.beginning_offsets(*places), consumer.end_offsets(*places)
    by_time: dict[TopicPartition, Any] = {}
    if span.start.kind == "from_time":
        by_time = consumer.offsets_for_times(dict.fromkeys(places, span.start.number))
    consumer.assign(places)
    for place in places:
        found = by_time.get(place)
        at = start_offset(span.start, beginnings[place], ends[place], None if found is None else found.offset)
        consumer.seek(place, at)
    if span.until_ms is not None:
        stops = consumer.offsets_for_times(dict.fromkeys(places, span.until_ms))
        return {place: ends[place] if (stop := stops.get(place)) is None else stop.offset for place in places}
    return ends if exits else {}


def _records(
    consumer: Consumer[Any, Any],
    places: list[TopicPartition],
    stops: dict[TopicPartition, int],
    count: int | None,
) -> Iterator[AnyRecord | None]:
    """Records up to their partition's stop and the count; None after each poll, when output may be
    flushed."""
    left = len(places)
    is_done = dict.fromkeys(places, False)
    printed = 0
    while count is None or printed < count:
        for place in places:
            if not is_done[place] and place in stops and consumer.position(place) >= stops[place]:
                is_done[place] = True
                consumer.pause(place)
                left -= 1
        if not left:
            return
        for record in consumer.poll(
            POLL_S, POLL_RECORDS if count is None else min(POLL_RECORDS, count - printed)
        ):
            if record.offset < stops.get((record.topic, record.partition), sys.maxsize):  # type: ignore[call-overload]
                yield record
                printed += 1
        yield None


def _counted(records: Iterator[AnyRecord | None], bar: ProgressBar) -> Iterator[AnyRecord | None]:
    count = 0
    for record in records:
        yield record
        if record is not None:
            count += 1
        elif count:
            bar(count)
            count = 0


def _print(records: Iterator[AnyRecord | None], render: Any, form: str, unbuffered: bool) -> None:
    out = sys.stdout.buffer
    is_first = True
    if form == "json":
        out.write(b"[\n")
    for record in records:
        if record is None:
            out.flush()
            continue
        if form == "json" and not is_first:
            out.write(b",")
        is_first = False
        out.write(render(record))
        if unbuffered:
            out.flush()
    if form == "json":
        out.write(b"]\n")
