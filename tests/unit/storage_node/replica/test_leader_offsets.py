"""A follower takes high watermark and log start from responses that a newer fetch has overtaken."""

import pytest
from replica_rig import TOPIC, Replicas

KEY = (TOPIC, 0)


@pytest.fixture
def cluster() -> Replicas:
    """A record that nodes 1 and 2 have, and node 3 has not: it is not committed."""
    cluster = Replicas.settled()
    cluster.cut_link(3, 1)
    cluster.write(b"a", timeout_ms=60_000)
    assert (cluster.end(2), cluster.watermark(2)) == (1, 0)
    return cluster


def commit(cluster: Replicas) -> None:
    """Node 3 comes, too; what that means is under way to node 2, and nothing more is written."""
    cluster.held_back.add((2, 1))
    cluster.cut.clear()
    cluster.pass_time(200)
    assert (cluster.watermark(1), cluster.watermark(2)) == (1, 0)


def arrive(cluster: Replicas) -> None:
    cluster.held_back.clear()
    cluster.pass_time(1_000)


def test_high_watermark_is_taken_from_an_overtaken_response(cluster) -> None:
    """A second fetch, which reports the follower's new log start, is in flight when the response arrives."""
    commit(cluster)
    cluster.nodes[2].core.replicas.fetchers.start_moved(KEY, cluster.now_ms)
    cluster.settle()
    arrive(cluster)
    assert cluster.watermark(2) == 1


def test_high_watermark_is_taken_while_the_next_fetch_is_pending(cluster) -> None:
    """The fetch with the new log start is not sent yet."""
    commit(cluster)
    cluster.held_back.clear()
    cluster.nodes[2].core.replicas.fetchers.start_moved(KEY, cluster.now_ms)
    cluster.settle()
    assert cluster.watermark(2) == 1


def test_high_watermark_is_sent_again_after_a_truncation() -> None:
    """The response with the divergence had it, but it could not be used."""
    cluster = Replicas.settled(durability="fsync")
    cluster.is_flushing = False  # the follower has the record and does not report it
    cluster.write(b"a")
    cluster.isolate(1)
    cluster.is_flushing = True
    cluster.produce(b"cut", node=1)
    cluster.change(leader=2, isr=(2, 3))
    cluster.pass_time(200)
    assert [cluster.end(node) for node in (1, 2, 3)] == [2, 1, 1]
    assert [cluster.watermark(node) for node in (1, 2)] == [0, 1]
    cluster.heal()
    cluster.pass_time(1_000)
    assert (cluster.end(1), cluster.watermark(1)) == (1, 1)
