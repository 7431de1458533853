"""Rate limit of repeated log messages: the first of a kind is logged, the others are counted. Pure.

A peer can trigger a warning arbitrarily often; the log gets one line of it per interval, with the number of
suppressed ones.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

INTERVAL_MS = 10_000
# Bound: tracked kinds, about 200 bytes each; above it, the one that was logged longest ago is dropped.
MAX_KEYS = 1_000


class Repeats(NamedTuple):
    """The suppressed messages of the kind `key` in `elapsed_ms`."""

    key: str
    suppressed: int
    elapsed_ms: int

    def __str__(self) -> str:
        return f"repeated {self.suppressed:,} times in the last {self.elapsed_ms / 1000:.0f} s"


@dataclass(slots=True)
class _Kind:
    logged_ms: int
    suppressed: int = 0


class RepeatedMessages:
    """The message kinds of one server or client.

    Invariant: `_kinds` is ordered by `logged_ms`; every suppressed message is counted in one result of
    `admit` or of `take_ended`.
    """

    def __init__(self, interval_ms: int = INTERVAL_MS, max_keys: int = MAX_KEYS) -> None:
        assert max_keys > 0, "at least one kind is remembered"
        self._interval_ms, self._max_keys = interval_ms, max_keys
        self._kinds: OrderedDict[str, _Kind] = OrderedDict()
        self._ended: list[Repeats] = []

    def __len__(self) -> int:
        return len(self._kinds)

    def admit(self, key: str, now_ms: int) -> Repeats | None:
        """Whether to log a message of this kind now: if so, the messages suppressed since the last one; None
        to suppress it."""
        kind = self._kinds.get(key)
        if kind is not None and now_ms - kind.logged_ms < self._interval_ms:
            kind.suppressed += 1
            return None
        repeats = Repeats(key, 0, 0) if kind is None else _repeats_of(key, kind, now_ms)
        self._kinds[key] = _Kind(now_ms)
        self._kinds.move_to_end(key)
        if len(self._kinds) > self._max_keys:
            self._end(now_ms)
        return repeats

    def take_ended(self, now_ms: int) -> list[Repeats]:
        """Kinds with suppressed messages whose interval has passed; each is returned once and dropped."""
        while self._kinds and now_ms - next(iter(self._kinds.values())).logged_ms >= self._interval_ms:
            self._end(now_ms)
        ended, self._ended = self._ended, []
        return ended

    def _end(self, now_ms: int) -> None:
        key, kind = self._kinds.popitem(last=False)
        if kind.suppressed:
            self._ended.append(_repeats_of(key, kind, now_ms))


def _repeats_of(key: str, kind: _Kind, now_ms: int) -> Repeats:
    return Repeats(key, kind.suppressed, now_ms - kind.logged_ms)
