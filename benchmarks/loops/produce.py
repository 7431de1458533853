"""Producing as fast as possible, timed from the first record until the last acknowledgement."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from .. import payload
from . import clients

if TYPE_CHECKING:
    from ..worker import Clock

ARROW_BYTES = 8 << 20  # of values in one table


class Absent(RuntimeError):
    """This version of headrace lacks the method."""


def produce(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Send `count` values of `size` bytes. `expected` in the report is what a reader must find."""
    values = payload.pool(spec["size"], is_json=spec.get("json", False))
    try:
        sender = SENDERS[spec["api"]](spec, values)
    except Absent as error:
        clock.ready()
        return {"absent": str(error)}
    sender.send(payload.WARM_RECORDS)
    sender.flush()
    clock.ready()
    clock.start()
    sender.send(spec["count"])
    sender.flush()
    found = clock.stop()
    return {
        **found,
        "records": spec["count"],
        "bytes": spec["count"] * spec["size"],
        "failed": sender.failed(),
        "expected": payload.expected(values, spec["count"])._asdict(),
    }


class KafkaSender:
    """confluent-kafka's `produce`, record by record, without a delivery callback."""

    def __init__(self, spec: dict[str, Any], values: tuple[bytes, ...]) -> None:
        self.producer, self.topic, self.values = clients.kafka_producer(spec), spec["topic"], values

    def send(self, count: int) -> None:
        """`count` values in turn."""
        produce, poll, topic = self.producer.produce, self.producer.poll, self.topic
        for chunk in chunks(self.values, count):
            for value in chunk:
                try:
                    produce(topic, value)
                except BufferError:
                    clients.retry_when_full(partial(produce, topic, value), self.producer)
            poll(0)

    def flush(self) -> None:
        """Wait for all acknowledgements."""
        left = self.producer.flush(60)
        if left:
            raise TimeoutError(f"{left} records were not acknowledged")

    def failed(self) -> int:
        """Unknown without callbacks; the reader finds missing records."""
        return 0


class KafkaCallbackSender(KafkaSender):
    """The same with a delivery callback for each record."""

    def __init__(self, spec: dict[str, Any], values: tuple[bytes, ...]) -> None:
        super().__init__(spec, values)
        self.failures = 0

    def send(self, count: int) -> None:
        """`count` values in turn."""
        produce, poll, topic, on_delivery = (
            self.producer.produce,
            self.producer.poll,
            self.topic,
            self._delivered,
        )
        for chunk in chunks(self.values, count):
            for value in chunk:
                try:
                    produce(topic, value, on_delivery=on_delivery)
                except BufferError:
                    clients.retry_when_full(
                        partial(produce, topic, value, on_delivery=on_delivery), self.producer
                    )
            poll(0)

    def failed(self) -> int:
        """Records whose callback had an error."""
        return self.failures

    def _delivered(self, error: Any, message: Any) -> None:
        self.failures += error is not None


class HeadraceSender:
    """headrace's `send`, record by record; each returns a future."""

    def __init__(self, spec: dict[str, Any], values: tuple[bytes, ...]) -> None:
        self.producer, self.topic, self.values = clients.headrace_producer(spec), spec["topic"], values

    def send(self, count: int) -> None:
        """`count` values in turn."""
        send, topic = self.producer.send, self.topic
        for chunk in chunks(self.values, count):
            for value in chunk:
                send(topic, value)

    def flush(self) -> None:
        """Wait for all acknowledgements."""
        self.producer.flush(60)

    def failed(self) -> int:
        """By the producer's metric."""
        return int(self.producer.metrics()["record-error-total"])


class HeadraceManySender(HeadraceSender):
    """headrace's `send_many`, thousands of values per call."""

    def send(self, count: int) -> None:
        """`count` values in turn."""
        send_many, topic = self.producer.send_many, self.topic
        for chunk in chunks(self.values, count):
            send_many(topic, chunk)


class HeadraceArrowSender(HeadraceSender):
    """headrace's `send_arrow`, a record batch per call."""

    def __init__(self, spec: dict[str, Any], values: tuple[bytes, ...]) -> None:
        super().__init__(spec, values)
        if not hasattr(self.producer, "send_arrow"):
            raise Absent("Producer.send_arrow")
        import pyarrow as pa

        rounds = max(ARROW_BYTES // (len(values) * spec["size"]), 1)
        self.rows = len(values) * rounds
        column = pa.array(list(values) * rounds, pa.binary())
        self.table = pa.RecordBatch.from_arrays([column], names=["value"])

    def send(self, count: int) -> None:
        """`count` values in turn."""
        send_arrow, topic, table, rows = self.producer.send_arrow, self.topic, self.table, self.rows
        whole, rest = divmod(count, rows)
        for _ in range(whole):
            send_arrow(topic, table)
        if rest:
            send_arrow(topic, table.slice(0, rest))


SENDERS: dict[str, Any] = {
    "produce": KafkaSender,
    "produce+callback": KafkaCallbackSender,
    "send": HeadraceSender,
    "send_many": HeadraceManySender,
    "send_arrow": HeadraceArrowSender,
}


def chunks(values: tuple[bytes, ...], count: int) -> Any:
    """`count` values in turn, in lists."""
    whole, rest = divmod(count, len(values))
    every = list(values)
    for _ in range(whole):
        yield every
    if rest:
        yield every[:rest]
