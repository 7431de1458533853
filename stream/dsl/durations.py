"""Durations of windows, grace periods and retention."""

from __future__ import annotations

from datetime import timedelta

Duration = int | timedelta
"""A timedelta, or an int in ms."""


def to_ms(duration: Duration, what: str, *, signed: bool = False) -> int:
    """Errors: TypeError for another type, ValueError for a fraction of a ms or, unless `signed`, a negative
    duration."""
    if isinstance(duration, timedelta):
        ms, rest = divmod(duration, timedelta(milliseconds=1))
        if rest:
            raise ValueError(f"{what} must be a whole number of milliseconds, not {duration}")
    else:
        ms = _int_ms(duration, what)
    if ms < 0 and not signed:
        raise ValueError(f"{what} must not be negative, not {ms} ms")
    return ms


def _int_ms(duration: object, what: str) -> int:
    if not isinstance(duration, int) or isinstance(duration, bool):
        raise TypeError(f"{what} must be a timedelta, or an int in ms, not {duration!r}")
    return duration
