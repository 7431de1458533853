"""Scenarios 8 to 14 of RELIABILITY 1.8: partitioned, slow and broken links between servers, and to
clients."""

import time
from typing import Any

import pytest
from fault_cluster import SESSION_S, FaultCluster, hold
from fault_workload import Workload
from proxy import Way, between, toward

pytestmark = pytest.mark.faults

ELECTIONS_S = 5.0  # several times the quorum's fetch and election timeouts
CLIENTS = ["client-0", "client-1", "client-2"]  # two producers and a consumer


def started(cluster: FaultCluster, partitions: int = 1) -> Workload:
    """Create a topic and start load on it."""
    cluster.create_topic("t", partitions, min_insync_replicas=2)
    return Workload(cluster, "t").start()


def voters_behind(cluster: FaultCluster) -> int:
    """The number of controllers that lag in the metadata log."""
    found = cluster.quorum()
    return sum(voter.log_end_offset < found.high_watermark for voter in found.voters)


def names_without(cluster: FaultCluster, name: str) -> list[str]:
    """The names of the other nodes."""
    return [server.name for server in cluster.nodes if server.name != name]


@pytest.mark.parametrize("reaches_the_controller", [True, False])
def test_s08_a_follower_is_isolated(cluster: Any, measured: Any, reaches_the_controller: bool) -> None:
    """The follower leaves the ISR, by its lag or by fencing; acknowledgements continue; after the partition
    it returns."""
    work = started(cluster)
    begun_s = time.monotonic()
    name = f"node-{cluster.follower('t')}"
    others = names_without(cluster, name)
    if not reaches_the_controller:
        others += ["controller-1"]
    before = cluster.partition("t")
    cluster.isolate([name], others)
    cluster.until(lambda: len(cluster.partition("t").isr) == 2, "the ISR has shrunk")
    work.more()
    now = cluster.partition("t")
    assert (now.leader, now.leader_epoch) == (before.leader, before.leader_epoch)
    cluster.network.heal()
    cluster.until_in_sync("t")
    work.more()
    measured(work, begun_s)
    work.finish()
    cluster.until_replicas_agree("t")


def test_s09_the_leader_is_isolated_from_the_controller_only(cluster: Any, measured: Any) -> None:
    """Clients and followers reach the leader, but another node is elected: the old leader acknowledges no
    request with acks=all."""
    work = started(cluster)
    begun_s = time.monotonic()
    old = cluster.node(cluster.leader("t"))
    topic_id = cluster.image().topics["t"].topic_id
    raw = cluster.raw(old)
    cluster.isolate([old.name], ["controller-1"])
    cluster.until(lambda: cluster.leader("t") != old.id, "another node leads")
    work.more()
    # the followers fetch from the new leader: the old one cannot commit
    assert raw.produce(topic_id, b"to the old leader", timeout_ms=2_000).error_code != 0
    raw.close()
    cluster.network.heal()
    cluster.until_in_sync("t")
    work.more()
    measured(work, begun_s)
    work.finish()
    cluster.until_replicas_agree("t")


def test_s10_a_client_is_isolated_from_a_leader_only(cluster: Any, measured: Any) -> None:
    """The client's other partitions make progress, no leader is elected, and pending records are written when
    the link heals."""
    work = started(cluster, partitions=3)
    begun_s = time.monotonic()
    before = cluster.image().topics["t"].partitions
    node = cluster.leader("t", 0)
    cluster.isolate(["client-0"], [f"node-{node}"])
    others = {number for number, partition in enumerate(before) if partition.leader != node}
    assert others, "leaders are spread over the nodes"
    cluster.until(
        lambda: others <= {ack.partition for ack in work.acks if ack.at_s > begun_s + SESSION_S},
        "the other partitions make progress",
    )
    assert cluster.image().topics["t"].partitions == before
    cluster.network.heal()
    work.more()
    measured(work, begun_s)
    work.finish()
    assert work.unknown == 0, work.errors


@pytest.mark.parametrize("blocks_outgoing", [True, False])
def test_s11_a_partition_in_one_direction(cluster: Any, measured: Any, blocks_outgoing: bool) -> None:
    """Either the leader's bytes reach no other server, or those of the others do not reach it: in both cases
    another leader is elected."""
    work = started(cluster)
    begun_s = time.monotonic()
    old = f"node-{cluster.leader('t')}"
    rest = [*names_without(cluster, old), "controller-1"]
    for pair, way in toward([old], rest) if blocks_outgoing else toward(rest, [old]):
        cluster.network.freeze([pair], way)
    cluster.until(lambda: f"node-{cluster.leader('t')}" != old, "another node leads")
    work.more()
    cluster.network.heal()
    cluster.until_in_sync("t")
    work.more()
    measured(work, begun_s)
    work.finish()
    cluster.until_replicas_agree("t")


