"""Tasks of a pipeline while nodes die, over logs that were compacted or cut short, and in forked workers."""

import os
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from headrace import LocalCluster, NewTopic, Resource, local
from headrace.clients.pipeline import (
    OffsetRange,
    Planner,
    Sink,
    fetch_arrow,
    prepare_arrow,
    read_options,
    write_arrow,
    write_options,
)
from headrace.clients.pipeline.pool_io import close_idle, shared_cluster
from headrace.protocol.errors import DataLossError
from markers import until_markers_are_written
from waiting import wait_for

COUNT = 20_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three nodes with a short session timeout; a test restarts each node that it kills."""
    with local(nodes=3, broker_session_timeout_ms=3_000, log_cleaner_backoff_ms=20) as started:
        started.producer(transactional_id="first").init_transactions()  # its topic has three replicas
        yield started
        close_idle()


def create(cluster: LocalCluster, name: str, replicas: int, **configs: Any) -> None:
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    cluster.admin().create_topics(NewTopic(name, 1, replicas, dotted)).raise_for_errors()


def leader_of(cluster: LocalCluster, topic: str) -> int:
    return cluster.admin().describe_topics(topic)[topic].partitions[0].leader


def options(cluster: LocalCluster, topic: str, **given: Any) -> Any:
    return read_options({"bootstrap": cluster.bootstrap, "subscribe": topic, **given})


def table(start: int, count: int) -> Any:
    return pa.record_batch({"value": pa.array([b"%06d" % number for number in range(start, start + count)])})


def values(batches: Any) -> list[int]:
    return [int(value) for batch in batches for value in batch.column("value").to_pylist()]


def test_node_is_killed_during_a_read(cluster: LocalCluster) -> None:
    """The task continues at the next leader: every row once, in order."""
    create(cluster, "read", 3)
    write_arrow([table(0, COUNT)], write_options({"bootstrap": cluster.bootstrap, "topic": "read"}))
    wanted = options(cluster, "read", **{"kafka.max.partition.fetch.bytes": "20000"})
    (whole,) = Planner(wanted).batch().ranges
    batches = fetch_arrow(whole, wanted, max_rows=1000)
    found = [next(batches)]
    leader = leader_of(cluster, "read")
    assert whole.leader == leader
    cluster.kill_node(leader - 1)
    try:
        found += list(batches)
    finally:
        cluster.restart_node(leader - 1)
    assert values(found) == list(range(COUNT))
    assert leader_of(cluster, "read") != leader


def test_node_is_killed_during_two_writes(cluster: LocalCluster) -> None:
    """At least once and exactly once: every row is stored once, in order."""
    for topic in ("plain", "exact"):
        create(cluster, topic, 3)
    plain, exact = (
        write_options({"bootstrap": cluster.bootstrap, "topic": each}) for each in ("plain", "exact")
    )
    leader = leader_of(cluster, "exact")

    def batches(*, is_outer: bool) -> Iterator[Any]:
        yield table(0, 1000)
        if is_outer:
            assert write_arrow(batches(is_outer=False), plain).rows == 2000
        else:
            cluster.kill_node(leader - 1)
        yield table(1000, 1000)

    try:
        write = prepare_arrow(batches(is_outer=True), exact, query="killed", task=0)
        with Sink(exact, "killed") as sink:
            assert sink.commit(0, [pickle.loads(pickle.dumps(write))])
    finally:
        cluster.restart_node(leader - 1)
    until_markers_are_written(cluster)
    for topic in ("plain", "exact"):
        reading = options(cluster, topic, **{"kafka.isolation.level": "read_committed"})
        (whole,) = Planner(reading).batch().ranges
        assert values(fetch_arrow(whole, reading)) == list(range(2000))


def test_decisions_are_replicated_like_transactions(cluster: LocalCluster) -> None:
    """One disk may be lost, and one node may be down while a batch is committed."""
    with Sink(write_options({"bootstrap": cluster.bootstrap}), "safe"):
        (partition,) = cluster.admin().describe_topics("__pipeline_commits")["__pipeline_commits"].partitions
    assert len(partition.replicas) == 3
    configs = cluster.admin().describe_configs("__pipeline_commits")
    assert configs[Resource.topic("__pipeline_commits")]["min.insync.replicas"].value == "2"


def test_ranges_end_in_compacted_gaps(cluster: LocalCluster) -> None:
    """At any offset, and without any record: the remaining rows, and an end."""
    configs = {"cleanup_policy": "compact", "segment_ms": "1", "min_cleanable_dirty_ratio": "0.01"}
    create(cluster, "compact", 1, **configs)
    wanted = options(cluster, "compact")
    with cluster.producer() as producer:
        for number in range(40):
            producer.send("compact", bytes(200), key=b"%d" % (number % 3)).result(60)

    def offsets(cut: OffsetRange) -> list[int]:
        batches = fetch_arrow(cut, wanted, columns=["offset"])
        return [offset for batch in batches for offset in batch.column("offset").to_pylist()]

    (whole,) = Planner(wanted).batch().ranges
    wait_for(lambda: len(offsets(whole)) < 20, "the log is compacted")
    before = offsets(whole)
    cuts = [(0, end) for end in range(1, 41)] + [(start, start + 1) for start in range(40)]
    found = {cut: offsets(whole._replace(start=cut[0], end=cut[1])) for cut in cuts}
    after = offsets(whole)  # the cleaner may have gone on
    for (start, end), some in found.items():
        assert some == sorted(set(some))
        assert {offset for offset in after if start <= offset < end} <= set(some)
        assert set(some) <= {offset for offset in before if start <= offset < end}
    assert [] in found.values()


@pytest.mark.faults
def test_truncated_log_is_detected(cluster: LocalCluster) -> None:
    """An unclean leader lacks planned records: an error, or the rest and the number of lost ones."""
    create(cluster, "short", 2, unclean_leader_election_enable="true", min_insync_replicas=1)
    wanted = write_options({"bootstrap": cluster.bootstrap, "topic": "short"})
    write_arrow([table(0, 100)], wanted)
    part = cluster.admin().describe_topics("short")["short"].partitions[0]
    leader, follower = part.leader, next(node for node in part.replicas if node != part.leader)
    cluster.kill_node(follower - 1)
    wait_for(
        lambda: len(cluster.admin().describe_topics("short")["short"].partitions[0].isr) == 1, "it is out"
    )
    write_arrow([table(100, 100)], wanted)
    strict = options(cluster, "short", **{"kafkaConsumer.pollTimeoutMs": 20_000})
    lax = options(cluster, "short", failOnDataLoss="false")
    (whole,) = Planner(strict).batch().ranges
    assert whole.end == 200
    cluster.kill_node(leader - 1)
    cluster.restart_node(follower - 1)
    wait_for(lambda: leader_of(cluster, "short") == follower, "the other leads")
    try:
        write_arrow([table(500, 150)], wanted)  # as many offsets as the plan had, with other records
        with pytest.raises(DataLossError, match="from 100 on"):
            list(fetch_arrow(whole, strict))
        losses: list[Any] = []
        assert values(fetch_arrow(whole, lax, on_loss=losses.append))[:100] == list(range(100))
        assert [(loss.start, loss.end) for loss in losses] == [(100, 200)]
    finally:
        cluster.restart_node(leader - 1)


def test_forked_worker_opens_its_own_connections(cluster: LocalCluster) -> None:
    """Engines fork their workers from a process that has read before."""
    create(cluster, "fork", 1)
    write_arrow([table(0, 10)], write_options({"bootstrap": cluster.bootstrap, "topic": "fork"}))
    wanted = options(cluster, "fork")
    (whole,) = Planner(wanted).batch().ranges
    begun = fetch_arrow(whole, wanted, max_rows=1)
    assert values([next(begun)]) == [0]
    response, tell = os.pipe()
    child = os.fork()
    if not child:
        with os.fdopen(tell, "wb") as pipe:
            pipe.write(pickle.dumps(values(fetch_arrow(whole, wanted))))
        os._exit(0)
    os.close(tell)
    with os.fdopen(response, "rb") as pipe:
        assert pickle.loads(pipe.read()) == list(range(10))
    os.waitpid(child, 0)
    assert values(begun) == list(range(1, 10))


def test_connections_are_shared_and_closed_when_idle(cluster: LocalCluster) -> None:
    """By equal options; connections in use stay open."""
    one, other = options(cluster, "a"), options(cluster, "b")
    with shared_cluster(one.bootstrap, one.client) as first:
        assert close_idle() == 1
        with shared_cluster(other.bootstrap, other.client) as second:
            assert first is second
    with shared_cluster(one.bootstrap, one.client) as again:
        assert again is first
    assert close_idle(3600) == 1
    assert close_idle() == 0
    with shared_cluster(one.bootstrap, one.client) as reopened:
        assert reopened is not first
        reopened.close()
        with shared_cluster(one.bootstrap, one.client) as better:
            assert better.io.failure is None
