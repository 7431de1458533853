"""Suggestions for misspelled names. Pure."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """The nearest of `known`, or empty."""
    by_lower = {each.lower(): each for each in sorted(known)}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=1)
    return by_lower[near[0]] if near else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A message suffix: "; did you mean 'orders'?" with the nearest of `known`, or empty."""
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""
