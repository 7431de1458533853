"""The pytest fixture `headrace_cluster`: a fresh one-node cluster in the test's own process.

pytest loads this module in every run where headrace is installed, so nothing is imported until a test
asks for the fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .local_io import LocalCluster


@pytest.fixture
def headrace_cluster() -> Iterator[LocalCluster]:
    """A running cluster with one storage node; its files go with it. See `headrace.local`."""
    from .local_io import local

    with local() as cluster:
        yield cluster