def test_s12_nodes_reach_only_their_neighbours_in_a_ring(make_cluster: Any, measured: Any) -> None:
    """Five nodes, each reaches its two neighbours: the ISRs shrink to them, and the leaders stay."""
    cluster = make_cluster(nodes=5)
    cluster.create_topic("t", 5, 5, min_insync_replicas=3)
    work = Workload(cluster, "t").start()
    begun_s = time.monotonic()
    names = [server.name for server in cluster.nodes]
    for index, name in enumerate(names):
        cluster.isolate([name], [names[(index + 2) % 5], names[(index + 3) % 5]])

    def have_shrunk() -> bool:
        return all(len(partition.isr) == 3 for partition in cluster.image().topics["t"].partitions)

    cluster.until(have_shrunk, "every ISR is the leader and its neighbours")
    work.more(300)
    cluster.network.heal()
    cluster.until_in_sync("t", 5)
    work.more()
    measured(work, begun_s)
    work.finish()
    for partition in range(5):
        cluster.until_replicas_agree("t", partition)


def test_s12_active_controller_reaches_one_of_two_followers(make_cluster: Any, measured: Any) -> None:
    """With one follower the active controller has a majority and stays; pre-vote keeps the isolated one from
    forcing an election."""
    cluster = make_cluster(controllers=3)
    work = started(cluster)
    begun_s = time.monotonic()
    leader = cluster.active_controller
    epoch = cluster.quorum().leader_epoch
    other = next(server for server in cluster.controllers if server is not leader)
    cluster.isolate([leader.name], [other.name])
    hold(ELECTIONS_S)
    cluster.create_topic("u")
    assert (cluster.quorum().leader_id, cluster.quorum().leader_epoch) == (leader.id, epoch)
    cluster.network.heal()
    work.more()
    measured(work, begun_s)
    work.finish()


@pytest.mark.parametrize("ways", ["none", "mute", "deaf"])
def test_s11_the_active_controller_is_isolated_from_the_quorum(
    make_cluster: Any, measured: Any, ways: str
) -> None:
    """In both directions or in one; nodes still reach it. Another controller is elected, each decision is
    made once, and the old controller follows after the partition."""
    cluster = make_cluster(controllers=3)
    work = started(cluster)
    begun_s = time.monotonic()
    old = cluster.active_controller
    others = [server.name for server in cluster.controllers if server is not old]
    flows = {
        "none": [*toward([old.name], others), *toward(others, [old.name])],
        "mute": toward([old.name], others),
        "deaf": toward(others, [old.name]),
    }
    for pair, way in flows[ways]:
        cluster.network.freeze([pair], way)
    cluster.until(lambda: cluster.active_controller is not old, "another controller leads")
    cluster.create_topic("u")
    work.more()
    cluster.network.heal()
    cluster.until(lambda: voters_behind(cluster) == 0, "every controller follows")
    cluster.create_topic("v")
    assert {"t", "u", "v"} <= set(cluster.image().topics)
    measured(work, begun_s)
    work.finish()
    assert work.unknown == 0, work.errors


def test_s13_slow_links_fence_no_node(cluster: Any, measured: Any) -> None:
    """100 ms and 3 Mbit/s on every link: no node is fenced, no leader changes."""
    work = started(cluster, partitions=3)
    before = [partition.leader_epoch for partition in cluster.image().topics["t"].partitions]
    begun_s = time.monotonic()
    cluster.network.shape(cluster.all_links(), delay_s=0.1, bytes_per_s=3_000_000 / 8)
    hold(3 * SESSION_S)
    work.more(500)
    assert [partition.leader_epoch for partition in cluster.image().topics["t"].partitions] == before
    measured(work, begun_s)
    cluster.network.heal()
    work.finish()
    assert work.unknown == 0, work.errors
    cluster.until_replicas_agree("t")


@pytest.mark.parametrize("chance", [0.01, 0.05])
def test_s14_random_connection_resets(cluster: Any, measured: Any, chance: float) -> None:
    """One write in a hundred, or twenty, resets its connection and loses the bytes in flight: clients retry
    requests whose responses were lost, without duplicates."""
    work = started(cluster, partitions=3)
    begun_s = time.monotonic()
    cluster.network.shape(cluster.all_links(), reset_chance=chance)
    work.more(500)
    hold(5.0)
    work.more(500)
    measured(work, begun_s)
    cluster.network.heal()
    cluster.until_in_sync("t")
    work.finish()
    assert work.unknown == 0, work.errors
    for partition in range(3):
        cluster.until_replicas_agree("t", partition)


def test_s14_small_segments_and_half_closed_connections(cluster: Any, measured: Any) -> None:
    """Requests in pieces of a few bytes; then each direction of every connection is closed while requests are
    in flight; then all links are frozen and reset, which loses the held bytes."""
    work = started(cluster, partitions=3)
    begun_s = time.monotonic()
    links = cluster.all_links()
    cluster.network.shape(links, piece_bytes=7)
    work.more()
    cluster.network.heal()
    for way in (Way.OUT, Way.BACK):
        cluster.network.half_close(links, way)
        work.more()
    servers = [server.name for server in cluster.nodes]
    cluster.network.freeze(between(CLIENTS, servers), Way.BACK)
    hold(1.0)  # requests are handled, and their responses held back
    cluster.network.heal(is_reset=True)
    work.more()
    measured(work, begun_s)
    work.finish()
    assert work.unknown == 0, work.errors
    cluster.until_replicas_agree("t")
