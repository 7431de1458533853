"""`headrace verifiable …`: a producer and a consumer that report each event as a line of JSON.

The events and their fields are those of kafka-verifiable-producer and kafka-verifiable-consumer, so that
system tests written for these read them.
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import HeadraceError
from ..bench.pacing_io import sleep_until
from .common import Settings, bootstrap_option, changing_command, cluster_option, config_option
from .completion import group_names, topic_names
from .interrupts import interrupts
from .output import write_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...clients.sync.consumer_io import Consumer
    from ...protocol.model import TopicPartition

_POLL_S = 0.2
_POLL_RECORDS = 1000


class UnacknowledgedError(HeadraceError):
    """Records were not acknowledged."""


@click.group()
def verifiable() -> None:
    """Produce and consume numbered records, and report each event as a line of JSON."""


@verifiable.command()
@click.argument("topic", shell_complete=topic_names)
@click.option("--max-messages", type=click.IntRange(min=1), help="Number of records [default: until Ctrl-C].")
@click.option("--throughput", type=click.FloatRange(0, min_open=True), help="Records per second at most.")
@click.option("--acks", type=click.Choice(("all", "-1", "0", "1")), default="all", show_default=True)
@click.option("--value-prefix", type=int, help="Values are <prefix>.<number> in place of <number>.")
@click.option("--repeating-keys", type=click.IntRange(min=1), help="Keys 0 to N-1 in turn.")
@click.option("--message-create-time", type=click.IntRange(min=0), help="First timestamp in ms.")
@changing_command(bootstrap_option, cluster_option, config_option)
def produce(settings: Settings, *, topic: str, **options: Any) -> None:
    """Send numbered records to TOPIC; exit code 1 if one was not acknowledged."""
    from ...clients.sync.cluster_io import connect

    config = {**settings.client_config(), "acks": options["acks"]}
    events = _Events()
    tally = _Sends(events)
    begin_s = time.monotonic()
    addresses = settings.addresses()
    try:
        with interrupts(), connect(addresses, config=config) as cluster:
            events.say("startup_complete")
            producer = cluster.producer()
            try:
                _send_numbers(producer, topic, tally, begin_s, options)
            finally:
                producer.flush()
    except KeyboardInterrupt:
        pass  # the usual end without --max-messages
    finally:
        events.say("shutdown_complete")
        rate = tally.acked / max(time.monotonic() - begin_s, 1e-9)
        events.say(
            "tool_data",
            sent=tally.sent,
            acked=tally.acked,
            target_throughput=options["throughput"] or -1,
            avg_throughput=rate,
        )
    if tally.acked < tally.sent:
        raise UnacknowledgedError(f"{tally.sent - tally.acked} of {tally.sent} records were not acknowledged")


@verifiable.command()
@click.argument("topic", shell_complete=topic_names)
@click.option("--group-id", required=True, metavar="NAME", shell_complete=group_names, help="Consumer group.")
@click.option("--group-instance-id", metavar="NAME", help="Static membership under this instance id.")
@click.option(
    "--group-protocol", type=click.Choice(("classic", "consumer")), help="Config key group.protocol."
)
@click.option("--max-messages", type=click.IntRange(min=1), help="Number of records [default: until Ctrl-C].")
@click.option("--session-timeout", type=click.IntRange(min=1), help="Config key session.timeout.ms.")
@click.option(
    "--reset-policy",
    type=click.Choice(("earliest", "latest", "none")),
    default="earliest",
    show_default=True,
    help="Config key auto.offset.reset.",
)
@click.option("--enable-autocommit", is_flag=True, help="Commit in the background, not after each poll.")
@click.option("-v", "--verbose", "is_verbose", is_flag=True, help="Report each record, too.")
@changing_command(bootstrap_option, cluster_option, config_option)
def consume(settings: Settings, *, topic: str, **options: Any) -> None:
    """Read TOPIC as a member of a group, and commit the offsets of what was read."""
    from ...clients.sync.cluster_io import connect

    keys: dict[str, Any] = {
        "group.id": options["group_id"],
        "group.instance.id": options["group_instance_id"],
        "group.protocol": options["group_protocol"],
        "session.timeout.ms": options["session_timeout"],
        "auto.offset.reset": options["reset_policy"],
        "enable.auto.commit": str(options["enable_autocommit"]).lower(),
    }
    config = {
        **settings.client_config(),
        **{key: str(value) for key, value in keys.items() if value is not None},
    }
    events = _Events()
    addresses = settings.addresses()
    try:
        with (
            interrupts(),
            connect(addresses, config=config) as cluster,
            cluster.consumer() as consumer,
        ):
            events.say("startup_complete")
            consumer.subscribe(
                [topic],
                on_assigned=_partitions_event(events, "partitions_assigned"),
                on_revoked=_partitions_event(events, "partitions_revoked"),
                on_lost=_partitions_event(events, "partitions_lost"),
            )
            _read(consumer, events, options["max_messages"], options)
    except KeyboardInterrupt:
        pass  # the usual end without --max-messages
    finally:
        events.say("shutdown_complete")


class _Events:
    """Lines of JSON; also from the client's IO thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def say(self, name: str, **facts: Any) -> None:
        line = json.dumps({"timestamp": int(time.time() * 1000), "name": name, **facts})
        with self._lock:
            write_line(line)


