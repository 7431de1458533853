"""Interceptors of a consumer: what they see and change."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cluster import FakeCluster
from headrace.clients.consumer.interceptors import Interceptors
from headrace.clients.group.group_metadata import OffsetAndMetadata
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol.errors import ConfigError, SerializationError
from headrace.protocol.model import TopicPartition

T0 = TopicPartition("t", 0)


def seeing(on_consume: Callable[[list[Any]], Any]) -> Any:
    return SimpleNamespace(on_consume=on_consume)


def only(*values: bytes) -> Any:
    return seeing(lambda records: [record for record in records if record.value in values])


def records(*offsets: int) -> list[Any]:
    return [SimpleNamespace(offset=offset) for offset in offsets]


def test_interceptors_are_called_in_order() -> None:
    """None keeps the records, a generator is accepted, and an empty list is not passed on."""
    calls: list[int] = []

    def counting(found: list[Any]) -> None:
        calls.append(len(found))
        found.clear()  # their list is their own

    first = seeing(lambda found: (record for record in found if record.offset))
    chain = Interceptors([first, seeing(counting), SimpleNamespace(on_commit=print), seeing(counting)])
    assert [record.offset for record in chain.consumed(records(0, 1, 2))] == [1, 2]
    assert chain.consumed(records(0)) == []
    assert calls == [2, 2]


@pytest.mark.parametrize(
    "answer",
    [
        lambda found: found[::-1],
        lambda found: [*found, *found],
        lambda _found: records(7),
        lambda _found: [b"value"],
        lambda _found: 5,
        lambda found: 1 / 0 if found else None,
    ],
)
def test_invalid_answer_is_logged_and_ignored(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Positions follow from the offsets of the returned records."""
    given = records(0, 1)
    assert Interceptors([seeing(answer)]).consumed(given) == given
    assert "the client continues" in caplog.text


def reading(fake: FakeCluster, *interceptors: Any, **options: Any) -> Any:
    """A consumer of "t" in a group, and its cluster."""
    cluster = Cluster("node0:9000", make_hub=fake.make_hub)
    options = {"group": "g", "auto_offset_reset": "earliest", "iter_timeout": 3.0, **options}
    return cluster.consumer("t", interceptors=interceptors, **options), cluster


@pytest.fixture
def fake() -> FakeCluster:
    """Six records in two batches of one partition."""
    fake = FakeCluster(latency_ms=0)
    fake.create("t")
    fake.put("t", 0, b"0", b"1", b"2")
    fake.put("t", 0, b"3", b"4", b"5")
    return fake


def polled(consumer: Any) -> list[bytes]:
    found: list[bytes] = []
    while batch := consumer.poll(0.5, 2):
        found += [record.value for record in batch]
    return found


READS: dict[str, Callable[[Any], list[bytes]]] = {
    "poll": polled,
    "iteration": lambda consumer: [record.value for record in consumer],
    "batches": lambda consumer: [record.value for batch in consumer.batches(2, 0.1) for record in batch],
}
each_way = pytest.mark.parametrize("way", sorted(READS))


@each_way
def test_interceptors_see_records_of_every_way_of_reading(fake: FakeCluster, way: str) -> None:
    """Each record once, deserialized. Records that they drop count as processed."""
    seen: list[bytes] = []

    def even(found: list[Any]) -> list[Any]:
        seen.extend(record.value for record in found)
        return [record.replace(value=b"n" + record.value) for record in found if not record.offset % 2]

    consumer, cluster = reading(fake, seeing(even), value=lambda data: data * 2)
    with cluster:
        assert READS[way](consumer) == [b"n00", b"n22", b"n44"]
        assert seen == [b"00", b"11", b"22", b"33", b"44", b"55"]
    assert fake.committed("g") == {("t", 0): 6}


@each_way
def test_interceptor_may_drop_all_records(fake: FakeCluster, way: str) -> None:
    """The position moves to the end."""
    consumer, cluster = reading(fake, only())
    with cluster:
        assert READS[way](consumer) == []
        assert consumer.position(T0) == 6


