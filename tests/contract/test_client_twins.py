"""One suite over the sync and the asyncio clients, on a real cluster in this process.

The asyncio clients are driven through `Driver`, which awaits what has to be awaited, so each scenario is
written once and both faces must behave alike.
"""

import asyncio
import inspect
import threading
from collections.abc import Iterator
from typing import Any

import headrace
import pandas as pd
import pytest
from headrace import NewTopic, ProducerRecord, TopicPartition, errors
from headrace.clients.aio.producer_io import AsyncProducer
from headrace.clients.sync.producer_io import Producer
from headrace.runtime.loop_io import new_event_loop
from reading import to_the_end
from waiting import wait_for


class Driver:
    """Wraps an asyncio object: each call runs on the test's loop until its result is there."""

    def __init__(self, runner: asyncio.Runner, target: Any) -> None:
        self._runner, self._target = runner, target

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._target, name)
        if not callable(attribute):
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._runner.run(self._finish(attribute, args, kwargs))

        return call

    def __iter__(self) -> Iterator[Any]:
        async def collect() -> list[Any]:
            return [record async for record in self._target]

        return iter(self._runner.run(collect()))

    async def _finish(self, function: Any, args: Any, kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if inspect.isasyncgen(result):
            return [item async for item in result]
        return await result if inspect.isawaitable(result) else result


class Face:
    """Clients of one kind."""

    def __init__(self, bootstrap: str, runner: asyncio.Runner | None) -> None:
        self._runner = runner
        self._cluster: Any = headrace.connect(bootstrap)
        if runner is not None:
            self._cluster = headrace.aio.connect(bootstrap)

    def make(self, kind: str, *args: Any, **kwargs: Any) -> Any:
        client = getattr(self._cluster, kind)(*args, **kwargs)
        return client if self._runner is None else Driver(self._runner, client)

    def send(self, producer: Any, *args: Any, **kwargs: Any) -> Any:
        """Send and wait."""
        sent = producer.send(*args, **kwargs)
        return sent.result(60) if self._runner is None else sent

    def close(self) -> None:
        if self._runner is None:
            self._cluster.close()
        else:
            self._runner.run(self._cluster.close())


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A cluster of two nodes for all scenarios; each uses its own topics."""
    with headrace.local(nodes=2, log_retention_ms=-1) as cluster:  # some records are from 1970
        yield cluster.bootstrap


@pytest.fixture(params=["sync", "aio"])
def face(bootstrap: str, request: pytest.FixtureRequest) -> Iterator[Face]:
    """The clients under test."""
    if request.param == "sync":
        face = Face(bootstrap, None)
        yield face
        face.close()
        return
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        face = Face(bootstrap, runner)
        yield face
        face.close()


@pytest.fixture
def topic(face: Face, request: pytest.FixtureRequest) -> str:
    """A fresh topic of three partitions."""
    name = request.node.name.replace("[", ".").replace("]", "").replace("-", ".")[-200:]
    face.make("admin").create_topics(NewTopic(name, partitions=3)).raise_for_errors()
    return name


def read(face: Face, topic: str, **options: Any) -> list[Any]:
    """All records of a topic."""
    records = to_the_end(consumer := face.make("consumer", topic, auto_offset_reset="earliest", **options))
    consumer.close()
    return records


def test_record_fields_round_trip(face: Face, topic: str) -> None:
    """Key, value, headers and timestamp come back as they were sent."""
    producer = face.make("producer")
    sent = face.send(producer, topic, b"value", key=b"key", headers={"a": "x", "b": None}, timestamp=12_345)
    (record,) = read(face, topic)
    assert (record.topic, record.partition, record.offset) == (topic, sent.partition, sent.offset)
    assert (record.key, record.value, record.timestamp) == (b"key", b"value", 12_345)
    assert record.headers == (("a", b"x"), ("b", None))


def test_serdes_round_trip(face: Face, topic: str) -> None:
    """Text keys, json values, a tombstone."""
    producer = face.make("producer", key=headrace.utf8, value=headrace.json)
    face.send(producer, topic, {"n": 1}, key="k", partition=0)
    face.send(producer, topic, None, key="k", partition=0)
    records = read(face, topic, key=headrace.utf8, value=headrace.json)
    assert [(record.key, record.value) for record in records] == [("k", {"n": 1}), ("k", None)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_many_records_under_every_codec(face: Face, topic: str, codec: str) -> None:
    """5,000 records to three partitions, in order within each, none twice."""
    producer = face.make("producer", compression_type=codec, batch_size=4096)
    values = [b"%05d" % number * 5 for number in range(5000)]
    result = producer.send_many(topic, values)
    assert len(result) == 5000
    assert result.errors(60) == {}
    records = read(face, topic)
    assert sorted(record.value for record in records) == values
    for partition in range(3):
        mine = [record.value for record in records if record.partition == partition]
        assert mine == sorted(mine)
        assert mine, "the sticky partitioner left one out"


def test_outcomes_are_per_record(face: Face, topic: str) -> None:
    """One record cannot be serialised, one names a partition that does not exist."""
    producer = face.make("producer")
    items = [b"1", 5, ProducerRecord(b"2", partition=77), ProducerRecord(b"3", key=b"k", partition=1)]
    result = producer.send_many(topic, items)
    assert [type(future.exception(10)).__name__ for future in result] == [
        "NoneType", "SerializationError", "UnknownTopicOrPartitionError", "NoneType",
    ]  # fmt: skip


def test_flush_delivers_lingering_batches(face: Face, topic: str) -> None:
    """With a linger of a minute; flush returns when the records are acknowledged."""
    producer = face.make("producer", linger_ms=60_000)
    if face._runner is None:
        producer.send(topic, b"x")
        producer.flush(60)
    else:

        async def send_and_flush() -> None:
            target = producer._target
            future = target.send(topic, b"x")
            await target.flush(60)
            assert future.done()

        face._runner.run(send_and_flush())
    assert [record.value for record in read(face, topic)] == [b"x"]


def test_consumer_seeks_by_offset_end_and_time(face: Face, topic: str) -> None:
    """By offset, to both ends and by time; positions, lag and offsets agree."""
    producer = face.make("producer")
    for number in range(5):
        face.send(producer, topic, b"%d" % number, partition=1, timestamp=1000 * (number + 1))
    tp = TopicPartition(topic, 1)
    consumer = face.make("consumer", topic)
    assert len(consumer.assignment()) == 3
    assert consumer.beginning_offsets(tp) == {tp: 0}
    assert consumer.end_offsets(tp) == {tp: 5}
    assert consumer.offsets_for_times({tp: 2500})[tp].offset == 2
    consumer.seek(tp, 3)
    assert [record.value for record in to_the_end(consumer)] == [b"3", b"4"]
    assert consumer.position(tp) == 5
    assert consumer.lag()[tp] == 0
    consumer.seek_to_time(1500, tp)
    assert consumer.position(tp) == 1
    consumer.seek_to_beginning(tp)
    assert [record.value for record in consumer.poll(60, 2)] == [b"0", b"1"]
    assert consumer.position(tp) == 2
    consumer.seek_to_end()
    assert consumer.poll(0.2) == []
    assert consumer.metrics()["records-consumed-total"] == 4


def test_pause_keeps_and_resume_returns(face: Face, topic: str) -> None:
    """The paused partition's records come after resume, all of them."""
    producer = face.make("producer")
    for partition in range(3):
        face.send(producer, topic, b"%d" % partition, partition=partition)
    consumer = face.make("consumer", topic, auto_offset_reset="earliest", iter_timeout=3.0)
    consumer.pause(TopicPartition(topic, 0))
    assert sorted(record.value for record in consumer) == [b"1", b"2"]
    assert consumer.paused() == (TopicPartition(topic, 0),)
    consumer.resume()
    assert [record.value for record in to_the_end(consumer)] == [b"0"]


def test_batches_returns_lists_of_at_most_max_records(face: Face, topic: str) -> None:
    """25 records in lists of at most 10."""
    face.make("producer").send_many(topic, [b"x"] * 25).wait(60)
    consumer = face.make("consumer", topic, auto_offset_reset="earliest", iter_timeout=3.0)
    sizes = [len(batch) for batch in consumer.batches(10, 0.2)]
    assert sum(sizes) == 25
    assert max(sizes) <= 10


def test_tables_round_trip(face: Face, topic: str) -> None:
    """Rows in, the same rows out, as single records show them too."""
    numbers = range(5000)
    table = {
        "key": [None if number % 5 == 0 else b"k%d" % (number % 70) for number in numbers],
        "value": [None if number % 9 == 0 else b"%d" % number * (number % 40) for number in numbers],
        "headers": [{"n": str(number)} if number % 3 == 0 else None for number in numbers],
        "timestamp": [1000 + number for number in numbers],
    }
    result = face.make("producer").send_arrow(topic, table)
    assert result.errors(60) == {}
    where = [(metadata.partition, metadata.offset) for metadata in result.results()]
    consumer = face.make("consumer", topic, auto_offset_reset="earliest", iter_timeout=3.0)
    batches = list(consumer.arrow_batches(900, 0.2))
    assert all(batch.schema == headrace.ARROW_SCHEMA for batch in batches)
    assert all(0 < batch.num_rows <= 900 for batch in batches)
    assert sum(consumer.position(tp) for tp in consumer.assignment()) == len(numbers)
    assert consumer.metrics()["records-consumed-total"] == len(numbers)
    found = {(row["partition"], row["offset"]): row for batch in batches for row in batch.to_pylist()}
    assert len(found) == sum(batch.num_rows for batch in batches) == len(numbers)
    records = {(record.partition, record.offset): record for record in read(face, topic)}
    for number, place in enumerate(where):
        row, record = found[place], records[place]
        headers = tuple((pair["key"], pair["value"]) for pair in row["headers"])
        assert (row["key"], row["value"], headers) == (record.key, record.value, record.headers)
        assert (row["key"], row["value"]) == (table["key"][number], table["value"][number])
        assert round(row["timestamp"].timestamp() * 1000) == record.timestamp == 1000 + number
        assert (row["topic"], row["timestampType"]) == (topic, 0)


def test_pandas_data_frame_round_trip(face: Face, topic: str) -> None:
    """pandas in, pandas out."""
    frame = pd.DataFrame(
        {"value": ["a", "b", "c"], "partition": [0, 0, 1], "note": ["not", "sent", "at all"]}
    )
    assert face.make("producer").send_arrow(topic, frame).errors(60) == {}
    consumer = face.make("consumer", topic, auto_offset_reset="earliest", iter_timeout=3.0)
    columns = ["partition", "offset", "value"]
    found = pd.concat(batch.to_pandas() for batch in consumer.arrow_batches(10, 0.2, columns))
    assert list(found.columns) == columns
    assert sorted(found.itertuples(index=False, name=None)) == [(0, 0, b"a"), (0, 1, b"b"), (1, 0, b"c")]


def test_assign_reads_single_partitions(face: Face, topic: str) -> None:
    """Without topics; unknown arguments and doing both fail."""
    producer = face.make("producer")
    for partition in range(3):
        face.send(producer, topic, b"%d" % partition, partition=partition)
    consumer = face.make("consumer", auto_offset_reset="earliest", iter_timeout=3.0)
    consumer.assign([TopicPartition(topic, 2)])
    assert [record.value for record in consumer] == [b"2"]
    with pytest.raises(errors.ConfigError):
        face.make("consumer", topic, grop="x")


def test_deserialization_errors_are_raised_at_their_offset(face: Face, topic: str) -> None:
    """A value that is not JSON: an error at its offset; with `skip` the other records are read."""
    producer = face.make("producer")
    for value in (b"1", b"{", b"2"):
        face.send(producer, topic, value, partition=0)
    consumer = face.make("consumer", topic, value=headrace.json, auto_offset_reset="earliest")
    assert [record.value for record in consumer.poll(60)] == [1]
    with pytest.raises(errors.SerializationError, match="at offset 1"):
        consumer.poll(60)
    consumer.seek(TopicPartition(topic, 0), 2)
    assert [record.value for record in consumer.poll(60)] == [2]
    assert [
        record.value for record in read(face, topic, value=headrace.json, on_deserialize_error="skip")
    ] == [1, 2]


def test_admin_manages_topics(face: Face, topic: str) -> None:
    """Create (again), describe, grow, alter, offsets, delete records and topics, list."""
    admin = face.make("admin")
    again = admin.create_topics(NewTopic(topic), NewTopic("bad name!"))
    assert isinstance(again.errors[topic], errors.TopicAlreadyExistsError)
    assert isinstance(again.errors["bad name!"], errors.InvalidTopicError)
    assert topic in [listed.name for listed in admin.list_topics()]
    admin.create_partitions({topic: 5}).raise_for_errors()
    assert len(admin.describe_topics(topic)[topic].partitions) == 5
    assert isinstance(admin.create_partitions({topic: 2}).errors[topic], errors.InvalidPartitionsError)
    admin.alter_configs({topic: {"max.message.bytes": 5000}}).raise_for_errors()
    (values,) = admin.describe_configs(topic).values()
    assert values["max.message.bytes"].value == "5000"
    face.send(face.make("producer"), topic, b"x", partition=4)
    tp = TopicPartition(topic, 4)
    assert admin.list_offsets({tp: headrace.LATEST})[tp].offset == 1
    deleted = admin.delete_records({tp: headrace.LATEST, TopicPartition(topic, 3): 1})
    assert deleted[tp].low_watermark == 1
    assert isinstance(deleted.errors[TopicPartition(topic, 3)], errors.OffsetOutOfRangeError)
    assert admin.list_offsets({tp: headrace.EARLIEST})[tp].offset == 1
    assert len(admin.describe_cluster().nodes) == 2
    admin.delete_topics(topic).raise_for_errors()
    assert isinstance(admin.describe_topics(topic).errors[topic], errors.UnknownTopicOrPartitionError)


def test_admin_looks_at_log_dirs(face: Face, topic: str) -> None:
    """What lies where, of all nodes or one, all replicas or some; moves that cannot be; a place for later."""
    admin = face.make("admin")
    places = [TopicPartition(topic, number) for number in range(3)]

    def found() -> dict[tuple[str, int], Any]:
        dirs = admin.describe_log_dirs(partitions=places)
        assert not dirs.errors
        return {
            (each.topic, each.partition): each for node in dirs for d in dirs[node] for each in d.replicas
        }

    wait_for(lambda: set(found()) == set(places), "all replicas are there")
    assert not any(each.is_future or each.offset_lag for each in found().values())
    everything = admin.describe_log_dirs()
    assert sorted(everything) == [1, 2]
    (only,) = admin.describe_log_dirs([2])[2]
    assert (only.error, only.is_cordoned, only.detail) == (None, False, "")
    assert 0 < only.usable_bytes <= only.total_bytes
    unknown = admin.describe_log_dirs([1, 9])
    assert isinstance(unknown.errors[9], errors.BrokerIdNotRegisteredError)
    assert list(unknown.errors) == [9]
    holder = next(
        node for node in everything for d in everything[node] for r in d.replicas if r.topic == topic
    )
    path = everything[holder][0].path
    (mine,) = {r.partition for r in everything[holder][0].replicas if r.topic == topic} - {1, 2} or {1}
    here, nowhere = (
        headrace.TopicPartitionReplica(topic, mine, holder),
        headrace.TopicPartitionReplica("later", 0, holder),
    )
    assert not admin.alter_replica_log_dirs({here: path}).errors
    refused = admin.alter_replica_log_dirs({here: "/no/such/dir", nowhere: path})
    assert isinstance(refused.errors[here], errors.LogDirNotFoundError)
    assert isinstance(refused.errors[nowhere], errors.UnknownTopicOrPartitionError)


def test_admin_moves_leaders_and_replicas(face: Face) -> None:
    """Describe, drain a node, elect the preferred leader back, reassign, list, cancel; errors per item."""
    admin, name = face.make("admin"), f"moves.{type(face.make('admin')).__name__}"
    place, unknown = TopicPartition(name, 0), TopicPartition(name, 7)
    admin.create_topics(NewTopic(name, assignments={0: (1, 2)})).raise_for_errors()

    def part() -> Any:
        return admin.describe_topics(name)[name].partitions[0]

    wait_for(lambda: not admin.describe_topics(name).errors and part().isr == (1, 2), "both are in sync")
    assert (part().leader, part().replicas, part().elr, part().offline_replicas) == (1, (1, 2), (), ())
    assert part().partition_epoch >= 0
    admin.drain_node(1)  # it keeps what other tests have put there alone
    wait_for(lambda: part().leader == 2, "node 2 leads")
    wait_for(lambda: admin.describe_cluster().nodes[0].state == "shutting_down", "the drain is seen")
    assert admin.drain_node(1, drained=False).node_id == 1
    preferred = headrace.ElectionType.PREFERRED
    wait_for(
        lambda: list(admin.elect_leaders(preferred, [place, unknown]).errors) == [unknown],
        "node 1 is elected",
    )
    wait_for(lambda: part().leader == 1, "node 1 leads")
    results = admin.elect_leaders(preferred, [unknown])
    assert isinstance(results.errors[unknown], errors.UnknownTopicOrPartitionError)
    results = admin.elect_leaders(preferred, [place])
    assert isinstance(results.errors[place], errors.ElectionNotNeededError)
    assert place not in admin.elect_leaders(preferred)
    moved = admin.alter_partition_reassignments({place: (2,), unknown: (1,)})
    assert list(moved.errors) == [unknown]
    wait_for(lambda: part().replicas == (2,), "it has moved")
    assert admin.list_partition_reassignments([place]) == {}
    cancelled = admin.alter_partition_reassignments({place: None})
    assert isinstance(cancelled.errors[place], errors.NoReassignmentInProgressError)
    refused = admin.alter_partition_reassignments({place: (1, 2)}, allow_replication_factor_change=False)
    assert isinstance(refused.errors[place], errors.InvalidReplicationFactorError)
    with pytest.raises(errors.BrokerIdNotRegisteredError):
        admin.drain_node(99)
    with pytest.raises(errors.InvalidRequestError):
        admin.unregister_broker(1)
    states = [(node.node_id, node.state) for node in admin.describe_cluster(include_fenced=True).nodes]
    assert [node_id for node_id, _ in states] == [1, 2]


def test_batches_larger_than_the_topic_allows_are_split(face: Face, topic: str) -> None:
    """max.message.bytes of 2000 and batches of 64 KiB: everything arrives, once, in order."""
    face.make("admin").alter_configs({topic: {"max.message.bytes": 2000}}).raise_for_errors()
    producer = face.make("producer")
    items = [ProducerRecord(b"%04d" % number * 20, partition=0) for number in range(500)]
    result = producer.send_many(topic, items)
    assert result.errors(60) == {}
    assert [record.value for record in read(face, topic)] == [item.value for item in items]


def test_transactions_commit_and_abort(face: Face, topic: str) -> None:
    """What was committed is read, in order; what was aborted is not, by readers of committed data."""
    producer = face.make("producer", transactional_id=f"twin.{topic}")
    for number in range(6):
        producer.begin_transaction()
        face.send(producer, topic, b"%d" % number, partition=0)
        producer.send_many(topic, [ProducerRecord(b"%d+" % number, partition=0)]).raise_for_errors(10)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    with pytest.raises(errors.InvalidTxnStateError, match="no transaction is open"):
        face.send(producer, topic, b"outside", partition=0)
    producer.close()
    committed = read(face, topic, isolation_level="read_committed")
    assert [record.value for record in committed] == [b"0", b"0+", b"2", b"2+", b"4", b"4+"]
    assert len(read(face, topic)) == 12


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_of_a_group_share_commit_and_take_over(face: Face, topic: str, protocol: str) -> None:
    """Two members; commits of every kind; one leaves; listeners are called in the user's thread."""
    producer = face.make("producer")
    for partition in range(3):
        for number in range(4):
            face.send(producer, topic, b"%d" % number, partition=partition)
    received: list[tuple[str, int, bool]] = []
    here = threading.get_ident()

    class Listener:
        def on_assigned(self, _consumer: Any, tps: Any) -> None:
            received.append(("assigned", len(tps), threading.get_ident() == here))

        def on_revoked(self, _consumer: Any, tps: Any) -> None:
            received.append(("revoked", len(tps), threading.get_ident() == here))

    def member(**more: Any) -> Any:
        options = {"group_protocol": protocol, "heartbeat_interval_ms": 100, "auto_offset_reset": "earliest"}
        return face.make("consumer", topic, group=topic, **options, **more)

    first = member(listener=Listener(), enable_auto_commit=False)
    seen: list[Any] = []
    wait_for(lambda: seen.extend(first.poll(0.1)) or len(seen) == 12, "all is read")
    assert first.subscription() == (topic,)
    last = TopicPartition(topic, 0)
    assert first.commit(next(record for record in seen if record.partition == 0))[last].offset == 1
    assert first.commit({last: 2}) == {last: headrace.OffsetAndMetadata(2)}
    assert first.committed(last)[last].offset == 2
    future = first.commit_async()
    assert (future.result(60) if face._runner is None else future)[last].offset == 4
    assert {tp: each.offset for tp, each in first.committed().items()} == {
        TopicPartition(topic, partition): 4 for partition in range(3)
    }
    metadata = first.group_metadata()
    assert (metadata.group_id, metadata.group_instance_id) == (topic, None)
    assert metadata.member_id
    second = member()
    wait_for(
        lambda: not first.poll(0.1) and not second.poll(0.1) and second.assignment(), "the other has some"
    )
    with pytest.raises(errors.CommitFailedError):
        first.commit({second.assignment()[0]: 4})
    wait_for(
        lambda: not first.poll(0.1) and not second.poll(0.1) and len(first.assignment()) < 3, "shared out"
    )
    second.close()
    wait_for(lambda: not first.poll(0.1) and len(first.assignment()) == 3, "all is back")
    first.unsubscribe()
    assert first.assignment() == ()
    assert received[0] == ("assigned", 3, True)
    assert received[-1] == ("revoked", 3, True)
    assert all(is_here for *_, is_here in received)


class Seen:
    """Interceptor of a producer and of a consumer."""

    def __init__(self) -> None:
        self.sent, self.acknowledged, self.consumed, self.committed = 0, 0, 0, 0

    def on_send(self, record: ProducerRecord[Any, Any]) -> None:
        self.sent += 1

    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        self.acknowledged += error is None and metadata.offset >= 0

    def on_consume(self, records: list[Any]) -> list[Any]:
        self.consumed += len(records)
        return records[1:]

    def on_commit(self, offsets: Any) -> None:
        self.committed += sum(each.offset for each in offsets.values())


def test_interceptors_see_sent_and_received_records(face: Face, topic: str) -> None:
    """One object may intercept both; records that it drops still count as read."""
    seen = Seen()
    producer = face.make("producer", interceptors=[seen])
    result = producer.send_many(topic, [ProducerRecord(b"%d" % number, partition=0) for number in range(9)])
    result.raise_for_errors(timeout=500) if face._runner is None else producer.flush()
    wait_for(lambda: seen.acknowledged == 9, "the last callback was called")
    assert len(read(face, topic, group=topic, interceptors=[seen])) < 9
    assert (seen.sent, seen.consumed, seen.committed) == (9, 9, 9)


def test_group_calls_need_a_group(face: Face, topic: str) -> None:
    """Both kinds of clients raise, and a wakeup ends a poll of both with an error."""
    alone = face.make("consumer", topic)
    for call in (alone.commit, alone.committed, alone.subscription, alone.group_metadata):
        with pytest.raises(errors.ConfigError, match="group"):
            call()
    with pytest.raises(errors.ConfigError, match="group"):
        alone.subscribe(topic)
    for timeout in (30, 0):
        alone.wakeup()
        with pytest.raises(errors.WakeupError):
            alone.poll(timeout)
    by_hand = face.make("consumer", group=topic)
    by_hand.assign([TopicPartition(topic, 1)])
    assert by_hand.position(TopicPartition(topic, 1)) == 0
    with pytest.raises(errors.ConfigError):
        by_hand.subscribe(topic)
    assert by_hand.commit() == {TopicPartition(topic, 1): headrace.OffsetAndMetadata(0)}
    by_hand.unsubscribe()
    by_hand.subscribe(pattern=topic + ".*")
    wait_for(lambda: not by_hand.poll(0.1) and len(by_hand.assignment()) == 3, "the group shares them out")
    by_hand.close(leave=False)


def test_both_producers_have_the_same_names_and_parameters() -> None:
    """The sources of these alone are two; the other synchronous clients are made from the asyncio ones."""

    def surface(cls: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(member).parameters)
            for name, member in inspect.getmembers(cls, inspect.isfunction)
            if name == "__init__" or not name.startswith("_")
        }

    asynchronous = surface(AsyncProducer)
    assert asynchronous.pop("drain") == ["self"]
    assert surface(Producer) == asynchronous


