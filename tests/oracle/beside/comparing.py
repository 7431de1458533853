"""Two lists of notes against each other, and each difference against those that are known and explained."""

from __future__ import annotations

import fnmatch
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ABSENT = "(absent)"
MAX_SHOWN = 300


@dataclass(frozen=True)
class Difference:
    """What the systems did not have in common, at `place`: scenario, label, and the way into the value."""

    place: str
    kafka: Any
    headrace: Any


@dataclass
class Known:
    """A difference with its reason. `place` is a pattern of fnmatch; `kafka` and `headrace`, where they are
    given, are patterns of the values."""

    place: str
    reason: str
    kafka: str = "*"
    headrace: str = "*"
    matched: list[Difference] = field(default_factory=list)

    def explains(self, found: Difference) -> bool:
        """Whether this is the difference that was meant."""
        return (
            fnmatch.fnmatchcase(found.place, self.place)
            and fnmatch.fnmatchcase(shown(found.kafka), self.kafka)
            and fnmatch.fnmatchcase(shown(found.headrace), self.headrace)
        )


def read_known(text: str) -> list[Known]:
    """From TOML: tables `difference`. Errors: TypeError for an entry without place or reason."""
    return [Known(**entry) for entry in tomllib.loads(text).get("difference", [])]


def shown(value: Any) -> str:
    """A value on one line, cut when it is long."""
    text = value if isinstance(value, str) else repr(value)
    text = text.replace("\n", "\\n")
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def differences(place: str, kafka: Any, headrace: Any) -> Iterator[Difference]:
    """Where two values differ, as deep inside as they can be told apart."""
    if isinstance(kafka, dict) and isinstance(headrace, dict):
        for key in [*kafka, *(key for key in headrace if key not in kafka)]:
            yield from differences(f"{place}/{key}", kafka.get(key, ABSENT), headrace.get(key, ABSENT))
    elif isinstance(kafka, list) and isinstance(headrace, list) and len(kafka) == len(headrace):
        for number, (one, other) in enumerate(zip(kafka, headrace, strict=True)):
            yield from differences(f"{place}/{number}", one, other)
    elif type(kafka) is not type(headrace) or kafka != headrace:
        yield Difference(place, kafka, headrace)


def count(value: Any) -> int:
    """How many values there are to compare."""
    if isinstance(value, dict):
        return sum(map(count, value.values()))
    return sum(map(count, value)) if isinstance(value, list) else 1


def unexplained(found: list[Difference], known: list[Known]) -> list[Difference]:
    """Those with no reason; each known one remembers what it explained."""
    left = []
    for difference in found:
        reasons = [each for each in known if each.explains(difference)]
        for reason in reasons[:1]:
            reason.matched.append(difference)
        if not reasons:
            left.append(difference)
    return left
