"""What a leader tells a follower once reaches it, though the follower has named its place anew meanwhile."""

from __future__ import annotations

import pytest
from replica_rig import TOPIC, Replicas

KEY = (TOPIC, 0)


@pytest.fixture
def cluster() -> Replicas:
    """A record that nodes 1 and 2 have, and node 3 has not: it is not committed."""
    cluster = Replicas()
    cluster.settle()
    cluster.cut.add((3, 1))
    cluster.break_link(3, 1)
    cluster.produce(b"a", timeout_ms=60_000)
    cluster.settle()
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


def test_a_high_watermark_reaches_who_names_its_start_meanwhile(cluster) -> None:
    """Its log starts later than it did, which its leader is to know, in a request that overtakes."""
    commit(cluster)
    cluster.nodes[2].core.replicas.fetchers.start_moved(KEY, cluster.now_ms)
    cluster.settle()
    arrive(cluster)
    assert cluster.watermark(2) == 1


def test_a_high_watermark_reaches_who_is_about_to_name_its_start(cluster) -> None:
    """That request is not sent yet when the answer comes."""
    commit(cluster)
    cluster.held_back.clear()
    cluster.nodes[2].core.replicas.fetchers.start_moved(KEY, cluster.now_ms)
    cluster.settle()
    assert cluster.watermark(2) == 1


def test_who_was_cut_is_told_the_high_watermark() -> None:
    """It came with the word to cut, when it could not be believed; and no record comes after it."""
    cluster = Replicas(durability="fsync")
    cluster.settle()
    cluster.is_flushing = False  # who has the record does not say so
    cluster.produce(b"a")
    cluster.settle()
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
