"""Noticing that a whole cluster is gone."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import pytest
from fake_cluster import FakeCluster
from headrace.clients.sync.cluster_io import Cluster
from headrace.services.bench import vigil
from headrace.services.bench.vigil import Vigil

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 60


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    monkeypatch.setattr(vigil, "LOOK_S", 0.01)
    monkeypatch.setattr(vigil, "ANSWER_S", 2.0)
    return FakeCluster(2, latency_ms=0)


@pytest.fixture
def cluster(fake: FakeCluster) -> Iterator[Cluster]:
    with Cluster("node0:9000,node1:9001", make_hub=fake.make_hub) as cluster:
        cluster.admin().describe_cluster()
        yield cluster


def test_a_cluster_that_is_gone_is_given_up_once(fake: FakeCluster, cluster: Cluster) -> None:
    """By its only call."""
    for node_id in (0, 1):
        fake.stop_node(node_id)
    calls, called = [0], threading.Event()

    def give_up() -> None:
        calls[0] += 1
        called.set()

    with Vigil(cluster, lambda: 7, give_up) as watched:
        assert called.wait(PATIENCE_S)
    assert (calls, watched.is_over) == ([1], True)


def test_a_node_that_answers_is_enough(fake: FakeCluster, cluster: Cluster) -> None:
    """Nothing goes on, and one of two is gone: it is asked again and again."""
    fake.stop_node(0)
    asked = threading.Event()

    def progress() -> int:
        if len(fake.requests("DescribeCluster")) > 5:
            asked.set()
        return 7

    with Vigil(cluster, progress) as watched:
        assert asked.wait(PATIENCE_S)
    assert not watched.is_over


def test_nobody_is_asked_while_it_goes_on(fake: FakeCluster, cluster: Cluster) -> None:
    """However the cluster is."""
    for node_id in (0, 1):
        fake.stop_node(node_id)
    counter, looked = itertools.count(), threading.Event()

    def progress() -> int:
        number = next(counter)
        if number > 5:
            looked.set()
        return number

    with Vigil(cluster, progress) as watched:
        assert looked.wait(PATIENCE_S)
    assert not watched.is_over
