"""Filters of a range: bounds on partition, offset and timestamp, as pushed down by engines. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ..records import timestamp_to_ms
from .source_options import Edge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .ranges import OffsetRange

COLUMNS = ("partition", "offset", "timestamp")
OPERATORS = ("=", ">", ">=", "<", "<=", "in")
_MIN, _MAX = -(2**63), 2**63 - 1
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


class Bounds(NamedTuple):
    """Values from `low` to `high`, both inclusive, restricted to `among` if set."""

    low: int = _MIN
    high: int = _MAX
    among: frozenset[int] | None = None

    def has(self, value: int) -> bool:
        """Whether a value is within the bounds."""
        return self.low <= value <= self.high and (self.among is None or value in self.among)

    @property
    def is_all(self) -> bool:
        """Whether every value is within the bounds."""
        return self == _ALL


_ALL = Bounds()


class Filters(NamedTuple):
    """Conjunction of bounds. Timestamps are microseconds; a record without timestamp is outside of any bound
    on it."""

    partition: Bounds = _ALL
    offset: Bounds = _ALL
    timestamp: Bounds = _ALL

    @classmethod
    def of(cls, conditions: Filters | Iterable[tuple[str, str, Any]]) -> Filters:
        """From (column, operator, value): ("offset", ">=", 5), ("partition", "in", [0, 2]); Filters are
        returned unchanged. Timestamps are aware datetimes or ms. Errors: ValueError, TypeError for invalid
        conditions."""
        if isinstance(conditions, Filters):
            return conditions
        found = cls()
        for column, operator, value in conditions:
            if column not in COLUMNS or operator not in OPERATORS:
                known = f"{', '.join(COLUMNS)}, by {' '.join(OPERATORS)}"
                raise ValueError(f"invalid filter ({column!r}, {operator!r}): use {known}")
            bounds = _narrowed(getattr(found, column), column, operator, value)
            found = found._replace(**{column: bounds})
        return found

    def cut(self, whole: OffsetRange) -> OffsetRange | None:
        """The part of a range that may have matching rows; None for none."""
        start, end = max(whole.start, self.offset.low), min(whole.end, self.offset.high + 1)
        if self.offset.among is not None:
            inside = [each for each in self.offset.among if start <= each < end]
            start, end = min(inside, default=0), max(inside, default=-1) + 1
        if start >= end or not self.partition.has(whole.partition):
            return None
        return whole._replace(start=start, end=end)

    def since(self) -> Edge | None:
        """The lower bound of the timestamp as an Edge, if any."""
        if self.timestamp.low <= 0:
            return None
        return Edge("filter", timestamp=-(-self.timestamp.low // 1000))


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970 of an aware datetime: exact, unlike `timestamp()` in far years."""
    return int((moment - _EPOCH) // _MICROSECOND)


def _narrowed(bounds: Bounds, column: str, operator: str, value: Any) -> Bounds:
    if operator == "in":
        among = frozenset(number for each in value if _MIN <= (number := _number(column, each)) <= _MAX)
        return bounds._replace(among=among if bounds.among is None else among & bounds.among)
    number = _number(column, value)
    low, high = bounds.low, bounds.high
    if operator in ("=", ">=", ">"):
        low = min(max(low, number + (operator == ">")), _MAX)
    if operator in ("=", "<=", "<"):
        high = max(min(high, number - (operator == "<")), _MIN)
    return bounds._replace(low=low, high=high)


def _number(column: str, value: Any) -> int:
    if column == "timestamp":
        if hasattr(value, "timestamp") and getattr(value, "tzinfo", None) is not None:
            return microseconds(value)
        return timestamp_to_ms(value) * 1000
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"a filter on {column} needs integers, not {value!r}")
    return value
