"""What the environment of these tests has to have."""

import os
from pathlib import Path
from typing import Any

import headrace
import pyspark
import pytest


def test_the_environment_is_what_raydp_needs() -> None:
    """RayDP 1.6.5 has no shim for a later Spark."""
    assert pyspark.__version__ == "3.5.7"
    assert headrace.local is not None


def test_workers_are_started_by_our_daemon(spark: Any) -> None:
    """By the one that `session` names: it has imported what tasks need."""
    context = spark.sparkContext
    parents = context.range(1).map(lambda _: Path(f"/proc/{os.getppid()}/cmdline").read_text()).collect()
    assert "headrace.clients.spark.worker_daemon_io" in parents[0].split("\0")


def test_what_needs_a_later_spark_says_so() -> None:
    """Not that some module of Spark is missing, and what there is instead."""
    with pytest.raises(ImportError, match=r"needs PySpark 4\.2 .* headrace\.spark\.read") as caught:
        headrace.spark.register(None)
    assert caught.value.name == "pyspark.sql.datasource"
