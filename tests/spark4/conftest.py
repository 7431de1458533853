"""Tests of PySpark 4: they run in an environment of their own (`make spark`), nowhere else.

One session and one cluster for all of them, each test with topics of its own.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _is_here() -> bool:
    try:
        return version("pyspark").startswith("4.")
    except PackageNotFoundError:
        return False


collect_ignore_glob = [] if _is_here() else ["test_*.py"]
CONFIGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "OFF",
}
_numbers = count()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A task has three attempts."""
    import os

    import headrace

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with headrace.spark.session(master="local[2,3]", configs=CONFIGS) as session:
        headrace.spark.register(session)
        yield session


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """One node."""
    from headrace import local

    with local(log_retention_ms=-1) as started:  # some records are from long ago
        yield started


@pytest.fixture
def topic(cluster: Any) -> Callable[..., str]:
    """Makes topics: of so many partitions."""
    from headrace import NewTopic

    def make(partitions: int = 2, **configs: Any) -> str:
        name = f"t{next(_numbers)}"
        configs = {"retention.ms": "-1", **configs}  # records have old times
        made = cluster.admin().create_topics(NewTopic(name, partitions, configs=configs))
        made.raise_for_errors()
        return name

    return make
