"""User code that a client calls."""

from types import SimpleNamespace
from typing import Any

import pytest
from headrace.clients.user_code import call_user, hooks_of


class Both:
    def on_a(self) -> str:
        return "a"

    def on_b(self) -> str:
        return "b"


def test_hooks_are_collected_in_order() -> None:
    """A tuple for each name; missing ones are left out."""
    single = SimpleNamespace(on_b=lambda: "single", on_a=None)
    on_a, on_b = hooks_of([Both(), single], "on_a", "on_b")
    assert [hook() for hook in on_a] == ["a"]
    assert [hook() for hook in on_b] == ["b", "single"]
    assert hooks_of((), "on_a", "on_b") == ((), ())


class Awaited:
    async def on_a(self) -> None: ...


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (Both(), "a list of objects with on_a or on_b"),
        ("text", "a list of objects"),
        ([Both], r"not classes: use Both\(\)"),
        ([object()], "has neither"),
        ([SimpleNamespace(on_a=1, on_b=print)], "on_a of .* plain method"),
        ([Awaited()], "on_a of .* plain method"),
    ],
)
def test_invalid_interceptor_is_an_error_at_construction(bad: Any, why: str) -> None:
    """Not at the first record."""
    with pytest.raises(TypeError, match=why):
        hooks_of(bad, "on_a", "on_b")


def test_exceptions_of_user_code_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Interrupts are raised."""

    def fails(error: BaseException) -> None:
        raise error

    assert call_user(fails, ValueError("why")) is None
    assert "why" in caplog.text
    with pytest.raises(KeyboardInterrupt):
        call_user(fails, KeyboardInterrupt())
