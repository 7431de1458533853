"""A Ray Train run with torch while one of its workers is killed."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from headrace import LocalCluster
from torch_rig import ROWS, cluster_of_rows, run_torch, torch_folder

pytestmark = [pytest.mark.ray, pytest.mark.faults]


@pytest.fixture(scope="module")
def python_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the torch installation."""
    return torch_folder(tmp_path_factory.mktemp("torch"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """See torch_rig.py."""
    with cluster_of_rows() as started:
        yield started


def test_training_continues_after_a_worker_is_killed(
    python_path: str, cluster: LocalCluster, tmp_path: Path
) -> None:
    """Two workers with one shard each; both continue at the last checkpoint: records after it are read again,
    and each record counts once in each of two epochs."""
    found = run_torch(python_path, "train", cluster.bootstrap, "rows", str(tmp_path), str(ROWS))
    assert found["resumed"]
    assert Counter(found["seen"]) == {2: ROWS}
    assert found["batches"] < 16  # only the batches after the checkpoint are read again
