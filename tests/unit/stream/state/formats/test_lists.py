"""Lists of values; tests/golden has Java's bytes."""

import pytest
from headrace.stream.state.formats.lists import list_bytes, list_from


def test_nulls_and_other_strategies() -> None:
    """None is kept; lists of constant-size elements are refused."""
    assert list_from(list_bytes([None, b"a"])) == [None, b"a"]
    with pytest.raises(ValueError, match="strategy 1, not 0"):
        list_from(b"\x00\x00\x00\x00\x00")
