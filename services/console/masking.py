"""Masked fields of records: rules by topic, applied before a value is shown, searched or downloaded. Pure.

A rule is `TOPIC:PATH`: the topic with * and ?, and `key`, `value`, `headers`, or a member of one of them such
as `value.card.number` or `headers.token`. If a rule names a member of a value that has no members (text,
hex), the whole value is masked: a different choice of format must not reveal it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError
from .decoding import Decoded
from .expressions import is_like

if TYPE_CHECKING:
    from collections.abc import Iterable

MASK = "●●●●"
_ROOTS = ("key", "value", "headers")


@dataclass(frozen=True, slots=True)
class MaskRule:
    """A masked field of the topics that match `topic`."""

    topic: str
    root: str
    path: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.topic}:{'.'.join((self.root, *self.path))}"


def mask_rule(text: str) -> MaskRule:
    """Parse `TOPIC:PATH`. Errors: ConfigError."""
    topic, colon, field = text.strip().rpartition(":")
    root, *path = field.split(".")
    if not colon or not topic or root not in _ROOTS or not all(path):
        raise ConfigError(f"{text!r} is not a mask such as orders-*:value.card.number")
    return MaskRule(topic, root, tuple(path))


def mask_rules(text: str) -> tuple[MaskRule, ...]:
    """The rules of a file: one a line, # begins a comment. Errors: ConfigError."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(mask_rule(line) for line in lines if line)


class Masks:
    """The rules of one topic."""

    def __init__(self, rules: Iterable[MaskRule], topic: str) -> None:
        self.rules = tuple(rule for rule in rules if is_like(topic, rule.topic))

    def applied(self, root: str, decoded: Decoded) -> Decoded:
        """The key or value without its masked fields."""
        paths = [rule.path for rule in self.rules if rule.root == root]
        if not paths or decoded.format == "null":
            return decoded
        if () in paths or not isinstance(decoded.value, (dict, list)):
            return Decoded("masked", MASK)
        value = decoded.value
        for path in paths:
            value = _without(value, path)
        return Decoded(decoded.format, value, decoded.note)

    def hides(self, root: str) -> bool:
        """Whether a rule is about the key, or about the value."""
        return any(rule.root == root for rule in self.rules)

    def hides_header(self, name: str) -> bool:
        """Whether the value of this header is masked."""
        return any(rule.root == "headers" and ".".join(rule.path) in ("", name) for rule in self.rules)


def _without(value: Any, path: tuple[str, ...]) -> Any:
    """A copy with the mask at the path, in each element of lists."""
    if isinstance(value, list):
        return [_without(each, path) for each in value]
    if not isinstance(value, dict):
        return value
    first, rest = path[0], path[1:]
    return {key: (_inner(each, rest) if _name(key) == first else each) for key, each in value.items()}


def _inner(value: Any, rest: tuple[str, ...]) -> Any:
    if not rest or not isinstance(value, (dict, list)):
        return MASK if value is not None else None
    return _without(value, rest)


def _name(key: Any) -> str:
    return (
        key
        if isinstance(key, str)
        else key.decode("utf-8", "replace")
        if isinstance(key, bytes)
        else str(key)
    )
