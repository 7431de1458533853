"""For tests of pipelines: a cluster for a file, and the exception of a killed driver."""

import contextlib
from collections.abc import Iterator
from typing import Any

from headrace import LocalCluster, local
from headrace.clients.pipeline.pool_io import close_idle


class Killed(Exception):
    """The driver dies here."""


@contextlib.contextmanager
def pipeline_cluster(**config: Any) -> Iterator[LocalCluster]:
    """For all tests of a file, each with topics of its own; at the end no connection to it is in use."""
    with local(**config) as started:
        yield started
        assert close_idle() == 0
