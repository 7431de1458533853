"""Spark on Ray, by RayDP."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_topics import create, fill, stored

if TYPE_CHECKING:
    import pytest

PROGRAM = Path(__file__).parent / "on_ray.py"


def test_a_topic_goes_through_spark_on_ray_and_a_dataset_and_back(
    cluster: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Executors are on the node that was asked for; one that Ray does not have is refused by its name."""
    create(cluster, "ray", "ray-copy")
    fill(cluster, "ray", range(1000))
    done = subprocess.run(
        [sys.executable, str(PROGRAM), cluster.bootstrap, "ray", str(tmp_path_factory.mktemp("r"))],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("refused").startswith("Ray has no node at 192.0.2.1; there are ")
    found.pop("here")
    assert found == {"rows": 1000, "written": 1000, "dataset": 1000, "sum": sum(range(1000))}
    assert stored(cluster, "ray-copy") == list(range(1000))
