"""Strategies for input of stream applications."""

from __future__ import annotations

from headrace.stream.testing.strategies import Records, out_of_order
from hypothesis import given
from hypothesis import strategies as st


@given(out_of_order(st.just("k"), st.integers(), start_ms=100, max_step_ms=5, max_lateness_ms=3))
def test_records_are_late_by_the_given_bound_at_most(records: Records) -> None:
    """Behind the highest timestamp before them."""
    highest = 0
    for key, value, timestamp in records:
        assert (key, type(value)) == ("k", int)
        assert timestamp >= highest - 3
        highest = max(highest, timestamp)


@given(out_of_order(st.just("k"), st.integers()))
def test_records_are_in_order_by_default(records: Records) -> None:
    """Equal timestamps occur."""
    assert [record[2] for record in records] == sorted(record[2] for record in records)


def test_tombstones_occur() -> None:
    """Where they are asked for."""
    seen = []

    @given(out_of_order(st.just("k"), st.just(1), tombstones=True))
    def collect(records: Records) -> None:
        seen.extend(value for _, value, _ in records)

    collect()
    assert set(seen) == {1, None}
