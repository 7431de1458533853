"""Tests of stream/garbage_io.py."""

from __future__ import annotations

import gc

import pytest
from headrace.stream.garbage_io import rare_collections


@pytest.mark.parametrize(("before", "inside"), [(700, 50_000), (0, 0), (100_000, 100_000)])
def test_collections_are_rarer_while_an_application_runs(before: int, inside: int) -> None:
    """Unless the program has set a higher threshold, or collects by itself."""
    found = gc.get_threshold()
    gc.set_threshold(before, *found[1:])
    try:
        with rare_collections():
            assert gc.get_threshold()[0] == inside
        assert gc.get_threshold()[0] == before
    finally:
        gc.set_threshold(*found)
