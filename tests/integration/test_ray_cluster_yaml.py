"""ray_cluster.yaml is what `ray up` accepts, in Ray's own words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECK = """
import sys, yaml
from ray.autoscaler._private.util import prepare_config, validate_config
config = prepare_config(yaml.safe_load(open(sys.argv[1])))
validate_config(config)
print(config["cluster_name"], *config["head_start_ray_commands"][1].split())
"""


@pytest.mark.ray
def test_ray_accepts_the_file() -> None:
    """Ray's validator passes, and the head keeps its GCS on disk."""
    command = [sys.executable, "-W", "ignore", "-c", CHECK, str(ROOT / "ray_cluster.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    assert words[0] == "headrace"
    assert "RAY_gcs_storage=rocksdb" in words
