"""Deserializers that call their consumer: they run without its lock."""

from collections.abc import Callable
from typing import Any

import pytest
from fake_cluster import FakeCluster
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol.errors import ClosedError, HeadraceError
from headrace.protocol.model import TopicPartition

T0 = TopicPartition("t", 0)


class CallingDeserializer:
    """A deserializer that calls its consumer for the value `when`."""

    def __init__(self, act: Callable[[Any], Any], when: bytes = b"2") -> None:
        self._act, self._when = act, when
        self.consumer: Any = None
        self.found: list[Any] = []

    def __call__(self, data: bytes) -> bytes:
        if data == self._when:
            self.found.append(self._act(self.consumer))
        return data


def reading(act: Callable[[Any], Any], read: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The results of `read` and of the deserializer's `act`, over four records in two batches."""
    fake = FakeCluster(latency_ms=0)
    fake.create("t")
    fake.put("t", 0, b"0", b"1")
    fake.put("t", 0, b"2", b"3")
    deserializer = CallingDeserializer(act)
    with Cluster("node0:9000", make_hub=fake.make_hub) as cluster:
        consumer = cluster.consumer("t", auto_offset_reset="earliest", value=deserializer)
        deserializer.consumer = consumer
        return read(consumer), deserializer.found


def read_on(consumer: Any, values: list[bytes]) -> None:
    """Poll until an error."""
    while True:
        values += [record.value for record in consumer.poll(10)]


def polled(consumer: Any) -> list[bytes]:
    """Poll four records."""
    values: list[bytes] = []
    while len(values) < 4:
        values += [record.value for record in consumer.poll(10)]
    return values


def test_deserializer_may_call_its_consumer() -> None:
    """Also methods that wait for the event loop, which is not blocked."""

    def ask(consumer: Any) -> Any:
        consumer.wakeup()
        return consumer.position(T0), consumer.end_offsets(T0), consumer.paused(), consumer.assignment()

    values, found = reading(ask, polled)
    assert values == [b"0", b"1", b"2", b"3"]
    assert found == [(2, {T0: 4}, (), (T0,))], "the position is that of the record in hand"


def test_deserializer_may_call_its_consumer_in_an_iteration() -> None:
    """Record by record."""

    def iterated(consumer: Any) -> list[bytes]:
        return [record.value for _, record in zip(range(4), consumer, strict=False)]

    assert reading(lambda consumer: consumer.position(T0), iterated) == ([b"0", b"1", b"2", b"3"], [2])


def test_seek_by_a_deserializer_takes_effect() -> None:
    """At the third record: it and the fourth one are not returned."""

    def all_there(consumer: Any) -> list[bytes]:
        values: list[bytes] = []
        while consumer.position(T0) < 4:
            values += [record.value for record in consumer.poll(10)]
        return values

    assert reading(lambda consumer: consumer.seek(T0, 4), all_there) == ([b"0", b"1"], [None])


def test_a_deserializer_cannot_take_records() -> None:
    """It would wait for itself: an error, and no record is lost."""

    def refused(consumer: Any) -> list[bytes]:
        values: list[bytes] = []
        with pytest.raises(HeadraceError, match="are being deserialized"):
            read_on(consumer, values)
        assert consumer.position(T0) == 2
        return values

    for take in (lambda consumer: consumer.poll(), next_of_iteration, next_of_batches, next_of_tables):
        values, _ = reading(take, refused)
        assert values == [b"0", b"1"]


def next_of_iteration(consumer: Any) -> Any:
    return next(iter(consumer))


def next_of_batches(consumer: Any) -> Any:
    return next(consumer.batches())


def next_of_tables(consumer: Any) -> Any:
    return next(consumer.arrow_batches())


def test_close_by_a_deserializer_returns_the_records_before() -> None:
    """The next call raises ClosedError."""

    def closed(consumer: Any) -> list[bytes]:
        values: list[bytes] = []
        with pytest.raises(ClosedError):
            read_on(consumer, values)
        return values

    assert reading(lambda consumer: consumer.close(), closed)[0] == [b"0", b"1"]


async def test_deserializer_of_the_asyncio_consumer(fake: Any, cluster: Any) -> None:
    """It may call the methods that need no await."""

    def ask(consumer: Any) -> Any:
        consumer.wakeup()
        return consumer.lag(), consumer.paused(), consumer.metrics()["assigned-partitions"]

    fake.create("t")
    fake.put("t", 0, b"1", b"2")
    deserializer = CallingDeserializer(ask)
    deserializer.consumer = cluster.consumer(
        "t", auto_offset_reset="earliest", value=deserializer, iter_timeout=1
    )
    assert [record.value async for record in deserializer.consumer] == [b"1", b"2"]
    assert deserializer.found == [({T0: 2}, (), 1)]
