"""Ranges of topics as Arrow, on a real cluster: exact rows for any range ends, and deleted records."""

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from headrace import ARROW_SCHEMA, LocalCluster, NewTopic, TopicPartition
from headrace.clients.admin.requester_io import AdminRequester
from headrace.clients.pipeline import (
    Filters,
    Limits,
    Loss,
    OffsetRange,
    Planner,
    fetch_arrow,
    offsets_from_json,
    offsets_to_json,
    planner_io,
    read_options,
)
from headrace.clients.spark import group_progress_io
from headrace.clients.spark.group_progress_io import GroupProgress
from headrace.protocol.errors import DataLossError, UnknownTopicOrPartitionError
from markers import until_markers_are_written
from pipeline_rig import pipeline_cluster
from waiting import wait_for


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One node for all tests of the file, each with topics of its own."""
    with pipeline_cluster(log_cleaner_backoff_ms=50, log_retention_ms=-1) as started:  # records are from 1970
        yield started


def create(cluster: LocalCluster, name: str, partitions: int = 1, **configs: Any) -> None:
    # records have old times, and retention is not what is tested
    dotted = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in configs.items()}}
    cluster.admin().create_topics(NewTopic(name, partitions, configs=dotted)).raise_for_errors()


def fill(cluster: LocalCluster, name: str, count: int, partition: int = 0, **more: Any) -> None:
    with cluster.producer(**more) as producer:
        for number in range(count):
            producer.send(
                name, b"v%d" % number, key=b"k%d" % number, partition=partition, timestamp=1000 + number
            )


def options(cluster: LocalCluster, *, stream: bool = False, **given: Any) -> Any:
    given = {key.replace("__", "."): value for key, value in given.items()}
    return read_options({"kafka.bootstrap.servers": cluster.bootstrap, **given}, stream=stream)


def offsets_of(ranges: Any, wanted: Any, **more: Any) -> list[tuple[int, int]]:
    found = []
    for each in ranges:
        for batch in fetch_arrow(each, wanted, **more):
            found += list(
                zip(*(batch.column(name).to_pylist() for name in ("partition", "offset")), strict=True)
            )
    return found


def test_planned_batch_is_read_once(cluster: LocalCluster) -> None:
    """All rows, in Spark's columns and types; divided into tasks whose options and ranges were pickled."""
    create(cluster, "batch", 3)
    for partition in range(3):
        fill(cluster, "batch", 100 * partition, partition)
    wanted = options(cluster, subscribe="batch", minPartitions="7")
    plan = Planner(wanted).batch()
    assert len(plan.ranges) == 7
    assert {each.leader for each in plan.ranges} == {1}
    assert plan.ranges[0].hosts == ("127.0.0.1",)
    ranges, wanted = pickle.loads(pickle.dumps((plan.ranges, wanted)))
    assert offsets_of(ranges, wanted) == [(p, o) for p in range(3) for o in range(100 * p)]
    (table,) = fetch_arrow(ranges[0], wanted)
    assert table.schema == pa.schema([field for field in ARROW_SCHEMA if field.name != "headers"])
    first = table.slice(0, 1).to_pylist()[0]
    assert first == {
        "key": b"k0",
        "value": b"v0",
        "topic": "batch",
        "partition": 1,
        "offset": 0,
        "timestamp": datetime.fromtimestamp(1, UTC),
        "timestampType": 0,
    }


def test_columns_row_limit_and_filters(cluster: LocalCluster) -> None:
    """Columns in the given order; at most so many rows per batch; filters return the exact rows."""
    create(cluster, "filters", 2)
    fill(cluster, "filters", 50)
    fill(cluster, "filters", 50, 1)
    wanted = options(cluster, subscribe="filters", includeHeaders="true")
    ranges = Planner(wanted).batch().ranges
    batches = list(fetch_arrow(ranges[0], wanted, max_rows=20))
    assert [batch.num_rows for batch in batches] == [20, 20, 10]
    assert batches[0].schema == ARROW_SCHEMA
    few = Filters.of(
        [
            ("partition", "=", 1),
            ("offset", ">=", 10),
            ("timestamp", "<", 1020),
            ("timestamp", "in", range(1005, 1015)),
        ]
    )
    found = [batch for each in ranges for batch in fetch_arrow(each, wanted, filters=few, columns=["value"])]
    assert [batch.to_pydict() for batch in found] == [{"value": [b"v10", b"v11", b"v12", b"v13", b"v14"]}]
    cut = Planner(wanted).batch(few).ranges
    assert [(each.partition, each.start, each.end) for each in cut] == [(1, 10, 50)]
    late = Filters.of([("timestamp", ">", 1019), ("offset", "<", 22)])
    cut = Planner(wanted).batch(late).ranges
    assert [(each.partition, each.start, each.end) for each in cut] == [(0, 20, 22), (1, 20, 22)]
    assert Planner(wanted).batch(Filters.of([("timestamp", ">=", datetime.now(UTC))])).ranges == ()
    with pytest.raises(ValueError, match="unknown column 'vaule'"):
        fetch_arrow(ranges[0], wanted, columns=["vaule"])


