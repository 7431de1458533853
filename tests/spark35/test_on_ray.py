"""Spark on Ray, by RayDP."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from spark_topics import create, fill, stored

PROGRAM = Path(__file__).parent / "on_ray.py"


def test_topic_through_spark_on_ray_and_a_dataset(cluster: Any) -> None:
    """Executors run on the given node; an unknown node is refused by its name."""
    create(cluster, "ray", "ray-copy")
    fill(cluster, "ray", range(1000))
    # not pytest's: Ray's sockets are in it, whose paths may have 107 characters
    with tempfile.TemporaryDirectory(prefix="hr-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, str(PROGRAM), cluster.bootstrap, "ray", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("refused").startswith("Ray has no node at 192.0.2.1; its nodes are ")
    found.pop("here")
    assert found == {"rows": 1000, "written": 1000, "dataset": 1000, "sum": sum(range(1000))}
    assert stored(cluster, "ray-copy") == list(range(1000))
