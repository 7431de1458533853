"""The random generator of sans-IO cores: `random.Random` in tests, `random.SystemRandom` in production."""

from __future__ import annotations

from typing import Any, Protocol


class RandomSource(Protocol):
    """The methods of `random.Random` that cores use."""

    def uniform(self, a: float, b: float, /) -> float:
        """A number between `a` and `b`."""

    def randrange(self, stop: int, /) -> int:
        """An integer from 0 to `stop` - 1."""

    def randbytes(self, n: int, /) -> bytes:
        """`n` random bytes."""

    def shuffle(self, x: Any, /) -> None:
        """Shuffle a list in place."""
