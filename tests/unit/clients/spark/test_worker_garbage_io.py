"""What Spark's workers have imported is looked at once, by no collection after that."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import gc
from headrace.clients.spark.worker_garbage_io import freeze_imports
counts = [gc.get_freeze_count()]
for _ in range(2):
    freeze_imports()
    counts.append(gc.get_freeze_count())
    kept = [[] for _ in range(1000)]
print(*counts)
"""


@pytest.mark.parametrize("is_worker", [True, False])
def test_imports_are_frozen_once_in_a_worker_and_nowhere_else(is_worker: bool) -> None:
    """Whatever comes later can be garbage."""
    env = {name: value for name, value in os.environ.items() if name != "SPARK_REUSE_WORKER"}
    env |= {"SPARK_REUSE_WORKER": "1"} if is_worker else {}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
    before, once, again = map(int, ran.stdout.split())
    assert (before, once > 1000, once == again) == (0, is_worker, True)
