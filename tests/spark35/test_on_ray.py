"""Spark on Ray, by RayDP."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from spark_topics import create, fill, stored

PROGRAM = Path(__file__).parent / "on_ray.py"
# Ray gives its own processes 30 s, which are too few on a busy machine, and cannot be changed.
TOO_SLOW = "timed out during startup"
STARTS = 8


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program, once more while its Ray did not start."""
    for _ in range(STARTS):
        # not pytest's: Ray's sockets are in it, whose paths may have 107 characters
        with tempfile.TemporaryDirectory(prefix="hr-", ignore_cleanup_errors=True) as folder:
            command = [sys.executable, str(PROGRAM), *arguments, folder]
            done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
        if TOO_SLOW not in done.stderr:
            break
    return done


def test_topic_through_spark_on_ray_and_a_dataset(cluster: Any) -> None:
    """Executors run on the given node; an unknown node is refused by its name."""
    create(cluster, "ray", "ray-copy")
    fill(cluster, "ray", range(1000))
    done = run(cluster.bootstrap, "ray")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("refused").startswith("Ray has no node at 192.0.2.1; its nodes are ")
    found.pop("here")
    assert found == {"rows": 1000, "written": 1000, "dataset": 1000, "sum": sum(range(1000))}
    assert stored(cluster, "ray-copy") == list(range(1000))
