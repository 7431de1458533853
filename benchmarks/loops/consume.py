"""Consuming as fast as possible, and reading to verify what was written.

The clock runs from the first record, which does not count, to the last one: every reader takes one record
first. Imports, connections, look-ups and the first fetch are not measured.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from . import clients

if TYPE_CHECKING:
    from ..worker import Clock

TAKE = 10_000
TIMEOUT_S = 20.0  # without a record
Chunks = Iterator[tuple[int, int]]  # (records, bytes of their values) of each call


def consume(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Read `count` records from the beginning of `partitions`, touching each value."""
    reader = READERS[spec["api"]]
    if reader is _arrow:
        from headrace import Consumer

        if not hasattr(Consumer, "arrow_batches"):
            clock.ready()
            return {"absent": "Consumer.arrow_batches"}
    if spec.get("is_share"):  # one of several readers: the records of its partitions
        spec = {**spec, "count": sum(_ends(spec))}
    clock.ready()
    chunks = reader(spec)
    first, _ = next(chunks)
    clock.start()
    count = size = 0
    for records, values in chunks:
        count += records
        size += values
        if first + count >= spec["count"]:
            break
    return {**clock.stop(), "records": count, "bytes": size, "first": first, "read": first + count}


def verify(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Count all records of `partitions` and sum the CRC-32 of their values."""
    clock.ready()
    clock.start()
    take, ends = verifier(spec)
    left, count, checksum = sum(ends), 0, 0
    idle_since = time.monotonic()
    while count < left:
        values = take()
        if values:
            count += len(values)
            checksum += sum(map(zlib.crc32, values))
            idle_since = time.monotonic()
        elif time.monotonic() - idle_since > TIMEOUT_S:
            break
    return {**clock.stop(), "count": count, "checksum": checksum, "ends": sum(ends)}


def _ends(spec: dict[str, Any]) -> list[int]:
    """The end offsets of the partitions."""
    if spec["system"] == "kafka":
        from confluent_kafka import TopicPartition as KafkaPartition

        kafka = clients.kafka_consumer(spec, spec["partitions"])
        parts = [KafkaPartition(spec["topic"], number) for number in spec["partitions"]]
        found = [kafka.get_watermark_offsets(part, timeout=20)[1] for part in parts]
        kafka.close()
        return found
    with clients.headrace_consumer(spec, spec["partitions"]) as consumer:
        return list(consumer.end_offsets().values())


def verifier(spec: dict[str, Any]) -> tuple[Callable[[], list[bytes]], list[int]]:
    """(function that returns the next values of `partitions`, perhaps none yet; end offsets)."""
    ends = _ends(spec)
    if spec["system"] == "kafka":
        kafka = clients.kafka_consumer(spec, spec["partitions"])
        return lambda: [message.value() for message in kafka.consume(TAKE, 0.1)], ends
    consumer = clients.headrace_consumer(spec, spec["partitions"])
    return lambda: [record.value for record in consumer.poll(1.0, TAKE)], ends


def _kafka_consume(spec: dict[str, Any]) -> Chunks:
    consumer = clients.kafka_consumer(spec, spec["partitions"])
    left, take = spec["count"], 1
    while True:
        size = 0
        # not more than are left: it waits for this number
        messages = consumer.consume(num_messages=min(take, left), timeout=TIMEOUT_S)
        take = TAKE
        for message in messages:
            size += len(message.value())
        left -= len(messages)
        yield _not_empty(len(messages)), size


def _kafka_poll(spec: dict[str, Any]) -> Chunks:
    consumer = clients.kafka_consumer(spec, spec["partitions"])
    left, take = spec["count"], 1
    while True:
        count = size = 0
        while count < min(take, left):
            message = consumer.poll(TIMEOUT_S)
            size += len(message.value())
            count += 1
        left, take = left - count, TAKE
        yield _not_empty(count), size


def _headrace_poll(spec: dict[str, Any]) -> Chunks:
    consumer = clients.headrace_consumer(spec, spec["partitions"])
    take = 1
    while True:
        size = 0
        records = consumer.poll(TIMEOUT_S, max_records=take)
        take = TAKE
        for record in records:
            size += len(record.value)
        yield _not_empty(len(records)), size


def _headrace_iterate(spec: dict[str, Any]) -> Chunks:
    consumer = clients.headrace_consumer(spec, spec["partitions"], iter_timeout=TIMEOUT_S)
    count = size = 0
    due, left = 1, spec["count"]
    for record in consumer:
        size += len(record.value)
        count += 1
        if count == due:
            left -= count
            due = min(TAKE, left)
            yield count, size
            count = size = 0
    yield _not_empty(0), 0


def _arrow(spec: dict[str, Any]) -> Chunks:
    import pyarrow as pa
    import pyarrow.compute as pc

    pc.sum(pc.binary_length(pa.array([b"1"]))).as_py()  # the first array imports pandas, if installed
    consumer = clients.headrace_consumer(spec, spec["partitions"])
    # a short timeout: the last batch waits for it, because it is not full
    batches = consumer.arrow_batches(timeout=0.02)  # imports before the first record
    first = consumer.poll(TIMEOUT_S, max_records=1)
    yield _not_empty(len(first)), sum(len(record.value) for record in first)
    for batch in batches:
        size = pc.sum(pc.binary_length(batch.column("value"))).as_py()
        yield _not_empty(batch.num_rows), size


def _not_empty(count: int) -> int:
    if not count:
        raise TimeoutError("no records arrived")
    return count


READERS: dict[str, Callable[[dict[str, Any]], Chunks]] = {
    "consume": _kafka_consume,
    "poll-one": _kafka_poll,
    "poll": _headrace_poll,
    "iterate": _headrace_iterate,
    "arrow_batches": _arrow,
}


def reread(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Read a topic from the beginning again and again for `seconds`, from the disk each time."""
    from pathlib import Path

    from ..machine_io import drop_page_cache

    clock.ready()
    clock.start()
    reader, ends_at = READERS[spec["api"]], time.monotonic() + spec["seconds"]
    count = size = rounds = 0
    while time.monotonic() < ends_at:
        drop_page_cache(Path(spec["folder"]), spec["topic"])
        seen = 0
        rounds += 1
        for records, values in reader(spec):
            seen += records
            size += values
            if seen >= spec["count"] or time.monotonic() > ends_at:
                break
        count += seen
    return {**clock.stop(), "records": count, "bytes": size, "rounds": rounds}
