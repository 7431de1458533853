"""What the environment of these tests has to have."""

from __future__ import annotations

import headrace
import pyspark


def test_the_environment_is_what_data_sources_need() -> None:
    """Data sources in Python with admission control came with 4.2."""
    assert tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)
    assert headrace.local is not None
