"""Asking again and again."""

from headrace.runtime.waiting_io import until


def test_true_condition_is_checked_once() -> None:
    """Without a wait, even with no time left."""
    asked = []
    assert until(lambda: asked.append(1) is None, 0)
    assert asked == [1]


def test_condition_is_checked_until_true() -> None:
    answers = iter((False, False, True, False))
    assert until(lambda: next(answers), 60, 0)
    assert next(answers) is False


def test_expired_wait_returns_false() -> None:
    """After at least one check."""
    asked = []
    assert not until(lambda: asked.append(1) is not None, 0)
    assert asked == [1]
