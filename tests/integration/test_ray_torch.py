"""Shards of a topic with torch itself: by a DataLoader, and by Ray Train while a worker is killed.

torch is the one of this environment, or that of Debian (python3-torch), which is small and has no CUDA.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from headrace import LocalCluster, NewTopic, local
from headrace.clients.pipeline import write_arrow, write_options

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.ray

ROWS, PARTITIONS = 150, 3
PROGRAMS = Path(__file__).with_name("torch_training.py")
DEBIAN = Path("/usr/lib/python3/dist-packages/torch")
TIMEOUT_S = 500


@pytest.fixture(scope="module")
def python_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with torch alone, "" if it is here anyway. Skips, or fails where it must be there."""
    if importlib.util.find_spec("torch") is not None:
        return ""
    if any(Path(DEBIAN, f"_C{suffix}").exists() for suffix in importlib.machinery.EXTENSION_SUFFIXES):
        folder = tmp_path_factory.mktemp("torch")
        Path(folder, "torch").symlink_to(DEBIAN)
        return str(folder)
    if os.environ.get("HEADRACE_REQUIRE_KAFKA"):
        pytest.fail("torch is required here: no module of that name, and no python3-torch")
    pytest.skip("there is no torch: install it, or Debian's python3-torch")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A topic with every number below ROWS, as four digits."""
    with local(nodes=1) as started:
        started.admin().create_topics(NewTopic("rows", PARTITIONS, 1)).raise_for_errors()
        where = pa.array([number % PARTITIONS for number in range(ROWS)], pa.int32())
        table = pa.table({"value": [f"{number:04}" for number in range(ROWS)], "partition": where})
        write_arrow([table], write_options({"bootstrap": started.bootstrap, "topic": "rows"}))
        yield started


def run(python_path: str, program: str, *arguments: str) -> Any:
    """What a program prints; torch's own words about NumPy do not matter."""
    environment = {
        **os.environ, "PYTHONPATH": python_path, "RAY_AUTH_MODE": "disabled",
        # less to start, and to wait for
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2", "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
        "RAY_TRAIN_METRICS_ENABLED": "0",
    }  # fmt: skip
    command = [sys.executable, "-W", "ignore", str(PROGRAMS), program, *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_data_loader(python_path: str, cluster: LocalCluster) -> None:
    """Its workers, forked beside a connection, share the shard: each row once in an epoch. A state goes on
    after the last batch that was handed out."""
    found = run(python_path, "loader", cluster.bootstrap, "rows")
    for epoch in [*found["epochs"], found["resumed"]]:
        assert sorted(number for batch in epoch for number in batch) == list(range(ROWS))
    assert {len(batch) for batch in found["resumed"][:-1]} == {10}


def test_a_training_of_which_a_worker_is_killed(
    python_path: str, cluster: LocalCluster, tmp_path: Path
) -> None:
    """Two workers with a shard each, by their ranks; both go on where the last checkpoint was: what was read
    after it is read again, and counts once in each of two epochs."""
    found = run(python_path, "train", cluster.bootstrap, "rows", str(tmp_path), str(ROWS))
    assert found["resumed"]
    assert Counter(found["seen"]) == {2: ROWS}
    assert found["batches"] < 16  # not all of them anew
