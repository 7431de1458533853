"""Scenarios 15 to 21 of RELIABILITY 1.8: elections, truncation, and possible loss."""

import time
from typing import Any

import pytest
from fault_cluster import FaultCluster, Server
from fault_workload import Workload
from headrace.protocol import errors
from headrace.protocol.messages import control, registry
from proxy import between
from waiting import PATIENCE_S

pytestmark = pytest.mark.faults

PREFERRED = 0
FIGURES = "faults"  # the property that conftest.py shows in the summary
# The errors of a batch that was appended, and not committed: the ISR is below min.insync.replicas.
IN_DOUBT = (errors.NotEnoughReplicasAfterAppendError.code, errors.RequestTimedOutError.code)


def topic_id_of(cluster: FaultCluster, topic: str = "t") -> bytes:
    """The topic's id in the newest metadata."""
    return cluster.image().topics[topic].topic_id


def followers_of(cluster: FaultCluster, topic: str = "t") -> list[Server]:
    """The followers of partition 0."""
    leader = cluster.leader(topic)
    return [cluster.node(node) for node in cluster.partition(topic).replicas if node != leader]


@pytest.mark.parametrize("has_writes", [True, False])
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_s15_two_elections_in_a_row(cluster: Any, measured: Any, has_writes: bool, how: str) -> None:
    """The leader ends, and the next leader right after its election; without writes in between a leader epoch
    has no records (KAFKA-10706, KIP-279)."""
    cluster.create_topic("t", min_insync_replicas=1)
    work = Workload(cluster, "t").start()
    begun_s = time.monotonic()
    for _ in range(3):
        if not has_writes:
            work.rest()
        gone = []
        for _ in range(2):
            node = cluster.node(cluster.leader("t"))
            getattr(node, how)()
            gone.append(node)
            cluster.until(
                lambda gone=gone: cluster.node(cluster.leader("t")) not in gone, "another node leads"
            )
        work.go_on()
        work.more()
        for node in gone:
            node.start()
        cluster.until_in_sync("t")
    measured(work, begun_s)
    work.finish()
    cluster.until_replicas_agree("t")


def test_s16_uncommitted_tail_of_an_isolated_leader_is_truncated(cluster: Any) -> None:
    """A leader without followers appends records with acks=1. After another election it truncates them by
    leader epoch, and no consumer reads one of them, not even from the old leader."""
    cluster.create_topic("t", min_insync_replicas=2)
    work = Workload(cluster, "t").start()
    work.rest()
    cluster.until_replicas_agree("t")
    old = cluster.node(cluster.leader("t"))
    cluster.isolate([old.name], [node.name for node in cluster.nodes])
    raw = cluster.raw(old)
    for _ in range(20):
        assert raw.produce(topic_id_of(cluster), b"tail" * 10, b"tail", acks=1).error_code == 0
    logs = cluster.logs_of("t")
    assert all(len(logs[old.id]) > len(data) for node, data in logs.items() if node != old.id)
    cluster.isolate([old.name], ["controller-1"])
    cluster.until(lambda: cluster.leader("t") != old.id, "another node leads")
    assert [value for _, value in raw.fetch(topic_id_of(cluster))[1] if b"tail" in (value or b"")] == []
    raw.close()
    work.go_on()
    work.more()
    cluster.network.heal()
    cluster.until_in_sync("t")
    work.more()
    work.finish()
    cluster.until_replicas_agree("t")
    assert b"tail" not in cluster.logs_of("t")[old.id]


def test_s17_produce_below_min_insync_replicas(cluster: Any) -> None:
    """The ISR shrinks below min.insync.replicas: a pending produce request fails, later ones are refused
    before the append, and consumers read the pending record only when enough replicas have it."""
    cluster.create_topic("t", min_insync_replicas=2)
    leader = cluster.node(cluster.leader("t"))
    topic_id, raw = topic_id_of(cluster), cluster.raw(leader)
    assert raw.produce(topic_id, b"safe").error_code == 0
    cluster.isolate([leader.name], [node.name for node in cluster.nodes])
    after = raw.begin_produce(topic_id, b"in doubt", timeout_ms=29_000)
    cluster.until(lambda: cluster.partition("t").isr == (leader.id,), "the ISR is the leader")
    assert after.result(60).error_code in IN_DOUBT
    size = len(cluster.logs_of("t")[leader.id])
    assert raw.produce(topic_id, b"refused").error_code == errors.NotEnoughReplicasError.code
    assert len(cluster.logs_of("t")[leader.id]) == size
    answer, found = raw.fetch(topic_id)
    assert (answer.high_watermark, found) == (1, [(0, b"safe")])
    cluster.network.heal()
    cluster.until_in_sync("t")
    assert raw.produce(topic_id, b"safe again").error_code == 0
    assert [value for _, value in raw.fetch(topic_id)[1]] == [b"safe", b"in doubt", b"safe again"]
    raw.close()


