"""The cluster of the tests of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from headrace.services.local_io import LocalCluster, local

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One node; each test has topics and an application of its own."""
    with local(
        group_streams_heartbeat_interval_ms=500,
        group_streams_session_timeout_ms=6000,
        group_streams_assignment_interval_ms=0,
        offsets_topic_num_partitions=3,
        transaction_state_log_num_partitions=3,
    ) as running:
        yield running
