"""Exact lag of groups against what real consumers receive: transactions, compaction, deleted records, a new
leader, and the command."""

import asyncio
import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from command_line import CommandLine
from headrace import NewTopic, TopicPartition, errors
from headrace.clients.aio.admin_io import AsyncAdmin
from headrace.services.local_io import LocalCluster, local
from markers import until_markers_are_written
from waiting import wait_for

KEYS = 10
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
PLACE, PLAIN = TopicPartition("compacted", 0), TopicPartition("plain", 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three nodes; a compacted topic with committed and aborted transactions, and one of plain records."""
    keys: dict[str, Any] = {
        "group_initial_rebalance_delay_ms": 0,
        "group_lag_interval_ms": 200,
        "metrics_listener": "127.0.0.1:0",
        "offsets_topic_num_partitions": 6,
        "transaction_state_log_num_partitions": 6,
        "log_cleaner_backoff_ms": 20,
        "broker_session_timeout_ms": 3_000,
        "log_retention_ms": -1,  # some records are from long ago
    }
    with local(nodes=3, **keys) as running:
        with running.admin() as admin:
            topics = [NewTopic(PLACE.topic, 1, 3, COMPACTED), NewTopic(PLAIN.topic, 1, 3)]
            admin.create_topics(*topics).raise_for_errors()
        write(running)
        yield running


def write(cluster: LocalCluster) -> None:
    with cluster.producer() as producer:
        for number in range(30):
            producer.send(PLAIN.topic, b"%d" % number, timestamp=1_000_000 + number).result(60)
    with cluster.producer(transactional_id="lag") as producer:
        for number in range(12):
            producer.begin_transaction()
            for key in range(KEYS):
                producer.send(PLACE.topic, b"%d" % number, key=b"k%d" % key, partition=0)
            producer.flush()
            if number % 3 == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    until_markers_are_written(cluster)


def received(cluster: LocalCluster, tp: TopicPartition) -> list[int]:
    """The offsets of all records that a read_committed consumer receives."""
    with cluster.consumer(isolation_level="read_committed") as consumer:
        consumer.assign([tp])
        consumer.seek_to_beginning(tp)
        end = consumer.end_offsets(tp)[tp]
        found: list[int] = []
        while consumer.position(tp) < end:
            found += [record.offset for record in consumer.poll(1)]
        return found


def lags_at(cluster: LocalCluster, tp: TopicPartition, offsets: range) -> list[int | None]:
    """The lag of a group for each offset."""
    with cluster.admin() as admin:
        names = [f"at-{offset}" for offset in offsets]
        for name, offset in zip(names, offsets, strict=True):
            admin.alter_group_offsets(name, {tp: offset}, create=True).raise_for_errors()
        found = admin.consumer_group_lag(*names)
        return [found[name].partitions[tp].records for name in names]


def test_lag_is_what_a_consumer_receives(cluster: LocalCluster) -> None:
    """At offsets in gaps, at markers, in aborted transactions, and beyond the end."""
    wait_for(lambda: len(received(cluster, PLACE)) < 5 * KEYS, "the topic is compacted")
    offsets = range(0, 12 * (KEYS + 1) + 3, 7)

    def is_exact() -> bool:  # compaction may go on between the two
        before = received(cluster, PLACE)
        found = lags_at(cluster, PLACE, offsets)
        if before != received(cluster, PLACE):
            return False
        assert found == [sum(at >= offset for at in before) for offset in offsets]
        assert found[0] < offsets[-1]
        return True

    wait_for(is_exact, "the lags are compared with one state of the topic")


def test_lag_of_deleted_records(cluster: LocalCluster) -> None:
    """They are not received any more; a commit below the log start counts from there."""
    with cluster.admin() as admin:
        admin.alter_group_offsets("behind", {PLAIN: 2}, create=True).raise_for_errors()
        assert admin.consumer_group_lag("behind")["behind"].records == 28
        admin.delete_records({PLAIN: 10}).raise_for_errors()
        lag = admin.consumer_group_lag("behind")["behind"].partitions[PLAIN]
        assert (lag.committed, lag.start, lag.end, lag.records) == (2, 10, 30, 20)
        assert lag.seconds is not None
        assert lag.seconds > 10**9, "its records are of 1970"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumer_that_stands_still_and_catches_up(
    cluster: LocalCluster, shell: CommandLine, protocol: str
) -> None:
    """Its owner is shown; with a commit at the end there is no lag, in records and in seconds."""
    name = f"reading-{protocol}"
    config = {"group_id": name, "group_protocol": protocol, "auto_offset_reset": "earliest"}
    with cluster.consumer(PLAIN.topic, enable_auto_commit=False, **config) as consumer:
        assert consumer.poll(60)
        consumer.commit({PLAIN: 25})
        (row,) = shell.json("lag", name)
        (part,) = row["partitions"]
        assert (row["type"], row["lag"], part["committed"], part["end"]) == (protocol, 5, 25, 30)
        assert part["member"]
        assert part["seconds"] > 10**9
        consumer.commit({PLAIN: 30})
        (row,) = shell.json("lag", name, "-t", PLAIN.topic)
        assert (row["lag"], row["seconds"]) == (0, 0.0)
        assert shell.json("lag", name, "-t", PLACE.topic)[0]["partitions"] == []


def test_the_command_as_text(cluster: LocalCluster, shell: CommandLine) -> None:
    """All groups, one line each; --watch has the trend; an unknown group is not found."""
    with cluster.admin() as admin:
        admin.alter_group_offsets("shown", {PLAIN: 25}, create=True).raise_for_errors()
    code, out, _ = shell("lag", "shown", "--watch", "--interval", "0.1", "--count", "2")
    assert code == 0
    assert "CATCH-UP" in out
    assert out.count("shown") == 2
    code, out, _ = shell("lag")
    assert (code, "shown" in out, "TOPIC" in out) == (0, True, False)
    code, _, err = shell("lag", "typo")
    assert (code, "GroupIdNotFoundError" in err) == (3, True)


def urls(cluster: LocalCluster) -> list[str]:
    """The endpoints of the nodes for Prometheus."""
    return [each["telemetry"]["prometheus"] for each in cluster.status()["nodes"]]


def text_of(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


async def test_many_groups(cluster: LocalCluster) -> None:
    """A thousand groups in one call; each leader counts in batches."""
    async with AsyncAdmin(cluster.bootstrap) as admin:

        async def commit(some: range) -> None:
            for number in some:
                await admin.alter_group_offsets(f"many-{number}", {PLAIN: number % 40}, create=True)

        await asyncio.gather(*(commit(range(first, 1_000, 50)) for first in range(50)))
        found = await admin.consumer_group_lag(timeout=60)
        assert not found.errors
        wanted = [min(max(30 - number % 40, 0), 20) for number in range(1_000)]
        assert [found[f"many-{number}"].records for number in range(1_000)] == wanted

    def counted() -> list[int | None]:
        """By the coordinators, for their metrics."""
        found: dict[str, dict[str, int]] = {}
        for node in cluster.status()["nodes"]:
            found |= node["coordinators"]["consumer_lag"]
        return [found.get(f"many-{number}", {}).get("plain-0") for number in range(1_000)]

    wait_for(lambda: counted() == wanted, "the coordinators have counted")
    scraped = "".join(map(text_of, urls(cluster)))
    assert 'kafka_consumergroup_lag{group="many-15",topic="plain",partition="0"} 15' in scraped
    assert 'kafka_consumergroup_lag_sum{group="many-15"} 15' in scraped
    (age,) = re.findall(r'kafka_consumergroup_lag_seconds_max\{group="many-15"\} (\S+)', scraped)
    assert float(age) > 10**9, "its records are of 1970"


def test_new_leader_counts_the_same(cluster: LocalCluster) -> None:
    """It has never counted before, and did not append all records itself."""
    with cluster.admin() as admin:
        admin.alter_group_offsets("before", {PLACE: 0}, create=True).raise_for_errors()
        leader = admin.describe_topics(PLACE.topic)[PLACE.topic].partitions[0].leader
        cluster.kill_node(leader - 1)

        def moved() -> bool:
            return admin.describe_topics(PLACE.topic)[PLACE.topic].partitions[0].leader not in (-1, leader)

        wait_for(moved, "another node leads")
        with pytest.raises(errors.GroupIdNotFoundError):
            admin.consumer_group_lag("typo", timeout=30)["typo"]

        def is_exact() -> bool:
            before = received(cluster, PLACE)
            lag = admin.consumer_group_lag("before", timeout=30)["before"].records
            return before != received(cluster, PLACE) or lag == len(before)

        wait_for(is_exact, "the lag is that of a consumer")
        cluster.restart_node(leader - 1)
