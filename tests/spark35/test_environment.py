"""What the environment of these tests has to have."""

from __future__ import annotations

import headrace
import pyspark


def test_the_environment_is_what_raydp_needs() -> None:
    """RayDP 1.6.5 has no shim for a later Spark."""
    assert pyspark.__version__ == "3.5.7"
    assert headrace.local is not None
