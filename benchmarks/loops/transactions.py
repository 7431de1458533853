"""Consecutive transactions, and reading what they committed."""

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

WARM_TRANSACTIONS = 20  # before the clock starts: producer id, coordinator, leaders of all partitions
TAKE = 10_000
READ_TIMEOUT_S = 20.0
TIMEOUT_S = 60
AT_END = "_PARTITION_EOF"


def transact(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Transactions of `records` values of `size` bytes: for `seconds`, or `count` records in all.

    Every `abort_every`-th is aborted. The records of a transaction go to one partition, the next for each
    transaction; with `is_spread` to all partitions in turn. `expected`: the committed records.
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
        is_committed = not every or number % every < every - 1
        sender.transaction(number, chunks[number % len(chunks)], is_committed=is_committed)
        committed[number % len(chunks)] += is_committed

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


class _Sender:
    """One producer's transactions: `send` is the client's own call."""

    send: Callable[..., object]

    def __init__(self, spec: dict[str, Any], producer: Any) -> None:
        self.producer, self.topic = producer, spec["topic"]
        self.is_spread = spec.get("is_spread", False)

    def transaction(self, number: int, values: Sequence[bytes], *, is_committed: bool) -> None:
        """From begin to the response of its end."""
        send, topic = self.send, self.topic
        self.producer.begin_transaction()
        if self.is_spread:
            for value, partition in zip(values, itertools.cycle(range(PARTITIONS)), strict=False):
                send(topic, value, partition=partition)
        else:
            partition = number % PARTITIONS
            for value in values:
                send(topic, value, partition=partition)
        self.end(is_committed=is_committed)

    def end(self, *, is_committed: bool) -> None:
        """Commit, or flush and abort: an abort drops unsent records, and readers are to skip them."""
        raise NotImplementedError


class KafkaSender(_Sender):
    """Transactions of confluent_kafka.Producer."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec, clients.kafka_producer(spec))
        self.send = self.producer.produce
        self.producer.init_transactions(TIMEOUT_S)

    def end(self, *, is_committed: bool) -> None:
        self.producer.poll(0)
        if is_committed:
            self.producer.commit_transaction(TIMEOUT_S)
        else:
            self.producer.flush(TIMEOUT_S)
            self.producer.abort_transaction(TIMEOUT_S)


class HeadraceSender(_Sender):
    """Transactions of headrace.Producer."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec, clients.headrace_producer(spec))
        self.send = self.producer.send
        self.producer.init_transactions()

    def end(self, *, is_committed: bool) -> None:
        if is_committed:
            self.producer.commit_transaction()
        else:
            self.producer.flush(TIMEOUT_S)
            self.producer.abort_transaction()


def committed(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Count the committed records of `partitions` up to their ends, and sum the CRC-32 of their values."""
    spec = {**spec, "isolation": "read_committed"}
    clock.ready()
    clock.start()
    take = (_kafka_taker if spec["system"] == "kafka" else _headrace_taker)(spec)
    count = checksum = 0
    idle_since = time.monotonic()
    while (values := take()) is not None:
        count += len(values)
        checksum += sum(map(zlib.crc32, values))
        if values:
            idle_since = time.monotonic()
        elif time.monotonic() - idle_since > READ_TIMEOUT_S:
            raise TimeoutError(f"{count} records of {spec['topic']} read, without reaching its end")
    return {**clock.stop(), "count": count, "checksum": checksum}


def _kafka_taker(spec: dict[str, Any]) -> Callable[[], list[bytes] | None]:
    """A function that returns the next values, perhaps none; None at the ends of all partitions."""
    consumer = clients.kafka_consumer({**spec, "reports_eof": True}, spec["partitions"])
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
    """The same; a partition ends at its last stable offset."""
    consumer = clients.headrace_consumer(spec, spec["partitions"])
    ends = consumer.end_offsets()

    def take() -> list[bytes] | None:
        values = [record.value for record in consumer.poll(0.1, TAKE)]
        if values or any(consumer.position(tp) < end for tp, end in ends.items()):
            return values
        return None

    return take