def test_ranges_by_timestamp_and_by_offset(cluster: LocalCluster) -> None:
    """startingTimestamp, endingTimestamp, per partition too, and JSON with -2 and -1."""
    create(cluster, "edges", 2)
    fill(cluster, "edges", 50)
    fill(cluster, "edges", 50, 1)

    def read(**given: Any) -> dict[int, tuple[int, int]]:
        wanted = options(cluster, subscribe="edges", **given)
        return {each.partition: (each.start, each.end) for each in Planner(wanted).batch().ranges}

    assert read(startingTimestamp="1010", endingTimestamp=1040) == {0: (10, 40), 1: (10, 40)}
    assert read(endingTimestamp=5000, startingOffsets='{"edges":{"0":7,"1":-2}}') == {0: (7, 50), 1: (0, 50)}
    assert read(startingOffsetsByTimestamp='{"edges":{"0":1005,"1":1049}}') == {0: (5, 50), 1: (49, 50)}
    late = {"startingTimestamp": 9000, "startingOffsetsByTimestampStrategy": "latest"}
    assert read(**late) == {}
    assert read(startingTimestamp=1040, endingTimestamp=1010) == {}


def test_range_ends_at_markers_and_after_aborted_records(cluster: LocalCluster) -> None:
    """No task waits for rows that never come: the last offsets are markers, or aborted."""
    create(cluster, "markers")
    with cluster.producer(transactional_id="markers") as producer:
        for committed in (True, False):
            producer.begin_transaction()
            for number in range(10):
                producer.send("markers", b"%d" % number)
            producer.flush()
            (producer.commit_transaction if committed else producer.abort_transaction)()
    until_markers_are_written(cluster)
    wanted = options(cluster, subscribe="markers", kafka__isolation__level="read_committed")
    (whole,) = Planner(wanted).batch().ranges
    assert whole.end == 22
    committed = [(0, offset) for offset in range(10)]
    assert offsets_of([whole], wanted) == committed
    for end in range(1, 22):
        assert offsets_of([whole._replace(end=end)], wanted) == committed[:end]
        assert offsets_of([whole._replace(start=end)], wanted) == committed[end:]
    # nothing but aborted rows and markers
    assert offsets_of([whole._replace(start=10)], wanted) == []
    dirty = options(cluster, subscribe="markers")
    assert offsets_of([whole], dirty) == [(0, offset) for offset in [*range(10), *range(11, 21)]]


def test_open_transaction_ends_a_committed_plan(cluster: LocalCluster) -> None:
    """At the last stable offset: no task waits for the transaction."""
    create(cluster, "open")
    fill(cluster, "open", 5)
    producer = cluster.producer(transactional_id="open")
    producer.begin_transaction()
    producer.send("open", b"pending").result(60)
    committed = options(cluster, subscribe="open", kafka__isolation__level="read_committed")
    assert Planner(committed).batch().ends == {TopicPartition("open", 0): 5}
    assert Planner(options(cluster, subscribe="open")).batch().ends == {TopicPartition("open", 0): 6}
    producer.abort_transaction()
    producer.close()


def test_stream_of_micro_batches(cluster: LocalCluster) -> None:
    """From JSON to JSON: limits are divided, and new partitions start at their first record."""
    create(cluster, "stream", 1)
    fill(cluster, "stream", 30)
    wanted = options(
        cluster, stream=True, subscribe="stream", startingOffsets="earliest", maxOffsetsPerTrigger="20"
    )
    planner = Planner(wanted)
    start = planner.initial_offsets()
    assert offsets_to_json(start) == '{"stream":{"0":0}}'
    end = planner.latest_offsets(start)
    assert offsets_to_json(end) == '{"stream":{"0":20}}'
    assert len(offsets_of(planner.between(start, end).ranges, wanted)) == 20
    cluster.admin().create_partitions({"stream": 2}).raise_for_errors()
    fill(cluster, "stream", 30, 1)
    start = offsets_from_json(offsets_to_json(end))
    end = planner.latest_offsets(start)
    assert end == {TopicPartition("stream", 0): 25, TopicPartition("stream", 1): 15}
    plan = planner.between(start, end)
    assert sorted(offsets_of(plan.ranges, wanted)) == [(0, o) for o in range(20, 25)] + [
        (1, o) for o in range(15)
    ]
    least = options(cluster, stream=True, subscribe="stream", minOffsetsPerTrigger="30", maxTriggerDelay="1h")
    assert Planner(least).latest_offsets(end) == end
    at_once = options(
        cluster, stream=True, subscribe="stream", minOffsetsPerTrigger="30", maxTriggerDelay="0ms"
    )
    assert sum(Planner(at_once).latest_offsets(end).values()) == 60


