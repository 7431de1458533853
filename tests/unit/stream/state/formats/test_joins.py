"""Records that wait for a match; tests/golden has Java's bytes."""

from headrace.clients.serdes import int64, utf8
from headrace.stream.state.formats.joins import LeftOrRightValue, left_or_right_value


def test_a_left_value_wins() -> None:
    """As in Java, a value with both sides is written as a left one."""
    serde = left_or_right_value(utf8, int64)
    assert serde.loads(serde.dumps(LeftOrRightValue("left", 1))) == LeftOrRightValue("left", None)
