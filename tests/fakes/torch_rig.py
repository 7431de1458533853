"""Runs programs with torch and prepares their topic, for tests of shards and training.

torch is the one of this environment, or that of Debian (python3-torch), which is small and has no CUDA.
"""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from headrace import LocalCluster, NewTopic, local
from headrace.clients.pipeline import write_arrow, write_options

ROWS, PARTITIONS = 150, 3
PROGRAMS = Path(__file__).with_name("torch_training.py")
DEBIAN = Path("/usr/lib/python3/dist-packages/torch")
TIMEOUT_S = 500


def torch_folder(empty: Path) -> str:
    """A folder with torch alone, made in `empty`; "" if torch is here anyway. Skips without torch, or fails
    where it is required."""
    if importlib.util.find_spec("torch") is not None:
        return ""
    if any(Path(DEBIAN, f"_C{suffix}").exists() for suffix in importlib.machinery.EXTENSION_SUFFIXES):
        Path(empty, "torch").symlink_to(DEBIAN)
        return str(empty)
    if os.environ.get("HEADRACE_REQUIRE_KAFKA"):
        pytest.fail("torch is required here: no module of that name, and no python3-torch")
    pytest.skip("there is no torch: install it, or Debian's python3-torch")


@contextmanager
def cluster_of_rows() -> Iterator[LocalCluster]:
    """A cluster whose topic "rows" has every number below ROWS, as four digits."""
    with local(nodes=1) as started:
        started.admin().create_topics(NewTopic("rows", PARTITIONS, 1)).raise_for_errors()
        where = pa.array([number % PARTITIONS for number in range(ROWS)], pa.int32())
        table = pa.table({"value": [f"{number:04}" for number in range(ROWS)], "partition": where})
        write_arrow([table], write_options({"bootstrap": started.bootstrap, "topic": "rows"}))
        yield started


def run_torch(python_path: str, program: str, *arguments: str) -> Any:
    """The JSON output of a program; torch's warnings about NumPy are ignored."""
    environment = {
        **os.environ, "PYTHONPATH": python_path, "RAY_AUTH_MODE": "disabled",
        # shorter start and end of the cluster
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2", "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
        "RAY_TRAIN_METRICS_ENABLED": "0",
    }  # fmt: skip
    command = [sys.executable, "-W", "ignore", str(PROGRAMS), program, *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1])
