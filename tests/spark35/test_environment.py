"""What the environment of these tests has to have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import headrace
import pyspark


def test_the_environment_is_what_raydp_needs() -> None:
    """RayDP 1.6.5 has no shim for a later Spark."""
    assert pyspark.__version__ == "3.5.7"
    assert headrace.local is not None


def test_workers_are_started_by_our_daemon(spark: Any) -> None:
    """By the one that `session` names: it has imported what tasks need."""
    context = spark.sparkContext
    parents = context.range(1).map(lambda _: Path(f"/proc/{os.getppid()}/cmdline").read_text()).collect()
    assert "headrace.clients.spark.worker_daemon_io" in parents[0].split("\0")
