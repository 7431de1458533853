"""The modules that Spark's workers import are frozen: later collections skip them."""

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
def test_imports_are_frozen_once_and_in_workers_only(is_worker: bool) -> None:
    """Objects made later can be collected."""
    env = {name: value for name, value in os.environ.items() if name != "SPARK_REUSE_WORKER"}
    env |= {"SPARK_REUSE_WORKER": "1"} if is_worker else {}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
    before, once, again = map(int, ran.stdout.split())
    assert (before, once > 1000, once == again) == (0, is_worker, True)
