"""Compares the notes of both systems, and each difference with the known ones in differences.toml."""

import fnmatch
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

ABSENT = "(absent)"
MAX_SHOWN = 300


@dataclass(frozen=True)
class Difference:
    """Different values at `place`: scenario/label/path within the value."""

    place: str
    kafka: Any
    headrace: Any


@dataclass
class Known:
    """A known difference with its reason. `place`, `kafka` and `headrace` are fnmatch patterns."""

    place: str
    reason: str
    kafka: str = "*"
    headrace: str = "*"
    matched: list[Difference] = field(default_factory=list)

    def explains(self, found: Difference) -> bool:
        """Whether the patterns match a difference."""
        return (
            fnmatch.fnmatchcase(found.place, self.place)
            and fnmatch.fnmatchcase(shown(found.kafka), self.kafka)
            and fnmatch.fnmatchcase(shown(found.headrace), self.headrace)
        )


def read_known(text: str) -> list[Known]:
    """The tables `difference` of a TOML text. Errors: TypeError for an entry without place or reason."""
    return [Known(**entry) for entry in tomllib.loads(text).get("difference", [])]


def shown(value: Any) -> str:
    """A value on one line, truncated when it is long."""
    text = value if isinstance(value, str) else repr(value)
    text = text.replace("\n", "\\n")
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def differences(place: str, kafka: Any, headrace: Any) -> Iterator[Difference]:
    """The innermost differences of two values."""
    if isinstance(kafka, dict) and isinstance(headrace, dict):
        for key in [*kafka, *(key for key in headrace if key not in kafka)]:
            yield from differences(f"{place}/{key}", kafka.get(key, ABSENT), headrace.get(key, ABSENT))
    elif isinstance(kafka, list) and isinstance(headrace, list) and len(kafka) == len(headrace):
        for number, (one, other) in enumerate(zip(kafka, headrace, strict=True)):
            yield from differences(f"{place}/{number}", one, other)
    elif type(kafka) is not type(headrace) or kafka != headrace:
        yield Difference(place, kafka, headrace)


def count(value: Any) -> int:
    """The number of leaf values."""
    if isinstance(value, dict):
        return sum(map(count, value.values()))
    return sum(map(count, value)) if isinstance(value, list) else 1


def unexplained(found: list[Difference], known: list[Known]) -> list[Difference]:
    """The differences that no known one matches; `matched` of the known ones is updated."""
    rest = []
    for difference in found:
        reason = next((each for each in known if each.explains(difference)), None)
        if reason is None:
            rest.append(difference)
        else:
            reason.matched.append(difference)
    return rest