def test_s17_acks_all_does_not_wait_for_a_fenced_follower(make_cluster: Any, record_property: Any) -> None:
    """A follower is drained, paused, and undrained within its session: it is outside of the ISR, but eligible
    and was caught up a moment ago, so acks=all waits for it. When it is fenced, pending requests are
    acknowledged by the ISR of two, without another append and long before replica.lag.time.max.ms, which is
    ten minutes here."""
    session_ms = 6_000
    cluster = make_cluster(
        config={"replica.lag.time.max.ms": 600_000},
        controller_config={"broker.session.timeout.ms": session_ms},
    )
    cluster.create_topic("t", min_insync_replicas=2)
    leader, follower = cluster.node(cluster.leader("t")), cluster.node(cluster.follower("t"))
    topic_id, raw = topic_id_of(cluster), cluster.raw(leader)
    drain(cluster, leader, follower, is_drained=True)
    assert follower.id not in cluster.partition("t").isr
    assert raw.produce(topic_id, b"copied while drained").error_code == 0
    cluster.until_replicas_agree("t")
    follower.pause()
    assert raw.produce(topic_id, b"the follower is behind").error_code == 0
    drain(cluster, leader, follower, is_drained=False)
    begun_s = time.monotonic()
    answer = raw.begin_produce(topic_id, b"the leader waits", timeout_ms=29_000).result(PATIENCE_S)
    waited_s = time.monotonic() - begun_s
    record_property(FIGURES, f"session timeout {session_ms} ms, acknowledged after {waited_s:.1f} s")
    assert answer.error_code == 0
    isr = cluster.partition("t").isr
    assert (len(isr), follower.id in isr) == (2, False)
    follower.resume()
    cluster.until_in_sync("t")
    raw.close()
    cluster.until_replicas_agree("t")


def drain(cluster: FaultCluster, leader: Server, node: Server, *, is_drained: bool) -> None:
    """Drain or undrain a node; wait until the leader's metadata has the change."""
    answer = cluster.ask_controller(
        registry.DRAIN_NODE, control.DrainNodeRequest(node.id, is_drained=is_drained)
    )
    assert answer.error_code == 0
    cluster.until(
        lambda: cluster.knows(leader, answer.metadata_offset), "the leader has the drain's metadata"
    )


def test_s18_replica_with_lost_pages_is_not_elected(cluster: Any, measured: Any) -> None:
    """Two replicas shut down cleanly, the last one is killed and loses its page cache. It returns first and
    must not be elected: a member of the ELR, which has all committed records, is (KIP-966)."""
    cluster.create_topic("t", min_insync_replicas=2)
    work = Workload(cluster, "t").start()
    begun_s = time.monotonic()
    first, second = followers_of(cluster)
    first.stop()
    work.more()
    second.stop()
    cluster.until(lambda: second.id in cluster.partition("t").elr, "the second replica is in the ELR")
    last = cluster.node(cluster.leader("t"))
    last.kill()
    cluster.until(lambda: cluster.partition("t").leader == -1, "the partition has no leader")
    for path in (last.directory / "t-0").glob("*.log"):
        path.write_bytes(b"")  # nothing had been flushed
    last.start()
    offset = cluster.image().offset
    cluster.until(lambda: cluster.knows(last, offset), "the node with lost pages is active")
    assert cluster.partition("t").leader != last.id
    second.start()
    cluster.until(lambda: cluster.partition("t").leader == second.id, "the eligible replica leads")
    first.start()
    cluster.until_in_sync("t")
    work.more()
    measured(work, begun_s)
    work.finish()
    cluster.until_replicas_agree("t")


