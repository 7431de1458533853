"""ray_cluster.yaml is what `ray up` accepts; tests/faults/test_ray_up.py runs it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "ray_cluster.yaml"
# What `ray up` does with the file before it connects to a machine.
CHECK = """
import json, sys, yaml
from ray.autoscaler._private.util import prepare_config, validate_config
config = prepare_config(yaml.safe_load(open(sys.argv[1])))
validate_config(config)
print(json.dumps(config))
"""


def prepared(file: Path) -> Any:
    """The configuration that Ray's autoscaler gets. Fails when Ray refuses it."""
    command = [sys.executable, "-W", "ignore", "-c", CHECK, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.ray
def test_ray_accepts_the_file_and_connects_every_worker() -> None:
    """Ray's validator passes, and its autoscaler keeps as many workers as there are addresses."""
    config = prepared(FILE)
    workers = len(config["provider"]["worker_ips"])
    (node_type,) = config["available_node_types"].values()
    assert workers == 2
    assert (node_type["min_workers"], node_type["max_workers"], config["max_workers"]) == (2, 2, 2)
    start = config["head_start_ray_commands"][1].split()
    assert "RAY_gcs_storage=rocksdb" in start
    assert "RAY_enable_autoscaler_v2=0" in start
    for commands in (config["head_start_ray_commands"], config["worker_start_ray_commands"]):
        assert "RAY_worker_niceness=0" in commands[1].split(), "servers have the usual priority"
