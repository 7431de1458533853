"""The cluster of processes that tests of alerts share, its Prometheus, and `fault`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alert_cluster import AlertCluster
    from alerting import AlertWatch, Fault


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AlertCluster]:
    """Three controllers and three nodes, as processes."""
    from alert_cluster import AlertCluster

    with AlertCluster(tmp_path_factory.mktemp("alerts")) as made:
        yield made


@pytest.fixture
def cluster(shared_cluster: AlertCluster) -> Iterator[AlertCluster]:
    """The shared cluster. Faults that a failed test has left are ended."""
    yield shared_cluster
    shared_cluster.end_faults()


@pytest.fixture(scope="session")
def watch(shared_cluster: AlertCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AlertWatch]:
    """The Prometheus of the shared cluster."""
    from alerting import alert_watch

    with alert_watch(tmp_path_factory.mktemp("watch"), shared_cluster.endpoints) as made:
        yield made


@pytest.fixture
def fault(request: pytest.FixtureRequest) -> Iterator[Fault]:
    """The fault of a test that is marked with the names of its `alerts`."""
    from alerting import Fault

    made = Fault(request.node.get_closest_marker("alerts").args)
    yield made
    assert made.is_over, "the test did not use its fault"
