"""Selects the Spark filters that a read applies itself, exactly; Spark applies the others. Pure: filters are
matched by the names of their classes and fields, without importing Spark.

Source: pyspark.sql.datasource.Filter.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ..pipeline.filters import Filters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_OPERATORS = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "In": "in",
}
_NEVER_NULL = ("topic", "partition", "offset", "timestampType")
_ON_TOPICS: dict[str, Callable[[str, Any], bool]] = {
    "EqualTo": str.__eq__,
    "EqualNullSafe": str.__eq__,
    "In": lambda topic, among: topic in among,
    "StringStartsWith": str.startswith,
    "StringEndsWith": str.endswith,
    "StringContains": str.__contains__,
}


class Pushed(NamedTuple):
    """Accepted filters. `topics` are pairs of a filter's name and value."""

    filters: Filters = Filters()
    topics: tuple[tuple[str, Any], ...] = ()

    def has_topic(self, topic: str) -> bool:
        """Whether rows of a topic can match."""
        return all(_ON_TOPICS[name](topic, value) for name, value in self.topics)


def pushed(filters: Iterable[Any]) -> tuple[Pushed, list[Any]]:
    """The accepted part of filters that are all required, and the remaining filters unchanged."""
    conditions: list[tuple[str, str, Any]] = []
    topics: list[tuple[str, Any]] = []
    left = []
    for each in filters:
        name = type(each).__name__
        path: tuple[str, ...] = getattr(each, "attribute", ())
        column = path[0] if len(path) == 1 else None
        if name == "IsNotNull" and column in _NEVER_NULL:
            continue
        value = getattr(each, "value", None)
        if name in _OPERATORS and _fits(column, name, value):
            conditions.append((str(column), _OPERATORS[name], value))
        elif column == "topic" and name in _ON_TOPICS and _all_of(str, name, value):
            topics.append((name, value))
        else:
            left.append(each)
    return Pushed(Filters.of(conditions), tuple(topics)), left


def _fits(column: str | None, name: str, value: Any) -> bool:
    if column == "timestamp":
        return _all_of(datetime, name, value) and all(
            each.tzinfo is not None for each in _values(name, value)
        )
    return column in ("partition", "offset") and _all_of(int, name, value)


def _all_of(kind: type, name: str, value: Any) -> bool:
    if name == "In" and not isinstance(value, list | tuple):
        return False
    return all(isinstance(each, kind) and not isinstance(each, bool) for each in _values(name, value))


def _values(name: str, value: Any) -> Iterable[Any]:
    return value if name == "In" else (value,)
