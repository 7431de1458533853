"""Tests of PySpark 3.5: they run in an environment of their own (`make spark`), nowhere else."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headrace
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


def _is_here() -> bool:
    try:
        return version("pyspark").startswith("3.5.")
    except PackageNotFoundError:
        return False


HERE = Path(__file__).parent
collect_ignore_glob = [] if _is_here() else ["test_*.py"]

CONFIGS = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # of streams: no copies of checkpoint files, which no test reads
    "spark.sql.streaming.minBatchesToRetain": "2",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One for all tests: its start takes seconds. A task may fail three times before its job does."""
    with headrace.spark.session(master="local[2,4]", configs=CONFIGS) as started:
        started.sparkContext.setLogLevel("OFF")
        yield started


@pytest.fixture(scope="session")
def cluster() -> Iterator[headrace.LocalCluster]:
    """Three nodes that miss each other soon; each test has topics of its own."""
    with headrace.local(nodes=3, broker_session_timeout_ms=3_000) as started:
        started.producer(transactional_id="first").init_transactions()  # its topic has three replicas
        yield started


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves sockets open over which it collects, and asks distutils about versions.

    Other folders' tests are among the items, and keep all warnings.
    """
    for item in (each for each in items if each.path.parent == HERE):
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
        item.add_marker(pytest.mark.filterwarnings("ignore:distutils:DeprecationWarning"))
