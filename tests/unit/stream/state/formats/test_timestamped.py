"""Values with timestamps."""

from headrace.stream.state.formats.timestamped import is_same_value_and_newer, timestamp_of


def test_put_is_skipped_only_for_an_equal_value_with_a_later_timestamp() -> None:
    """An equal value with an earlier timestamp changes the store."""
    old, same_later = (5).to_bytes(8, "big") + b"v", (6).to_bytes(8, "big") + b"v"
    assert is_same_value_and_newer(old, same_later)
    assert not is_same_value_and_newer(same_later, old)
    assert not is_same_value_and_newer(old, (6).to_bytes(8, "big") + b"w")
    assert not is_same_value_and_newer(None, old)
    assert is_same_value_and_newer(None, None)
    assert timestamp_of(same_later) == 6
