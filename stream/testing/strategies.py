"""Hypothesis strategies for input of stream applications. They need the package hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Records = list[tuple[Any, Any, int]]
"""Key, value and timestamp in ms of each record, in the order of arrival."""


def out_of_order(
    keys: st.SearchStrategy[Any],
    values: st.SearchStrategy[Any],
    *,
    max_size: int = 30,
    start_ms: int = 0,
    max_step_ms: int = 10,
    max_lateness_ms: int = 0,
    tombstones: bool = False,
) -> st.SearchStrategy[Records]:
    """Records whose clock advances by up to `max_step_ms`; each may be up to `max_lateness_ms` older than it.

    Steps of 0 give equal timestamps. With `tombstones` a value may be None.
    """
    one = st.tuples(
        keys,
        st.none() | values if tombstones else values,
        st.integers(0, max_step_ms),
        st.integers(0, max_lateness_ms),
    )

    def timed(drawn: list[tuple[Any, Any, int, int]]) -> Records:
        clock = start_ms
        records = []
        for key, value, step, lateness in drawn:
            clock += step
            records.append((key, value, max(0, clock - lateness)))
        return records

    return st.lists(one, max_size=max_size).map(timed)