def test_admin_manages_groups_and_transactions(face: Face, topic: str) -> None:
    """Commits for a group without members, its lag and its deletion; producers of a transaction."""
    admin, group = face.make("admin"), f"group.{topic}"
    place, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    producer = face.make("producer", transactional_id=f"admin.{topic}")
    producer.begin_transaction()
    face.send(producer, topic, b"0", partition=0)
    assert admin.alter_group_offsets(group, {place: 0, other: 0}, create=True).errors == {}
    assert group in [each.group_id for each in admin.list_groups(states=["Empty"])]
    assert admin.describe_groups(group)[group].members == ()
    lags = admin.consumer_group_lag(group, isolation="read_uncommitted")[group].partitions
    assert [each.records for each in lags.values()] == [1, 0]
    assert admin.consumer_group_lag(group)[group].records == 0
    assert admin.count_records({place: [0, 1]}, isolation="read_uncommitted")[place][0].records == 1
    assert admin.delete_group_offsets(group, [other]).errors == {}
    assert list(admin.list_group_offsets(group)) == [place]
    assert dict(admin.remove_members(group)) == {}
    assert admin.delete_groups(group).errors == {}
    name = f"admin.{topic}"
    assert name in [each.transactional_id for each in admin.list_transactions(states=["Ongoing"])]
    described = admin.describe_transactions(name)[name]
    (writing,) = admin.describe_producers(place)[place]
    assert (described.partitions, writing.producer_id) == ((place,), described.producer_id)
    assert admin.find_hanging_transactions([place], longer_than=0) == []
    assert admin.fence_producers(name)[name].producer_epoch > described.producer_epoch
    with pytest.raises(errors.KafkaError):
        producer.commit_transaction()
