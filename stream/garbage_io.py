"""Garbage collection of a process that runs an application."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Tuples that caches keep for each write are what most collections of the youngest generation find: with
# Python's default of 700 a count by key takes a quarter more CPU time (`benchmarks/streams/task_cpu.py`).
_YOUNGEST = 50_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect the youngest generation less often, until the end of the context."""
    before = gc.get_threshold()
    if 0 < before[0] < _YOUNGEST:  # 0: the application collects by itself
        gc.set_threshold(_YOUNGEST, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
