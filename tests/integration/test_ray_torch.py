"""Shards of a topic for a DataLoader of torch itself."""

from collections.abc import Iterator

import pytest
from headrace import LocalCluster
from torch_rig import ROWS, cluster_of_rows, run_torch, torch_folder

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def python_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where torch is."""
    return torch_folder(tmp_path_factory.mktemp("torch"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """See torch_rig.py."""
    with cluster_of_rows() as started:
        yield started


def test_data_loader_reads_each_row_once(python_path: str, cluster: LocalCluster) -> None:
    """Its workers, forked beside an open connection, divide the shard: each row once per epoch. A state
    continues after the last returned batch."""
    found = run_torch(python_path, "loader", cluster.bootstrap, "rows")
    for epoch in [*found["epochs"], found["resumed"]]:
        assert sorted(number for batch in epoch for number in batch) == list(range(ROWS))
    assert {len(batch) for batch in found["resumed"][:-1]} == {10}
