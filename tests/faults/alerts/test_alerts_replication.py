"""Alerts of replication and disks, in a cluster of processes."""

import contextlib
from collections.abc import Callable

import headrace
import pytest
from alert_cluster import AlertCluster, first_segment, log_dirs
from alerting import AlertWatch
from headrace import TopicPartition
from proxy import Way

pytestmark = pytest.mark.xdist_group("alerts")  # one cluster for all

DELAY_S = 0.6  # one way
RECORD = bytes(100)
RECORDS = 150_000  # more than the rule allows a follower to lack
SLOW_LINK = 400_000  # bytes/s
COMPACTED = {"cleanup_policy": "compact", "segment_ms": 1, "min_cleanable_dirty_ratio": 0.01}
KEYS = 20


def write_rounds(cluster: AlertCluster, topic: str, rounds: int) -> None:
    """Each key once per round; a round is a batch, and so a segment, of its own."""
    with cluster.clients.producer() as producer:
        for _ in range(rounds):
            for future in [producer.send(topic, RECORD, key=b"%d" % key) for key in range(KEYS)]:
                future.result(60)


@pytest.mark.faults
@pytest.mark.alerts("HeadraceAtMinIsr", "HeadraceReassignmentStuck")
def test_paused_follower(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """Its partition has just enough replicas without it; another one that moves to it does not arrive."""
    cluster.create("copied", 1, 2, 3, min_insync_replicas=2)
    cluster.create("moved", 1)  # its only replica is min.insync.replicas, too, and lacks none
    with fault(watch) as fires, cluster.clients.admin() as admin:
        cluster.node(3).pause()
        admin.alter_partition_reassignments({TopicPartition("moved", 0): (3,)}).raise_for_errors()
        fires()
        cluster.node(3).resume()
    cluster.delete("copied", "moved")


@pytest.mark.faults
@pytest.mark.alerts("HeadraceUnderReplicated")
def test_paused_follower_that_can_be_spared(
    cluster: AlertCluster, watch: AlertWatch, fault: Callable
) -> None:
    """Its partition has more than min.insync.replicas without it; another has no other replica."""
    cluster.create("spared", 1, 2, 3, min_insync_replicas=1)
    cluster.create("single", 1)
    topic = cluster.image().topics["spared"]
    with fault(watch) as fires, contextlib.closing(cluster.raw(cluster.node(1))) as raw:
        cluster.node(3).pause()
        assert raw.produce(topic.topic_id, b"a record that the follower lacks", acks=1).error_code == 0
        fires()
        assert "HeadraceAtMinIsr" not in watch.server.alerts()
        cluster.node(3).resume()
    cluster.delete("spared", "single")


@pytest.mark.faults
@pytest.mark.alerts("HeadraceIsrFlapping")
def test_link_that_freezes_again_and_again(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """The follower leaves the ISR and comes back each time."""
    topic_id = cluster.create("flapping", 1, 2)

    def flap() -> None:
        cluster.network.freeze([("node-2", "node-1")])
        raw.produce(topic_id, b"a record that the follower lacks", acks=1)
        cluster.until(lambda: cluster.partition("flapping").isr == (1,), "the follower has left the ISR")
        cluster.network.heal()
        cluster.until_in_sync("flapping", 2)

    with fault(watch) as fires, contextlib.closing(cluster.raw(cluster.node(1))) as raw:
        fires(each=flap)
    cluster.delete("flapping")


@pytest.mark.faults
@pytest.mark.alerts("HeadraceReplicaLag")
def test_slow_link_to_a_follower(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """Slower than the leader is written."""
    cluster.create("lagging", 1, 2, min_insync_replicas=1)
    with fault(watch) as fires:
        cluster.network.shape([("node-2", "node-1")], Way.BACK, bytes_per_s=SLOW_LINK)
        with cluster.clients.producer(acks="1") as producer:
            for _ in range(RECORDS):
                producer.send("lagging", RECORD)
        fires()
        cluster.network.heal()
    cluster.delete("lagging")


@pytest.mark.faults
@pytest.mark.alerts("HeadraceProduceSlow", "HeadraceReplicationSlow")
def test_links_with_long_delays(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """Followers stay in the ISR, and acknowledge late."""
    cluster.create("delayed", 1, 2)
    with fault(watch) as fires, cluster.clients.producer(acks="all") as producer:
        cluster.network.shape([("node-2", "node-1")], delay_s=DELAY_S)
        fires(each=lambda: producer.send("delayed", b"x").result(60))
        cluster.network.heal()
    cluster.delete("delayed")


@pytest.mark.alerts("HeadraceLogDirOffline", "HeadraceOfflineReplicas")
def test_failed_log_dir(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """A file is in its place: the next file in it cannot be opened."""
    node = cluster.nodes[-1]
    cluster.create("spread", node.id, partitions=4)
    _, bad = log_dirs(node)
    away = bad.with_name(f"{bad.name}-away")
    with fault(watch) as fires:
        bad.rename(away)
        bad.touch()
        fires()
        node.stop()
        bad.unlink()
        away.rename(bad)
        node.start()
    cluster.until_in_sync("spread", 1)
    cluster.delete("spread")


@pytest.mark.alerts("HeadraceCompactionFails")
def test_corrupt_segment_of_a_compacted_log(
    cluster: AlertCluster, watch: AlertWatch, fault: Callable
) -> None:
    """Until its topic is deleted."""
    cluster.create("corrupt", 1, **{**COMPACTED, "min_compaction_lag_ms": 3_600_000})
    write_rounds(cluster, "corrupt", 5)
    path = first_segment(cluster.node(1), TopicPartition("corrupt", 0))
    with fault(watch) as fires, cluster.clients.admin() as admin:
        with path.open("r+b") as file:
            file.seek(-1, 2)
            file.write(b"\xff")
        admin.alter_configs({"corrupt": {"min.compaction.lag.ms": None}}).raise_for_errors()
        fires()
        cluster.delete("corrupt")


@pytest.mark.alerts("HeadraceCompactionBehind")
def test_throttled_cleaner(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """Its rate is far below that of the writes."""
    rate = "log.cleaner.io.max.bytes.per.second"
    node = headrace.Resource.broker(2)
    with fault(watch) as fires, cluster.clients.admin() as admin:
        admin.alter_configs({node: {rate: 1}}).raise_for_errors()
        cluster.create("dirty", 2, **COMPACTED)
        write_rounds(cluster, "dirty", 20)
        fires()
        admin.alter_configs({node: {rate: None}}).raise_for_errors()
    cluster.delete("dirty")
