"""The functions that a case may name, of values of any type and None; java/Functions.java has the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.stream.records import Windowed

LONGEST = 40


class AskedToFailError(RuntimeError):
    """What a function raises that a case makes fail."""


def text(value: Any) -> str:
    """A value as Java's String.valueOf gives it."""
    if isinstance(value, Windowed):
        return f"[{text(value.key)}@{value.window.start}/{value.window.end}]"
    return "null" if value is None else str(value)


def headers_text(headers: Any) -> str:
    shown = (f"{name}={'null' if value is None else value.hex()}" for name, value in headers)
    return f"[{', '.join(shown)}]"


def number(value: Any) -> int:
    """A number for any value: 0 for None, the sum of the characters of a string."""
    if value is None:
        return 0
    if isinstance(value, Windowed):
        return number(value.key) + value.window.start
    return value if isinstance(value, int) else sum(map(ord, value))


def _is_odd(value: Any) -> bool:
    return number(value) % 2 == 1


def _tail(long: str) -> str:
    return long[-LONGEST:]


def _joined(left: Any, between: str, right: Any) -> str:
    return _tail(("" if left is None else text(left)) + between + text(right))


def _fail(_key: Any, _value: Any) -> Any:
    raise AskedToFailError


def _fail_on_x(_key: Any, value: Any) -> Any:
    if "x" in text(value):
        raise AskedToFailError
    return value


def _first(_key: Any, value: Any) -> str | None:
    return None if value is None or not text(value) else text(value)[0]


# of key and value
VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "same": lambda _, value: value,
    "upper": lambda _, value: text(value).upper(),
    "exclaim": lambda _, value: _tail(text(value) + "!"),
    "text": lambda _, value: text(value),
    "labelled": lambda key, value: _tail(f"{text(key)}:{text(value)}"),
    "length": lambda _, value: len(text(value)),
    "number": lambda _, value: number(value),
    "double": lambda _, value: number(value) * 2 % 1_000_003,
    "vanish": lambda _, value: None if _is_odd(value) else value,
    "fail": _fail,
    "fail_on_x": _fail_on_x,
}
KEYS: dict[str, Callable[[Any, Any], Any]] = {
    "same": lambda key, _: key,
    "first": _first,
    "text": lambda key, _: text(key),
    "value_text": lambda _, value: text(value),
    "vanish": lambda key, value: None if _is_odd(value) else text(key),
    "length": lambda _, value: len(text(value)),
    "bucket": lambda _, value: number(value) % 3,
}
PREDICATES: dict[str, Callable[[Any, Any], bool]] = {
    "all": lambda *_: True,
    "none": lambda *_: False,
    "even": lambda _, value: not _is_odd(value),
    "odd_key": lambda key, _: _is_odd(key),
    "has_a": lambda _, value: "a" in text(value),
    "present": lambda _, value: value is not None,
    "keyed": lambda key, _: key is not None,
}
INITIAL = {"zero": 0, "empty": "", "nothing": None}
# of key, value and aggregate
AGGREGATORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda _, value, aggregate: number(aggregate) + number(value),
    "minus": lambda _, value, aggregate: number(aggregate) - number(value),
    "concat": lambda _, value, aggregate: _joined(aggregate, "", value),
    "strike": lambda _, value, aggregate: _joined(aggregate, "-", value),
    "labelled": lambda key, value, aggregate: _joined(aggregate, text(key) + "=", value),
    "vanish": lambda _, value, aggregate: None if number(value) % 3 == 0 else _joined(aggregate, "", value),
}
REDUCERS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda left, right: number(left) + number(right),
    "minus": lambda left, right: number(left) - number(right),
    "concat": lambda left, right: _joined(left, "", right),
    "strike": lambda left, right: _joined(left, "-", right),
    "last": lambda _, right: right,
    "vanish": lambda left, right: None if (number(left) + number(right)) % 3 == 0 else right,
}
# of key and the aggregates of two sessions
MERGERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda _, left, right: number(left) + number(right),
    "concat": lambda _, left, right: _joined(left, "|", right),
}


def _pair(left: Any, right: Any) -> str:
    return _tail(f"{text(left)}+{text(right)}")


# of key and both values
JOINERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "pair": lambda _, left, right: _pair(left, right),
    "sum": lambda _, left, right: number(left) + number(right),
    "labelled": lambda key, left, right: _tail(f"{text(key)}:{text(left)}+{text(right)}"),
    "vanish": lambda _, left, right: None if (number(left) + number(right)) % 3 == 0 else _pair(left, right),
}


def values(name: str, count: str, key: Any, value: Any) -> list[Any]:
    """What a flat_map_values gives: the function once, twice ..."""
    made = []
    for _ in range(number(value) % 3 if count == "third" else int(count)):
        value = VALUES[name](key, value)
        made.append(value)
    return made


def pairs(to_key: str, to_value: str, count: str, key: Any, value: Any) -> list[tuple[Any, Any]]:
    """What a flat_map gives."""
    return [(KEYS[to_key](key, each), each) for each in values(to_value, count, key, value)]
