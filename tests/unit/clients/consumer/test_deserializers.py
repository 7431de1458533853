"""Deserialisers that call the consumer they work for: they run without its lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fake_cluster import FakeCluster
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol.errors import ClosedError, HeadraceError
from headrace.protocol.model import TopicPartition

Play = Callable[..., Any]
T0 = TopicPartition("t", 0)


class Curious:
    """A deserializer that does something to its consumer whenever it sees the value `when`."""

    def __init__(self, act: Callable[[Any], Any], when: bytes = b"2") -> None:
        self._act, self._when = act, when
        self.consumer: Any = None
        self.found: list[Any] = []

    def __call__(self, data: bytes) -> bytes:
        if data == self._when:
            self.found.append(self._act(self.consumer))
        return data


def reading(act: Callable[[Any], Any], read: Callable[[Any], Any]) -> tuple[Any, Any]:
    """What `read` gives and `act` found, over four records in two batches."""
    fake = FakeCluster(latency_ms=0)
    fake.create("t")
    fake.put("t", 0, b"0", b"1")
    fake.put("t", 0, b"2", b"3")
    curious = Curious(act)
    with Cluster("node0:9000", make_hub=fake.make_hub) as cluster:
        consumer = cluster.consumer("t", auto_offset_reset="earliest", value=curious)
        curious.consumer = consumer
        return read(consumer), curious.found


def read_on(consumer: Any, values: list[bytes]) -> None:
    """Until an error."""
    while True:
        values += [record.value for record in consumer.poll(10)]


def polled(consumer: Any) -> list[bytes]:
    """Four records."""
    values: list[bytes] = []
    while len(values) < 4:
        values += [record.value for record in consumer.poll(10)]
    return values


def test_a_deserializer_may_ask_its_consumer() -> None:
    """What waits for the loop too: the loop is not held up meanwhile."""

    def ask(consumer: Any) -> Any:
        consumer.wakeup()
        return consumer.position(T0), consumer.end_offsets(T0), consumer.paused(), consumer.assignment()

    values, found = reading(ask, polled)
    assert values == [b"0", b"1", b"2", b"3"]
    assert found == [(2, {T0: 4}, (), (T0,))], "the position is that of the record in hand"


def test_an_iteration_has_the_same_freedom() -> None:
    """Record by record."""

    def iterated(consumer: Any) -> list[bytes]:
        return [record.value for _, record in zip(range(4), consumer, strict=False)]

    assert reading(lambda consumer: consumer.position(T0), iterated) == ([b"0", b"1", b"2", b"3"], [2])


def test_a_seek_from_a_deserializer_counts() -> None:
    """To the end, while the third record is made: it and the fourth are not handed out any more."""

    def all_there(consumer: Any) -> list[bytes]:
        values: list[bytes] = []
        while consumer.position(T0) < 4:
            values += [record.value for record in consumer.poll(10)]
        return values

    assert reading(lambda consumer: consumer.seek(T0, 4), all_there) == ([b"0", b"1"], [None])


def test_a_deserializer_cannot_take_records() -> None:
    """It would wait for itself: an error that says so; without the call nothing is lost."""

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


def test_a_close_from_a_deserializer_leaves_what_was_there() -> None:
    """The records before it are handed out, then the consumer says that it is closed."""

    def closed(consumer: Any) -> list[bytes]:
        values: list[bytes] = []
        with pytest.raises(ClosedError):
            read_on(consumer, values)
        return values

    assert reading(lambda consumer: consumer.close(), closed)[0] == [b"0", b"1"]


def test_the_asyncio_twin(play: Play) -> None:
    """Everything of it that needs no await."""

    def ask(consumer: Any) -> Any:
        consumer.wakeup()
        return consumer.lag(), consumer.paused(), consumer.metrics()["assigned-partitions"]

    async def scenario(fake: Any, cluster: Any) -> None:
        fake.create("t")
        fake.put("t", 0, b"1", b"2")
        curious = Curious(ask)
        curious.consumer = cluster.consumer("t", auto_offset_reset="earliest", value=curious, iter_timeout=1)
        assert [record.value async for record in curious.consumer] == [b"1", b"2"]
        assert curious.found == [({T0: 2}, (), 1)]

    play(scenario)
