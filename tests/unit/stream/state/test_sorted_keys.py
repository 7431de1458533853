"""Sorted keys equal a sorted set."""

from __future__ import annotations

from headrace.stream.state.sorted_keys import SortedKeys
from hypothesis import given
from hypothesis import strategies as st

KEYS = st.binary(max_size=2)
STEPS = st.lists(st.tuples(st.sampled_from(["add", "discard", "between"]), KEYS, KEYS), max_size=60)


@given(STEPS, st.booleans())
def test_equal_to_a_sorted_set(steps: list[tuple[str, bytes, bytes]], inclusive: bool) -> None:
    """Adding, removing, adding again and ranges in any order."""
    keys, expected = SortedKeys(), set[bytes]()
    for step, key, other in steps:
        if step == "add" and key not in expected:
            expected.add(key)
            keys.add(key)
        elif step == "discard" and key in expected:
            expected.discard(key)
            keys.discard(key)
        elif step == "between":
            inside = [
                each
                for each in sorted(expected)
                if key <= each and (each < other or (each == other and inclusive))
            ]
            assert keys.between(key, other, inclusive) == inside
    assert keys.between(None, None) == sorted(expected)
