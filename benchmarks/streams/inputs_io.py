"""Topics of records for `make bench-streams`, and what a group has committed of them."""

from __future__ import annotations

import contextlib
import random
import struct
from typing import TYPE_CHECKING

from headrace.benchmarks import constants

from .cells import PARTITIONS, START_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .cells import Input

CHUNK = 100_000
LONG = struct.Struct(">q")


@contextlib.contextmanager
def committed_records(name: str, bootstrap: str, group: str, topic: str) -> Iterator[Callable[[], list[int]]]:
    """A function that gives the offsets that the group has committed of `topic`, by partition."""
    if name == constants.KAFKA:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        try:
            yield lambda: [max(found.offset, 0) for found in consumer.committed(places, timeout=10)]
        finally:
            consumer.close()
        return
    import headrace

    with headrace.Consumer(bootstrap=bootstrap, group_id=group) as ours:
        tps = [headrace.TopicPartition(topic, number) for number in range(PARTITIONS)]
        yield lambda: [0 if found is None else found.offset for found in map(ours.committed(*tps).get, tps)]


def _chunks(source: Input) -> Iterator[tuple[int, list[bytes], list[bytes], int]]:
    """(partition, keys, values, first timestamp). A key is in one partition only: it is the number of the key
    modulo the partitions, in both systems."""
    generator = random.Random(source.keys)
    is_table = source.records == source.keys
    pool = [generator.randbytes(source.value_bytes) for _ in range(1000)] if source.value_bytes else []
    per_partition = source.records // PARTITIONS
    for start in range(0, per_partition, CHUNK):
        for partition in range(PARTITIONS):
            places = range(start, min(start + CHUNK, per_partition))
            each = source.keys // PARTITIONS
            numbers = places if is_table else generator.choices(range(each), k=len(places))
            keys = [b"user-%08d" % (number * PARTITIONS + partition) for number in numbers]
            values = [pool[place % 1000] if pool else LONG.pack(place) for place in places]
            yield partition, keys, values, (0 if is_table else START_MS) + start * PARTITIONS


def fill_kafka(bootstrap: str, topic: str, source: Input) -> None:
    """Send all records of the input."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "batch.size": 65_536, "linger.ms": 5,
                "queue.buffering.max.messages": 0, "queue.buffering.max.kbytes": 256 * 1024}  # fmt: skip
    producer = Producer(settings)
    for partition, keys, values, first in _chunks(source):
        for place, (key, value) in enumerate(zip(keys, values, strict=True)):
            timestamp = first + place * PARTITIONS
            producer.produce(topic, value, key, partition, timestamp=max(timestamp, 1))
        while len(producer) > CHUNK:
            producer.poll(0.01)
    producer.flush()


def fill_headrace(bootstrap: str, topic: str, source: Input) -> None:
    """Send all records of the input."""
    import headrace
    import pyarrow as pa

    settings = {"batch.size": 65_536, "linger.ms": 5}
    with headrace.Producer(bootstrap=bootstrap, config=settings) as producer:
        for partition, keys, values, first in _chunks(source):
            times = range(first, first + len(keys) * PARTITIONS, PARTITIONS)
            columns = {
                "key": pa.array(keys, pa.binary()),
                "value": pa.array(values, pa.binary()),
                "partition": pa.array([partition] * len(keys), pa.int32()),
                "timestamp": pa.array([max(time_ms, 1) for time_ms in times], pa.timestamp("ms", "UTC")),
            }
            producer.send_arrow(topic, pa.table(columns)).raise_for_errors()
