"""Scenarios 8 to 14 of RELIABILITY 1.8: links between servers, and to clients, that hold bytes back, slow
them down or break."""

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
    """A topic as most scenarios need it, and load on it."""
    cluster.create_topic("t", partitions, min_insync_replicas=2)
    return Workload(cluster, "t").start()


def voters_behind(cluster: FaultCluster) -> int:
    """Controllers that have not fetched the whole metadata log a moment ago."""
    found = cluster.quorum()
    return sum(voter.log_end_offset < found.high_watermark for voter in found.voters)


def names_without(cluster: FaultCluster, name: str) -> list[str]:
    """The other nodes."""
    return [server.name for server in cluster.nodes if server.name != name]


@pytest.mark.parametrize("is_heard_by_the_controller", [True, False])
def test_s08_a_follower_is_isolated(cluster: Any, measured: Any, is_heard_by_the_controller: bool) -> None:
    """It leaves the ISR, for its lag or with its session; acknowledgements go on; healed, it comes back."""
    work = started(cluster)
    begun_s = time.monotonic()
    name = f"node-{cluster.follower('t')}"
    others = names_without(cluster, name)
    if not is_heard_by_the_controller:
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
    """Clients and followers reach it, but it was replaced: it acknowledges nothing from acks=all any more."""
    work = started(cluster)
    begun_s = time.monotonic()
    old = cluster.node(cluster.leader("t"))
    topic_id = cluster.image().topics["t"].topic_id
    raw = cluster.raw(old)
    cluster.isolate([old.name], ["controller-1"])
    cluster.until(lambda: cluster.leader("t") != old.id, "another node leads")
    work.more()
    # the followers have moved on to the new leader: nobody confirms this to the old one
    assert raw.produce(topic_id, b"to the leader of the past", timeout_ms=2_000).error_code != 0
    raw.close()
    cluster.network.heal()
    cluster.until_in_sync("t")
    work.more()
    measured(work, begun_s)
    work.finish()
    cluster.until_replicas_agree("t")


def test_s10_a_client_is_isolated_from_a_leader_only(cluster: Any, measured: Any) -> None:
    """Its other partitions go on, nobody is elected, and what waited is written when it can be."""
    work = started(cluster, partitions=3)
    begun_s = time.monotonic()
    before = cluster.image().topics["t"].partitions
    node = cluster.leader("t", 0)
    cluster.isolate(["client-0"], [f"node-{node}"])
    others = {number for number, partition in enumerate(before) if partition.leader != node}
    assert others, "leaders are spread over the nodes"
    cluster.until(
        lambda: others <= {ack.partition for ack in work.acks if ack.at_s > begun_s + SESSION_S},
        "the other partitions go on",
    )
    assert cluster.image().topics["t"].partitions == before
    cluster.network.heal()
    work.more()
    measured(work, begun_s)
    work.finish()
    assert work.unknown == 0, work.errors


@pytest.mark.parametrize("is_mute", [True, False])
def test_s11_a_partition_in_one_direction(cluster: Any, measured: Any, is_mute: bool) -> None:
    """The leader hears the other servers and is not heard, or the reverse: it is replaced either way."""
    work = started(cluster)
    begun_s = time.monotonic()
    old = f"node-{cluster.leader('t')}"
    rest = [*names_without(cluster, old), "controller-1"]
    for pair, way in toward([old], rest) if is_mute else toward(rest, [old]):
        cluster.network.freeze([pair], way)
    cluster.until(lambda: f"node-{cluster.leader('t')}" != old, "another node leads")
    work.more()
    cluster.network.heal()
    cluster.until_in_sync("t")
    work.more()
    measured(work, begun_s)
    work.finish()
    cluster.until_replicas_agree("t")


def test_s12_a_ring_in_which_each_sees_a_majority(make_cluster: Any, measured: Any) -> None:
    """Five nodes, each reaches its two neighbours: leaders go on with those they see."""
    cluster = make_cluster(nodes=5)
    cluster.create_topic("t", 5, 5, min_insync_replicas=3)
    work = Workload(cluster, "t").start()
    begun_s = time.monotonic()
    names = [server.name for server in cluster.nodes]
    for index, name in enumerate(names):
        cluster.isolate([name], [names[(index + 2) % 5], names[(index + 3) % 5]])

    def have_shrunk() -> bool:
        return all(len(partition.isr) == 3 for partition in cluster.image().topics["t"].partitions)

    cluster.until(have_shrunk, "every leader has its two neighbours")
    work.more(300)
    cluster.network.heal()
    cluster.until_in_sync("t", 5)
    work.more()
    measured(work, begun_s)
    work.finish()
    for partition in range(5):
        cluster.until_replicas_agree("t", partition)


def test_s12_a_controller_that_leads_sees_one_of_two(make_cluster: Any, measured: Any) -> None:
    """With one of the two others it has a majority: it goes on to lead, and the one that does not hear it
    disturbs nobody (pre-vote)."""
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
def test_s11_the_active_controller_is_cut_off_from_the_others(
    make_cluster: Any, measured: Any, ways: str
) -> None:
    """In both directions or in one; nodes still reach it. Another is elected, what is decided then is decided
    once, and the old one follows when it can."""
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


def test_s13_every_link_is_long_and_thin(cluster: Any, measured: Any) -> None:
    """100 ms and 3 Mbit/s everywhere: slow, but nobody is given up."""
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
def test_s14_connections_that_break_all_the_time(cluster: Any, measured: Any, chance: float) -> None:
    """One write in a hundred, or twenty, resets its connection, with all that was under way on it: requests
    whose answers were lost are repeated. TCP itself lets nothing be doubled or reordered."""
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


def test_s14_bytes_that_trickle_and_halves_that_close(cluster: Any, measured: Any) -> None:
    """Requests in pieces of some bytes; then each direction of every connection ends while requests are
    under way; then everything is frozen and reset, which loses what was held."""
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
    hold(1.0)  # requests arrive and are done, their answers are not heard
    cluster.network.heal(is_reset=True)
    work.more()
    measured(work, begun_s)
    work.finish()
    assert work.unknown == 0, work.errors
    cluster.until_replicas_agree("t")
