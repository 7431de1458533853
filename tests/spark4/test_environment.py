"""What the environment of these tests has to have."""

import os
from pathlib import Path
from typing import Any

import headrace
import pyspark


def test_environment_has_data_sources() -> None:
    """Data sources in Python with admission control came with 4.2."""
    assert tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)
    assert headrace.local is not None


def test_workers_are_started_by_the_daemon_of_the_session(spark: Any) -> None:
    """It has imported the modules of tasks."""
    context = spark.sparkContext
    parents = context.range(1).map(lambda _: Path(f"/proc/{os.getppid()}/cmdline").read_text()).collect()
    assert "headrace.clients.spark.worker_daemon_io" in parents[0].split("\0")
