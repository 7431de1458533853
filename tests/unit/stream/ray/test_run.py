"""The errors of workers, as people read them."""

from headrace.stream.ray.run import describe_error


def test_error_with_its_causes() -> None:
    """On one line."""
    error = ValueError("two\n  lines")
    error.__cause__ = KeyError("key")
    error.__cause__.__cause__ = RuntimeError()
    assert (
        describe_error(error) == "ValueError: two lines; because of KeyError: 'key'; because of RuntimeError"
    )


def test_causes_in_a_circle() -> None:
    """Each is named once."""
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert describe_error(one) == "ValueError: one; because of ValueError: other"