class _Sends:
    """Counts of a producer; `settle` runs on its IO thread."""

    def __init__(self, events: _Events) -> None:
        self._events = events
        self.sent = self.acked = 0

    def settle(self, key: bytes | None, value: bytes, future: Any) -> None:
        record = {"key": _text(key), "value": _text(value)}
        error = future.exception()
        if error is None:
            self.acked += 1
            place = future.result()
            self._events.say(
                "producer_send_success",
                **record,
                topic=place.topic,
                partition=place.partition,
                offset=place.offset,
            )
        else:
            self.failed(record, error)

    def failed(self, record: dict[str, str | None], error: BaseException) -> None:
        self._events.say(
            "producer_send_error",
            **record,
            exception=type(error).__name__,
            message=" ".join(str(error).split()),
        )


def _send_numbers(producer: Any, topic: str, tally: _Sends, begin_s: float, options: dict[str, Any]) -> None:
    prefix, keys, first_ms = (
        options["value_prefix"],
        options["repeating_keys"],
        options["message_create_time"],
    )
    rate = options["throughput"]
    number = 0
    while options["max_messages"] is None or number < options["max_messages"]:
        value = (f"{number}" if prefix is None else f"{prefix}.{number}").encode()
        key = None if keys is None else str(number % keys).encode()
        timestamp = None if first_ms is None else first_ms + int((time.monotonic() - begin_s) * 1000)
        tally.sent += 1
        try:
            future = producer.send(topic, value, key=key, timestamp=timestamp)
        except HeadraceError as error:
            tally.failed({"key": _text(key), "value": _text(value)}, error)
        else:
            future.add_done_callback(_settler(tally, key, value))
        number += 1
        if rate is not None:
            sleep_until(int((begin_s + number / rate) * 1e9))


def _settler(tally: _Sends, key: bytes | None, value: bytes) -> Callable[[Any], None]:
    return lambda future: tally.settle(key, value, future)


def _read(consumer: Consumer[Any, Any], events: _Events, count: int | None, options: dict[str, Any]) -> None:
    left = count
    while left is None or left > 0:
        records = consumer.poll(_POLL_S, _POLL_RECORDS if left is None else min(_POLL_RECORDS, left))
        if not records:
            continue
        spans: dict[tuple[str, int], list[int]] = {}
        for record in records:
            spans.setdefault((record.topic, record.partition), []).append(record.offset)
            if options["is_verbose"]:
                events.say(
                    "record_data",
                    key=_text(record.key),
                    value=_text(record.value),
                    topic=record.topic,
                    partition=record.partition,
                    offset=record.offset,
                )
        events.say(
            "records_consumed", count=len(records), partitions=[_span(*each) for each in spans.items()]
        )
        left = None if left is None else left - len(records)
        if not options["enable_autocommit"]:
            _commit(consumer, events)


def _commit(consumer: Consumer[Any, Any], events: _Events) -> None:
    try:
        committed = consumer.commit()
    except HeadraceError as error:
        events.say("offsets_committed", offsets=[], success=False, error=" ".join(str(error).split()))
        return
    offsets = [
        {"topic": place.topic, "partition": place.partition, "offset": each.offset}
        for place, each in committed.items()
    ]
    events.say("offsets_committed", offsets=offsets, success=True)


def _span(place: tuple[str, int], offsets: list[int]) -> dict[str, Any]:
    return {
        "topic": place[0],
        "partition": place[1],
        "count": len(offsets),
        "minOffset": min(offsets),
        "maxOffset": max(offsets),
    }


def _partitions_event(events: _Events, name: str) -> Callable[[Any, Iterable[TopicPartition]], None]:
    def tell(_consumer: Any, places: Iterable[TopicPartition]) -> None:
        shown = [{"topic": place.topic, "partition": place.partition} for place in places]
        events.say(name, partitions=shown)

    return tell


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")
