"""Durations in ms."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from headrace.stream.dsl.durations import to_ms


def test_durations_are_timedeltas_or_ms() -> None:
    """Both forms."""
    assert to_ms(timedelta(seconds=1.5), "size") == 1500
    assert to_ms(20, "size") == 20
    assert to_ms(-20, "before", signed=True) == -20


@pytest.mark.parametrize(
    ("duration", "error"),
    [(-1, ValueError), (timedelta(microseconds=1), ValueError), (1.5, TypeError), (True, TypeError)],
)
def test_other_durations_are_refused(duration: Any, error: type[Exception]) -> None:
    """The message names the argument."""
    with pytest.raises(error, match="size"):
        to_ms(duration, "size")
