"""Values of options of Apache Kafka's tools in the form that headrace has. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# Of kafka-console-consumer's print.*, in its order: token of `headrace consume -f`, printed by default.
_PRINTED = {
    "timestamp": ("CreateTime:%T", False),
    "partition": ("Partition:%p", False),
    "offset": ("Offset:%o", False),
    "headers": ("%h", False),
    "key": ("%k", False),
    "value": ("%s", True),
}
_SUBSCRIPTION = {"metrics": "--metrics", "interval.ms": "--interval", "match": "--match"}


def forms_of(name: str, values: Sequence[str | None], read: Callable[[str], str]) -> list[str]:
    """All values of an option in the form `name`; `read` gives the text of a file. Errors: ValueError,
    KeyError for a value without an equivalent; those of `read`."""
    if name == "codec":
        return [value or "gzip" for value in values]  # Kafka's default of an option without a value
    given = [value for value in values if value is not None]
    if name == "topics":
        return [each["topic"] for value in given for each in json.loads(read(value))["topics"]]
    if name in _OF_ALL:
        return _OF_ALL[name](given)
    return [form for value in given for form in _OF_ONE[name](value)]


def pairs_of(text: str) -> list[tuple[str, str]]:
    """`a=1,b=[2,3]` of --add-config; commas in brackets are parts of the value. Errors: ValueError."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    found = []
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{part!r} is not key=value")
        found.append((key.strip(), value.strip().removeprefix("[").removesuffix("]")))
    return found


def _places(values: Iterable[str]) -> list[str]:
    """`T:0,T:1-2` as `T:0,1-2`."""
    topics: dict[str, list[str]] = {}
    for each in (part for value in values for part in value.split(",") if part):
        topic, _, numbers = each.partition(":")
        topics.setdefault(topic, []).append(numbers)
    return [
        f"{topic}:{','.join(numbers)}" if all(numbers) else topic
        for topic, numbers in topics.items()
        if topic
    ]


def _reader(values: Iterable[str]) -> list[str]:
    """Properties of the line reader of kafka-console-producer. Errors: ValueError."""
    given = dict(pair for value in values for pair in pairs_of(value))
    separator = given.pop("key.separator", "\\t")
    is_keyed = given.pop("parse.key", "false") == "true"
    _refuse(given)
    return ["-K", separator] if is_keyed else []


def _formatter(values: Iterable[str]) -> list[str]:
    """Properties of the formatter of kafka-console-consumer. Errors: ValueError."""
    given = dict(pair for value in values for pair in pairs_of(value))
    separator, end = given.pop("key.separator", "\\t"), given.pop("line.separator", "\\n")
    printed = [
        token
        for name, (token, is_default) in _PRINTED.items()
        if given.pop(f"print.{name}", str(is_default).lower()) == "true"
    ]
    _refuse(given)
    if printed == ["%s"] and end == "\\n":
        return []
    return ["-f", separator.join(printed) + end]


def _refuse(given: dict[str, str]) -> None:
    if given:
        raise ValueError(f"{min(given)} has no equivalent")


def _feature(text: str) -> list[str]:
    name, equals, level = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not feature=level")
    return [name, level]


def _one_feature(values: Sequence[str]) -> list[str]:
    if len(values) != 1:
        raise ValueError("one feature per command")
    return _feature(values[0])


def _pattern(text: str) -> list[str]:
    if text.lower() not in ("literal", "prefixed", "match"):
        raise ValueError(f"{text} has no equivalent; literal, prefixed and match have one")
    return ["--prefixed"] if text.lower() == "prefixed" else []


_OF_ALL: dict[str, Callable[[Sequence[str]], list[str]]] = {
    "places": _places,
    "reader": _reader,
    "formatter": _formatter,
    "feature": _one_feature,
}
_OF_ONE: dict[str, Callable[[str], list[str]]] = {
    "": lambda text: [text],
    "each": lambda text: [part for part in text.split(",") if part],
    "pairs": lambda text: [f"{key}={value}" for key, value in pairs_of(text)],
    "mechanism": lambda text: [word for key, _ in pairs_of(text) for word in ("--mechanism", key)],
    "subscription": lambda text: [
        word for key, value in pairs_of(text) for word in (_SUBSCRIPTION[key], value)
    ],
    "offset": lambda text: [{"earliest": "beginning", "latest": "end"}.get(text, text)],
    "seconds": lambda text: [f"{int(text) / 1000:g}"],
    "duration": lambda text: [f"PT{int(text) / 1000:g}S"],
    "throughput": lambda text: [] if float(text) < 0 else ["--throughput", text],
    "disabled": lambda text: [text, "0"],
    "pattern": _pattern,
}
