"""Keys of a commit, in order and in parts."""

from __future__ import annotations

import random

import pytest
from headrace.stream.state.key_ranges import in_order


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100, 5000])
@pytest.mark.parametrize("prefix", [0, 6])
def test_all_keys_are_in_order(count: int, prefix: int) -> None:
    """Also those that begin in the same way."""
    generator = random.Random(count)
    keys = {bytes(prefix) + generator.randbytes(3): None for _ in range(count)}
    parts = list(in_order(keys, 8))
    assert [key for part in parts for key in part] == sorted(keys)
    assert max(map(len, parts)) <= 8 * 8


def test_few_keys_are_one_part() -> None:
    assert list(in_order([b"b", b"a"], 8)) == [[b"a", b"b"]]
