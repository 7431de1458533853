"""Exponential backoff with jitter, so that many clients do not retry at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...runtime.random_source import RandomSource

JITTER = 0.2  # Source: Kafka ExponentialBackoff in CommonClientConfigs


class Backoff:
    """Waits that double from `base_ms` to `max_ms`, each 20 % shorter or longer by chance."""

    def __init__(self, base_ms: int, max_ms: int, random: RandomSource) -> None:
        self._base_ms, self._max_ms, self._random = base_ms, max(base_ms, max_ms), random

    def wait_ms(self, failures: int) -> int:
        """The wait after the `failures`-th failure in a row (1 is the first)."""
        assert failures > 0, failures
        # Bound: 2**32 times any base exceeds any maximum; larger exponents only cost time.
        wait = min(self._base_ms << min(failures - 1, 32), self._max_ms)
        return min(round(wait * self._random.uniform(1 - JITTER, 1 + JITTER)), self._max_ms)