def test_interceptors_see_the_records_before_a_bad_one(fake: FakeCluster) -> None:
    """Once; the error is raised in its place, also if they drop all records before it."""

    def loads(data: bytes) -> bytes:
        if data == b"2":
            raise ValueError("bad")
        return data

    seen: list[bytes] = []
    watching = seeing(lambda found: seen.extend(record.value for record in found))
    consumer, cluster = reading(fake, watching, only(b"1", b"4"), value=loads)
    with cluster:
        assert [record.value for record in consumer.poll(5)] == [b"1"]
        for _ in range(2):
            with pytest.raises(SerializationError, match="t-0 at offset 2"):
                consumer.poll(5)
        consumer.seek(T0, 3)
        assert polled(consumer) == [b"4"]
        assert seen == [b"0", b"1", b"3", b"4", b"5"]


def test_interrupt_in_an_interceptor_loses_no_record(fake: FakeCluster) -> None:
    """It sees the records again."""
    calls: list[int] = []

    def interrupted(found: list[Any]) -> None:
        calls.append(len(found))
        if len(calls) == 1:
            raise KeyboardInterrupt

    consumer, cluster = reading(fake, seeing(interrupted))
    with cluster:
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(5)
        assert polled(consumer) == [b"%d" % number for number in range(6)]
        assert calls == [3, 3, 3]


def test_arrow_batches_exclude_on_consume(fake: FakeCluster) -> None:
    """ConfigError; an interceptor with `on_commit` only is allowed."""
    consumer, cluster = reading(fake, only())
    with cluster, pytest.raises(ConfigError, match="interceptors see records"):
        next(consumer.arrow_batches())
    consumer, cluster = reading(fake, SimpleNamespace(on_commit=repr), group="other", iter_timeout=30.0)
    with cluster:
        rows = 0
        for batch in consumer.arrow_batches(timeout=0.1):
            rows += batch.num_rows
            if rows >= 6:
                break
        assert rows == 6


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_interceptors_see_commits(fake: Any, cluster: Any, protocol: str) -> None:
    """Of the application, of auto-commit and of close, no failed ones; an exception is logged."""
    result: list[dict[TopicPartition, OffsetAndMetadata]] = []

    class Telling:
        def on_commit(self, offsets: Any) -> None:
            result.append(offsets)
            raise RuntimeError("on_commit")

    fake.create("t")
    fake.put("t", 0, b"0", b"1", b"2")
    consumer = cluster.consumer(
        *("t",),
        group="g",
        group_protocol=protocol,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1_000,
        interceptors=[Telling(), only(b"0", b"2")],
    )
    (first,) = await consumer.poll(30, 1)
    await consumer.commit(first)
    assert [{tp: each.offset for tp, each in offsets.items()} for offsets in result] == [{T0: 1}]
    await consumer.commit([])
    with pytest.raises(Exception, match="assigned"):
        await consumer.commit({TopicPartition("t", 5): 1})
    assert len(result) == 1
    assert [record.value for record in await consumer.poll(30, 1)] == [b"2"]
    await consumer.poll(3)
    assert result[-1][T0].offset == 3
    fake.put("t", 0, b"2")
    assert len(await consumer.poll(30)) == 1
    assert await consumer.poll(0) == []
    await consumer.close()
    assert result[-1][T0].offset == 4


def test_log_names_the_interceptor(caplog: pytest.LogCaptureFixture) -> None:
    """Not the calling function."""

    class Faulty:
        def on_consume(self, found: list[Any]) -> Any:
            if len(found) == 1:
                raise ValueError("one")
            return (1 // record.offset for record in found)

    interceptors = Interceptors([Faulty()])
    for given in (records(0), records(0, 1)):
        assert interceptors.consumed(given) == given
    assert [record.getMessage().count("Faulty.on_consume") for record in caplog.records] == [1, 1]
