"""The watchdog detects that no node of a cluster responds."""

import functools
import itertools
import threading
from collections.abc import Iterator

import pytest
from fake_cluster import FakeCluster
from headrace.clients.sync.cluster_io import Cluster
from headrace.services.bench.watchdog import ClusterWatchdog

TIMEOUT_S = 60
watchdog = functools.partial(ClusterWatchdog, check_s=0.01, timeout_s=2.0)


@pytest.fixture
def fake() -> FakeCluster:
    return FakeCluster(2, latency_ms=0)


@pytest.fixture
def cluster(fake: FakeCluster) -> Iterator[Cluster]:
    with Cluster("node0:9000,node1:9001", make_hub=fake.make_hub) as cluster:
        cluster.admin().describe_cluster()
        yield cluster


def test_watchdog_reports_a_lost_cluster_once(fake: FakeCluster, cluster: Cluster) -> None:
    """By a single call."""
    for node_id in (0, 1):
        fake.stop_node(node_id)
    calls, called = [0], threading.Event()

    def on_gone() -> None:
        calls[0] += 1
        called.set()

    with watchdog(cluster, lambda: 7, on_gone) as watched:
        assert called.wait(TIMEOUT_S)
    assert (calls, watched.is_gone) == ([1], True)


def test_one_responding_node_is_enough(fake: FakeCluster, cluster: Cluster) -> None:
    """Without progress and with one of two nodes stopped, the watchdog asks again and again."""
    fake.stop_node(0)
    asked = threading.Event()

    def progress() -> int:
        if len(fake.requests("DescribeCluster")) > 5:
            asked.set()
        return 7

    with watchdog(cluster, progress) as watched:
        assert asked.wait(TIMEOUT_S)
    assert not watched.is_gone


def test_no_request_is_sent_while_there_is_progress(fake: FakeCluster, cluster: Cluster) -> None:
    """Even if all nodes have stopped."""
    for node_id in (0, 1):
        fake.stop_node(node_id)
    counter, looked = itertools.count(), threading.Event()

    def progress() -> int:
        number = next(counter)
        if number > 5:
            looked.set()
        return number

    with watchdog(cluster, progress) as watched:
        assert looked.wait(TIMEOUT_S)
    assert not watched.is_gone
