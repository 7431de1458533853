"""Asking again and again."""

from __future__ import annotations

from headrace.runtime.waiting_io import until


def test_what_holds_is_not_asked_again() -> None:
    """Nor is there a wait, even without any time left."""
    asked = []
    assert until(lambda: asked.append(1) is None, 0)
    assert asked == [1]


def test_it_is_asked_until_it_holds() -> None:
    """As often as it takes."""
    answers = iter((False, False, True, False))
    assert until(lambda: next(answers), 60, 0)
    assert next(answers) is False


def test_when_the_time_is_over_it_is_told() -> None:
    """After one try at least."""
    asked = []
    assert not until(lambda: asked.append(1) is not None, 0)
    assert asked == [1]
