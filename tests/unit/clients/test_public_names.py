"""The star import, invalid topic names, lists of partitions, errors of serdes."""

import sys
from typing import Any

import headrace
import pytest
from fake_cluster import FakeCluster
from headrace import TopicPartition
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol.errors import InvalidTopicError, SerializationError

ILLEGAL = ["", "..", "no spaces", "ä", "x" * 250]
T0 = TopicPartition("t", 0)


def test_the_star_import_replaces_no_module() -> None:
    """Of the standard library, or of the packages behind serdes; the serdes stay attributes of headrace."""
    names: dict[str, Any] = {}
    exec("from headrace import *", names)
    assert "Producer" in names
    assert not names.keys() & (sys.stdlib_module_names | {"msgpack"})
    assert {"json", "uuid", "msgpack"} <= set(dir(headrace))
    assert headrace.json.loads(headrace.json.dumps({"a": [1.5, None]})) == {"a": [1.5, None]}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_json_serde_rejects_nan_and_infinity(fake: FakeCluster, cluster: Cluster, number: float) -> None:
    """Deep inside a value too; they were written as null. None, and a text that says null, are valid."""
    producer = cluster.producer(value=headrace.json)
    for value in (number, {"a": [1, {"b": (number,)}]}):
        with pytest.raises(SerializationError, match="JSON has no") as refused:
            producer.send("t", value)
        assert (refused.value.topic, refused.value.field, refused.value.offset) == ("t", "value", -1)
    producer.send("t", {"null": None, "x": 1.0}).result(60)
    assert fake.values("t") == [b'{"null":null,"x":1.0}']


@pytest.mark.parametrize("name", ILLEGAL)
def test_invalid_topic_name_is_an_error_without_a_request(
    fake: FakeCluster, cluster: Cluster, name: str
) -> None:
    """In every call that takes a topic."""
    producer, consumer = cluster.producer(), cluster.consumer()
    for call in (
        lambda: producer.send(name, b"x"),
        lambda: producer.partitions_for(name),
        lambda: cluster.consumer(name),
        lambda: cluster.consumer(group="g").subscribe(name),
        lambda: consumer.assign([TopicPartition(name, 0)]),
        lambda: consumer.end_offsets(TopicPartition(name, 0)),
    ):
        with pytest.raises(InvalidTopicError, match="topic name"):
            call()
    outcomes = producer.send_many(name, [b"x"])
    assert isinstance(outcomes.errors(0)[0], InvalidTopicError)
    assert not [body for api, _, body in fake.asked if api == "Metadata" and name in (body.topics or ())]


def test_partitions_as_arguments_or_as_a_list(fake: FakeCluster, cluster: Cluster) -> None:
    """An empty list means none, no argument means all that are assigned."""
    consumer = cluster.consumer()
    for given in ((T0, TopicPartition("t", 1)), ([T0, ("t", 1)],), (iter([T0, ("t", 1)]),)):
        consumer.assign(*given)  # type: ignore[arg-type]
        assert consumer.assignment() == (T0, TopicPartition("t", 1))
    for shape in ([T0], T0, ("t", 0), (T0,), {T0}):
        assert list(consumer.end_offsets(shape)) == [T0]  # type: ignore[arg-type]
        assert list(consumer.beginning_offsets(shape)) == [T0]  # type: ignore[arg-type]
        consumer.pause(shape)  # type: ignore[arg-type]
        assert consumer.paused() == (T0,)
        consumer.resume(shape)  # type: ignore[arg-type]
        consumer.seek_to_end(shape)  # type: ignore[arg-type]
        consumer.seek_to_beginning(shape)  # type: ignore[arg-type]
    consumer.pause([])
    assert consumer.paused() == ()
    assert consumer.end_offsets([]) == {}
    assert len(consumer.end_offsets()) == 2
    with pytest.raises(TypeError):
        consumer.end_offsets("t")  # type: ignore[arg-type]


async def test_asyncio_consumer_takes_partitions_in_both_forms(fake: Any, cluster: Any) -> None:
    """As the synchronous one."""
    fake.create("t", 2)
    consumer = cluster.consumer()
    await consumer.assign([T0])
    assert list(await consumer.end_offsets([T0])) == list(await consumer.end_offsets(T0)) == [T0]
    await consumer.pause([])
    assert consumer.paused() == ()
    with pytest.raises(InvalidTopicError):
        await cluster.producer().send("no spaces", b"x")


def test_deserialization_error_has_the_place_and_the_record(fake: FakeCluster, cluster: Cluster) -> None:
    """Topic, partition, offset and field as attributes, the record with its bytes; a handler gets both."""
    producer = cluster.producer()
    for value in (b"1", b"no number", b"3"):
        producer.send("t", value, partition=1).result(60)
    consumer = cluster.consumer("t", value=int, auto_offset_reset="earliest", iter_timeout=1.0)
    found = []
    with pytest.raises(SerializationError) as bad:
        found += [record.value for record in consumer]
    error = bad.value
    assert (error.topic, error.partition, error.offset, error.field) == ("t", 1, 1, "value")
    assert error.record.value == b"no number"

    def instead(record: Any, error: SerializationError) -> Any:
        assert error.record is record
        return record.replace(value=-1)

    options: Any = {"value": int, "auto_offset_reset": "earliest", "iter_timeout": 1.0}
    with cluster.consumer("t", on_deserialize_error=instead, **options) as reading:
        assert [record.value for record in reading] == [1, -1, 3]
