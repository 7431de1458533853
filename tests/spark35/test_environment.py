"""What the environment of these tests has to have."""

import os
from pathlib import Path
from typing import Any

import headrace
import pyspark
import pytest


def test_environment_has_the_spark_of_raydp() -> None:
    """RayDP 1.6.5 has no shim for a later Spark."""
    assert pyspark.__version__ == "3.5.7"
    assert headrace.local is not None


def test_workers_are_started_by_the_daemon_of_the_session(spark: Any) -> None:
    """It has imported the modules of tasks."""
    context = spark.sparkContext
    parents = context.range(1).map(lambda _: Path(f"/proc/{os.getppid()}/cmdline").read_text()).collect()
    assert "headrace.clients.spark.worker_daemon_io" in parents[0].split("\0")


def test_register_needs_a_later_spark() -> None:
    """The error names the version and the functions to use instead."""
    with pytest.raises(ImportError, match=r"needs PySpark 4\.2 .* headrace\.spark\.read") as caught:
        headrace.spark.register(None)
    assert caught.value.name == "pyspark.sql.datasource"