def test_s19_an_unclean_election_loses_within_bounds(make_cluster: Any) -> None:
    """With unclean.leader.election.enable a replica out of sync is elected when no other is left. Only
    records that were acknowledged while it was down are lost; all replicas end with equal logs."""
    cluster = make_cluster(controller_config={"unclean.leader.election.interval.ms": 500})
    cluster.create_topic("t", 1, 2, min_insync_replicas=1, unclean_leader_election_enable="true")
    work = Workload(cluster, "t", consumers=0).start()
    work.rest()
    (behind,) = followers_of(cluster)
    ahead = cluster.node(cluster.leader("t"))
    cluster.until_replicas_agree("t")
    behind.kill()
    cluster.until(lambda: cluster.partition("t").isr == (ahead.id,), "the ISR is the leader")
    may_be_lost_from_s = time.monotonic()
    work.go_on()
    work.more()
    work.rest()
    may_be_lost = work.acked_since(may_be_lost_from_s)
    ahead.kill()
    cluster.until(lambda: cluster.partition("t").leader == -1, "the partition has no leader")
    behind.start()
    cluster.until(lambda: cluster.partition("t").leader == behind.id, "an unclean election")
    work.go_on()
    work.more()
    ahead.start()
    cluster.until_in_sync("t", 2)
    work.more()
    work.read_to_the_end()
    found = work.history.anomalies()
    # the loss looks like two records that were acknowledged at one offset
    assert set(found) <= {"lost-write", "unseen", "inconsistent-offsets", "nonmonotonic-send"}, found
    assert 0 < work.lost <= may_be_lost
    cluster.until_replicas_agree("t")


def test_s20_isr_change_with_a_stale_broker_epoch_is_refused(cluster: Any) -> None:
    """A leader proposes a follower with the broker epoch of its earlier process: the controller refuses the
    ISR change (KIP-903)."""
    cluster.create_topic("t", min_insync_replicas=2)
    follower = followers_of(cluster)[0]
    old_epoch = cluster.image().brokers[follower.id].broker_epoch
    follower.kill()
    cluster.until(lambda: follower.id not in cluster.partition("t").isr, "the ISR has shrunk")
    cluster.network.freeze(between([follower.name], [node.name for node in cluster.nodes]))
    follower.start()
    partition, brokers = cluster.partition("t"), cluster.image().brokers
    members = (*((node, brokers[node].broker_epoch) for node in partition.isr), (follower.id, old_epoch))
    item = control.AlterPartitionItem(
        topic_id_of(cluster), 0, partition.leader_epoch, partition.partition_epoch, members, 0
    )
    request = control.AlterPartitionRequest(partition.leader, brokers[partition.leader].broker_epoch, (item,))
    answer = cluster.ask_controller(registry.ALTER_PARTITION, request)
    assert answer.error_code == 0
    assert answer.partitions[0].error_code != 0
    assert follower.id not in cluster.partition("t").isr
    cluster.network.heal()
    cluster.until_in_sync("t")


@pytest.mark.parametrize("is_leader", [True, False])
def test_s21_node_returns_with_a_wiped_disk(cluster: Any, measured: Any, is_leader: bool) -> None:
    """A node returns with an empty disk. It is not elected, also not as the preferred leader, until it has
    caught up; then it joins the ISR."""
    cluster.create_topic("t", min_insync_replicas=2)
    work = Workload(cluster, "t").start()
    begun_s = time.monotonic()
    preferred = cluster.node(cluster.partition("t").replicas[0])
    node = preferred if is_leader else followers_of(cluster)[0]
    assert cluster.leader("t") == preferred.id
    node.kill()
    cluster.until(lambda: node.id not in cluster.partition("t").isr, "the ISR has shrunk")
    node.wipe()
    cluster.network.freeze(between([node.name], [each.name for each in cluster.nodes]))
    node.start()
    ask = control.ElectLeadersRequest(PREFERRED, (control.TopicPartitions("t", (0,)),))
    (result,) = cluster.ask_controller(registry.ELECT_LEADERS, ask).results
    if is_leader:
        assert result.error_code == errors.PreferredLeaderNotAvailableError.code, result
    assert cluster.leader("t") != node.id
    work.more()
    cluster.network.heal()
    cluster.until_in_sync("t")
    work.more()
    measured(work, begun_s)
    work.finish()
    cluster.until_replicas_agree("t")
