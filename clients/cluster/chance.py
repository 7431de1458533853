"""The part of random.Random that cores need; shells pass a generator in, tests a seeded one."""

from __future__ import annotations

from typing import Any, Protocol


class Chance(Protocol):
    """A source of randomness."""

    def uniform(self, a: float, b: float) -> float:
        """A number between `a` and `b`."""

    def randrange(self, start: int) -> int:
        """A whole number from 0 to `start` - 1."""

    def shuffle(self, x: Any) -> None:
        """Bring a list into random order, in place."""