def test_offsets_deleted_by_retention(cluster: LocalCluster) -> None:
    """Before the plan and between plan and read: an error, or the rest and the number of lost rows."""
    create(cluster, "deleted")
    fill(cluster, "deleted", 20)
    strict = options(cluster, subscribe="deleted")
    lax = options(cluster, subscribe="deleted", failOnDataLoss="false", startingOffsets='{"deleted":{"0":0}}')
    (whole,) = Planner(strict).batch().ranges
    cluster.admin().delete_records({TopicPartition("deleted", 0): 8}).raise_for_errors()
    plan = Planner(lax).batch()
    assert [(each.start, each.end) for each in plan.ranges] == [(8, 20)]
    assert [loss.size for loss in plan.losses] == [8]
    with pytest.raises(DataLossError, match="deleted-0"):
        list(fetch_arrow(whole, strict))
    losses: list[Loss] = []
    assert offsets_of([whole], lax, on_loss=losses.append) == [(0, offset) for offset in range(8, 20)]
    assert [(loss.start, loss.end) for loss in losses] == [(0, 8)]


def test_recreated_topic(cluster: LocalCluster) -> None:
    """Its offsets mean other records: an error, or no row of it; likewise for a deleted topic."""
    create(cluster, "again")
    fill(cluster, "again", 20)
    strict = options(cluster, subscribe="again")
    lax = options(cluster, subscribe="again", failOnDataLoss="false")
    (whole,) = Planner(strict).batch().ranges
    cluster.admin().delete_topics("again").raise_for_errors()
    for _ in range(2):
        with pytest.raises(DataLossError, match="again-0"):
            list(fetch_arrow(whole, strict))
        losses: list[Loss] = []
        assert offsets_of([whole], lax, on_loss=losses.append) == []
        assert [(loss.start, loss.end) for loss in losses] == [(0, 20)]
        if _ == 0:
            create(cluster, "again")
            fill(cluster, "again", 30)


