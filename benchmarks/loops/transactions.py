"""Transactions one after another, and reading back what they committed."""

from __future__ import annotations

import itertools
import time
import zlib
from typing import TYPE_CHECKING, Any

from headrace.services.bench.histogram import Histogram

from .. import payload
from ..constants import PARTITIONS
from . import clients
from .latency import summary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..worker import Clock

WARM_TRANSACTIONS = 20  # before the clock starts: producer id, coordinator, every partition
TAKE = 10_000
PATIENCE_S = 20.0
TIMEOUT_S = 60
AT_END = "_PARTITION_EOF"


def transact(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Transactions of `records` values of `size` bytes: for `seconds`, or `count` records in all.

    With `abort_every` every so many-th is aborted. With `is_spread` the records of one go to all partitions
    in turn, else to one, the next for each. `expected`: what a reader of committed records must find.
    """
    sender: Any = (KafkaSender if spec["system"] == "kafka" else HeadraceSender)(spec)
    values = payload.pool(spec["size"])
    chunks = [values[at : at + spec["records"]] for at in range(0, len(values), spec["records"])]
    chunks = [chunk for chunk in chunks if len(chunk) == spec["records"]]
    sums = [sum(map(zlib.crc32, chunk)) for chunk in chunks]
    every = spec.get("abort_every", 0)
    numbers = itertools.count()
    committed = [0] * len(chunks)

    def one() -> None:
        number = next(numbers)
        is_kept = not every or number % every < every - 1
        sender.transaction(number, chunks[number % len(chunks)], is_kept=is_kept)
        committed[number % len(chunks)] += is_kept

    for _ in range(WARM_TRANSACTIONS):
        one()
    clock.ready()
    spans = Histogram()
    most = spec["count"] // spec["records"] if "count" in spec else None
    clock.start()
    at_ns = time.perf_counter_ns()
    ends_ns = at_ns + int(spec.get("seconds", 0) * 1e9)
    while spans.count < most if most is not None else at_ns < ends_ns:
        one()
        before_ns, at_ns = at_ns, time.perf_counter_ns()
        spans.record(at_ns - before_ns)
    found = clock.stop()
    return {
        **found,
        "transactions": spans.count,
        "records": spans.count * spec["records"],
        "bytes": spans.count * spec["records"] * spec["size"],
        "ack": summary(spans),
        "expected": {
            "count": sum(committed) * spec["records"],
            "checksum": sum(number * one for number, one in zip(committed, sums, strict=True)),
        },
    }


class KafkaSender:
    """confluent-kafka's calls."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.producer, self.topic = clients.kafka_producer(spec), spec["topic"]
        self.is_spread = spec.get("is_spread", False)
        self.producer.init_transactions(TIMEOUT_S)

    def transaction(self, number: int, values: Sequence[bytes], *, is_kept: bool) -> None:
        """From begin to the answer of its end."""
        producer, topic = self.producer, self.topic
        produce = producer.produce
        producer.begin_transaction()
        if self.is_spread:
            for value, partition in zip(values, itertools.cycle(range(PARTITIONS)), strict=False):
                produce(topic, value, partition=partition)
        else:
            partition = number % PARTITIONS
            for value in values:
                produce(topic, value, partition=partition)
        producer.poll(0)
        if is_kept:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.flush(TIMEOUT_S)  # an abort drops what was not sent: readers are to have it to skip
            producer.abort_transaction(TIMEOUT_S)


class HeadraceSender:
    """headrace's calls of the same kind."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.producer, self.topic = clients.headrace_producer(spec), spec["topic"]
        self.is_spread = spec.get("is_spread", False)
        self.producer.init_transactions()

    def transaction(self, number: int, values: Sequence[bytes], *, is_kept: bool) -> None:
        """From begin to the answer of its end."""
        producer, topic = self.producer, self.topic
        send = producer.send
        producer.begin_transaction()
        if self.is_spread:
            for value, partition in zip(values, itertools.cycle(range(PARTITIONS)), strict=False):
                send(topic, value, partition=partition)
        else:
            partition = number % PARTITIONS
            for value in values:
                send(topic, value, partition=partition)
        if is_kept:
            producer.commit_transaction()
        else:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction()


def committed(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Count what transactions committed to `partitions`, up to their ends; add up its values' CRC-32."""
    spec = {**spec, "isolation": "read_committed"}
    clock.ready()
    clock.start()
    take = (_kafka_taker if spec["system"] == "kafka" else _headrace_taker)(spec)
    count = checksum = 0
    quiet_since = time.monotonic()
    while (values := take()) is not None:
        count += len(values)
        checksum += sum(map(zlib.crc32, values))
        if values:
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since > PATIENCE_S:
            raise TimeoutError(f"the ends of {spec['topic']} were not reached; {count} records came")
    return {**clock.stop(), "count": count, "checksum": checksum}


def _kafka_taker(spec: dict[str, Any]) -> Callable[[], list[bytes] | None]:
    """Values, perhaps none; None at the ends of all partitions."""
    consumer = clients.kafka_consumer({**spec, "tells_ends": True}, spec["partitions"])
    left = set(spec["partitions"])

    def take() -> list[bytes] | None:
        values = []
        for message in consumer.consume(TAKE, 0.1):
            error = message.error()
            if error is None:
                values.append(message.value())
            elif error.name() == AT_END:
                left.discard(message.partition())
            else:
                raise RuntimeError(str(error))
        return values if left or values else None

    return take


def _headrace_taker(spec: dict[str, Any]) -> Callable[[], list[bytes] | None]:
    """The same. The end of a partition is that of what is committed."""
    consumer = clients.headrace_consumer(spec, spec["partitions"])
    ends = consumer.end_offsets()

    def take() -> list[bytes] | None:
        values = [record.value for record in consumer.poll(0.1, TAKE)]
        if values or any(consumer.position(tp) < end for tp, end in ends.items()):
            return values
        return None

    return take
