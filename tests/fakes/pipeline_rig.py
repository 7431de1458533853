"""A cluster per test file, and an exception for a killed driver, for tests of pipelines."""

import contextlib
from collections.abc import Iterator
from typing import Any

from headrace import LocalCluster, local
from headrace.clients.pipeline.pool_io import close_idle


class Killed(Exception):
    """Stands for the death of the driver process."""


@contextlib.contextmanager
def pipeline_cluster(**config: Any) -> Iterator[LocalCluster]:
    """The cluster of a file's tests, each with separate topics; at the end no connection may be in use."""
    with local(**config) as started:
        yield started
        assert close_idle() == 0
