"""Random input of a case: out of order, repeated, late, with tombstones, equal timestamps and jumps."""

from __future__ import annotations

import random
import struct
from typing import Any

STRING_KEYS = ("a", "b", "c", "d")
LONG_KEYS = (0, 1, 2, 3)
STRINGS = ("a", "b", "bc", "ax", "abc", "", "x", "ba", "d", "ca")
FIRST_TIMESTAMP = 1_000


def encoded(kind: str, value: str | int | None) -> str | None:
    """A value of type string or long as Kafka's serializers write it, in hex."""
    if value is None:
        return None
    return struct.pack(">q", value).hex() if kind == "long" else str(value).encode().hex()


class Clock:
    """Timestamps that mostly advance by a little."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._now = FIRST_TIMESTAMP

    def next(self) -> int:
        """The timestamp of the next record, in ms."""
        kind = self._rng.random()
        if kind < 0.12:  # equal
            return self._now
        if kind < 0.30:  # out of order
            return max(0, self._now - self._rng.randint(1, 120))
        if kind < 0.36:  # late
            return max(0, self._now - self._rng.randint(120, 2_000))
        if kind < 0.40:  # windows close
            self._now += self._rng.randint(200, 600)
        elif kind < 0.415:  # segments of stores expire
            self._now += self._rng.randint(60_000, 400_000)
        elif kind < 0.42:  # the default retention of a day ends
            self._now += self._rng.randint(80_000_000, 180_000_000)
        else:
            self._now += self._rng.randint(0, 45)
        if self._rng.random() < 0.15:  # the bounds of windows
            self._now += -self._now % 50
        return self._now


def _record(rng: random.Random, topic: str, types: tuple[str, str], timestamp: int) -> dict[str, Any]:
    key_type, value_type = types
    key = rng.choice(LONG_KEYS if key_type == "long" else STRING_KEYS)
    value = rng.randint(-4, 12) if value_type == "long" else rng.choice(STRINGS)
    record: dict[str, Any] = {
        "topic": topic,
        "key": None if rng.random() < 0.05 else encoded(key_type, key),
        "value": None if rng.random() < 0.12 else encoded(value_type, value),
        "timestamp": timestamp,
    }
    if rng.random() < 0.12:
        record["headers"] = [["h", rng.choice(("00", "6162", None))] for _ in range(rng.randint(1, 2))]
    return record


def events(rng: random.Random, types: dict[str, tuple[str, str]], *, hostile: bool) -> list[dict[str, Any]]:
    """Input for the topics (name -> types of key and value)."""
    clock = Clock(rng)
    names = sorted(types)
    made: list[dict[str, Any]] = []
    for _ in range(rng.randint(8, 12 + 10 * len(names))):
        if rng.random() < 0.06:
            made.append({"advance_ms": rng.choice((10, 50, 100, 250, 1_000))})
            continue
        if made and rng.random() < 0.06 and "topic" in made[-1]:
            made.append(dict(made[-1]))
            continue
        topic = rng.choice(names)
        record = _record(rng, topic, types[topic], clock.next())
        if hostile and rng.random() < 0.1:
            record[rng.choice(("key", "value"))] = "616263"
        made.append(record)
    return made
