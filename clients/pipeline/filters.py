"""What of a range is wanted: bounds on partition, offset and timestamp, as engines push them down. Pure."""

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
    """Values from `low` to `high`, both included, and of these only `among`, if that is set."""

    low: int = _MIN
    high: int = _MAX
    among: frozenset[int] | None = None

    def has(self, value: int) -> bool:
        """Whether a value is wanted."""
        return self.low <= value <= self.high and (self.among is None or value in self.among)

    @property
    def is_all(self) -> bool:
        """Whether every value is."""
        return self == _ALL


_ALL = Bounds()


class Filters(NamedTuple):
    """All have to hold. Timestamps are microseconds; a record without one meets no bound on it."""

    partition: Bounds = _ALL
    offset: Bounds = _ALL
    timestamp: Bounds = _ALL

    @classmethod
    def of(cls, conditions: Filters | Iterable[tuple[str, str, Any]]) -> Filters:
        """From (column, operator, value): ("offset", ">=", 5), ("partition", "in", [0, 2]); filters stay as
        they are. Timestamps are aware datetimes or ms. Errors: ValueError, TypeError for what cannot be
        asked."""
        if isinstance(conditions, Filters):
            return conditions
        found = cls()
        for column, operator, value in conditions:
            if column not in COLUMNS or operator not in OPERATORS:
                known = f"{', '.join(COLUMNS)}, by {' '.join(OPERATORS)}"
                raise ValueError(f"({column!r}, {operator!r}): filters are of {known}")
            bounds = _narrowed(getattr(found, column), column, operator, value)
            found = found._replace(**{column: bounds})
        return found

    def cut(self, whole: OffsetRange) -> OffsetRange | None:
        """What of a range can have wanted rows; None for nothing."""
        start, end = max(whole.start, self.offset.low), min(whole.end, self.offset.high + 1)
        if self.offset.among is not None:
            inside = [each for each in self.offset.among if start <= each < end]
            start, end = min(inside, default=0), max(inside, default=-1) + 1
        if start >= end or not self.partition.has(whole.partition):
            return None
        return whole._replace(start=start, end=end)

    def since(self) -> Edge | None:
        """The time, if there is one, before whose first record nothing is wanted."""
        if self.timestamp.low <= 0:
            return None
        return Edge("filter", timestamp=-(-self.timestamp.low // 1000))


def microseconds(moment: datetime) -> int:
    """Since 1970, of an aware datetime: exact, as `timestamp()` is not in far years."""
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
        raise TypeError(f"a filter on {column} compares with whole numbers, not {value!r}")
    return value