def test_topic_of_a_stream_is_recreated(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many records, and more: offsets do not show it. An error at the next step; or all of the new
    one. A node with old metadata is not trusted."""
    create(cluster, "renewed")
    fill(cluster, "renewed", 10)
    given: dict[str, Any] = {"stream": True, "subscribe": "renewed", "startingOffsets": "earliest"}
    strict, lax = (Planner(options(cluster, **given, failOnDataLoss=each)) for each in (True, False))
    start = strict.initial_offsets()
    middle = strict.latest_offsets(start, Limits(4))
    end = strict.latest_offsets(middle)
    stale = answers_of(monkeypatch)
    strict.between(start, middle)
    cluster.admin().delete_topics("renewed").raise_for_errors()
    create(cluster, "renewed")
    fill(cluster, "renewed", 10)
    for begin in (start, middle, end):
        with pytest.raises(DataLossError, match="topic renewed was created again"):
            strict.latest_offsets(begin)
        with pytest.raises(DataLossError, match=r"renewed-0.*created again"):
            strict.between(begin, end)
        assert lax.between(begin, end).ranges == ()
        after = lax.latest_offsets(begin)
        assert (after, after.topic_ids == begin.topic_ids) == ({TopicPartition("renewed", 0): 10}, False)
        stale.play()
        plan = lax.between(begin, after)
        assert offsets_of(plan.ranges, lax.options) == [(0, offset) for offset in range(10)]
        for planner in (strict, lax):
            stale.play()
            assert planner.latest_offsets(after).topic_ids == after.topic_ids
    assert stale.played == 9


def test_topic_unknown_to_one_node(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other nodes have it."""
    wanted = options(cluster, subscribe="new-topic", fetchOffset__numRetries=0)
    stale = answers_of(monkeypatch)
    with pytest.raises(UnknownTopicOrPartitionError, match="no topic 'new-topic'"):
        Planner(wanted).batch()
    create(cluster, "new-topic")
    fill(cluster, "new-topic", 3)
    stale.play()
    assert [each.size for each in Planner(wanted).batch().ranges] == [3]
    assert stale.played == 1


def answers_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Records a node's metadata response, and repeats it after `play`."""

    class Stale(AdminRequester):
        response: Any = None
        is_playing = False
        played = 0

        async def ask(self, api: Any, request: Any, call: Any) -> Any:
            if Stale.is_playing:
                Stale.is_playing = False
                Stale.played += 1
                return Stale.response
            answer = await super().ask(api, request, call)
            Stale.response = Stale.response or answer
            return answer

        @classmethod
        def play(cls) -> None:
            cls.is_playing = True

    monkeypatch.setattr(planner_io, "AdminRequester", Stale)
    return Stale


def test_topic_of_a_stream_is_deleted(cluster: LocalCluster) -> None:
    """An error; or the stream continues with the other partitions, and the plan lists the loss."""
    for name in ("stays", "goes"):
        create(cluster, name)
        fill(cluster, name, 5)
    strict, lax = (
        options(cluster, stream=True, subscribe="stays,goes", startingOffsets="earliest", failOnDataLoss=fail)
        for fail in (True, False)
    )
    start = Planner(strict).initial_offsets()
    both = Planner(strict).latest_offsets(start)
    cluster.admin().delete_topics("goes").raise_for_errors()
    with pytest.raises(UnknownTopicOrPartitionError, match="'goes'"):
        Planner(strict).latest_offsets(start)
    with pytest.raises(DataLossError, match="goes-0"):
        Planner(strict).between(start, both)
    end = Planner(lax).latest_offsets(start)
    assert end == {TopicPartition("stays", 0): 5}
    plan = Planner(lax).between(start, end)
    assert [loss.tp.topic for loss in plan.losses] == ["goes"]
    assert len(offsets_of(plan.ranges, lax)) == 5


def test_missing_topics(cluster: LocalCluster) -> None:
    """Named topics must exist; a pattern without a match is an empty plan."""
    with pytest.raises(UnknownTopicOrPartitionError, match="'nowhere'"):
        Planner(options(cluster, subscribe="nowhere")).batch()
    assert Planner(options(cluster, subscribePattern="nowhere.*")).batch().ranges == ()
    assert list(fetch_arrow(OffsetRange("nowhere", 0, 5, 5), options(cluster, subscribe="nowhere"))) == []


def test_micro_batch_limited_by_bytes(cluster: LocalCluster) -> None:
    """A share of each log by its average record size, or all of it."""
    create(cluster, "bytes", 2)
    for partition in (0, 1):
        fill(cluster, "bytes", 500, partition)
    planner = Planner(options(cluster, stream=True, subscribe="bytes", startingOffsets="earliest"))
    start = planner.initial_offsets()
    found = cluster.admin().describe_log_dirs()
    replicas = [each for node in found.values() for place in node for each in place.replicas]
    size_bytes = sum(each.size_bytes for each in replicas if each.topic == "bytes")
    limited = planner.latest_offsets(start, Limits(max_bytes=size_bytes // 10))
    assert set(limited.values()) <= {49, 50, 51}
    assert planner.last_ends == dict.fromkeys(limited, 500)
    assert set(planner.latest_offsets(start, Limits(10, max_bytes=size_bytes)).values()) == {5}
    assert planner.latest_offsets(start, Limits(max_bytes=2 * size_bytes)) == planner.last_ends


def test_progress_is_committed_to_a_group(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group with members refuses it: after a warning the stream continues."""
    monkeypatch.setattr(group_progress_io, "TIMEOUT_S", 60.0)  # the first group makes its topic
    create(cluster, "published", 2)
    fill(cluster, "published", 10)
    wanted = options(cluster, stream=True, subscribe="published", **{"kafka.group.id": "telling"})
    first, second = TopicPartition("published", 0), TopicPartition("published", 1)
    progress = GroupProgress(wanted)
    progress.publish({first: 4, second: 0})

    def lags() -> dict[TopicPartition, int | None]:
        found = cluster.admin().consumer_group_lag("telling")["telling"]
        return {tp: each.records for tp, each in found.partitions.items()}

    assert lags() == {first: 6, second: 0}
    progress.publish({first: 10, second: 0})
    assert lags()[first] == 0
    assert "failed" not in caplog.text
    with cluster.consumer("published", group="telling") as member:
        wait_for(lambda: not member.poll(0.1) and member.assignment(), "it is a member")
        progress.publish({first: 3, second: 0})
        progress.publish({first: 2, second: 0})
    warnings = [each for each in caplog.records if "to group 'telling' failed" in each.message]
    assert len(warnings) == 1
    assert lags()[first] == 0
    GroupProgress(options(cluster, stream=True, subscribe="published")).publish({first: 1})
