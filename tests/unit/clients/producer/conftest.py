"""A transactional producer of a fake cluster."""

from typing import Any

import pytest


@pytest.fixture
def producer(fake: Any, cluster: Any) -> Any:
    """Its transactional id is `me`; topic `t` has two partitions."""
    fake.create("t", 2)
    return cluster.producer(transactional_id="me", linger_ms=0)
