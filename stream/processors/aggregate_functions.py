"""The functions of named aggregates: `Count`, `Sum`, `Mean`, `Min`, `Max`, `First`, `Last`, `Distinct`,
`TopN`, `Collect`; `Aggregate` is the base of others.

The state of an aggregate is a plain value that is never changed in place; None: no value yet. Values that are
None are skipped, as in SQL.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import reduce
from operator import add, itemgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

V = TypeVar("V")
V_in = TypeVar("V_in", contravariant=True)


class Aggregate(Generic[V_in]):
    """One result over the records of a key or window.

    `of` takes what is aggregated from the value of a record; None: the value itself. A subclass defines
    `kind` (stored with the state: states of another kind are not read), `empty`, `add`, `merge` and `result`,
    and `subtract` if records can be taken away, which grouped tables need.
    """

    kind: str
    empty: Any = None
    """The state without any value."""
    subtract: Callable[[Any, Any], Any] | None = None
    """State and value: the state without this value."""
    takes_time = False
    """Whether `add` gets pairs of timestamp and value."""
    result_never_fails = False
    """Then `result` need not be called to know whether a record is valid."""

    def __init__(self, of: Callable[[V_in], Any] | None = None) -> None:
        self.of = of

    def add(self, state: Any, value: Any) -> Any:
        """The state with one more value."""
        raise NotImplementedError

    def add_all(self, state: Any, values: Sequence[Any]) -> Any:
        """The state with all of these values: what `add` of one after the other gives."""
        return reduce(self.add, values, state)

    def merge(self, state: Any, other: Any) -> Any:
        """The state of both: of a session and of a later one."""
        raise NotImplementedError

    def result(self, state: Any) -> Any:
        """What users see of a state."""
        return state

    def continues(self, other: Aggregate[Any]) -> bool:
        """Whether both compute the same, but for `of`: then each can go on with the state of the other."""
        return type(self) is type(other) and _settings(self) == _settings(other)


class Count(Aggregate[V_in]):
    """The number of records; with `of`, of those for which it is not None."""

    kind = "count"
    result_never_fails = True
    empty = 0

    def add(self, state: Any, value: Any) -> Any:
        return state + 1

    def add_all(self, state: Any, values: Sequence[Any]) -> Any:
        return state + len(values)

    def merge(self, state: Any, other: Any) -> Any:
        return state + other

    def subtract(self, state: Any, value: Any) -> Any:
        return state - 1


class Sum(Aggregate[V_in]):
    """The sum; 0 without values. Anything that can be added will do: numbers, Decimal, timedelta."""

    kind = "sum"
    result_never_fails = True

    def add(self, state: Any, value: Any) -> Any:
        return value if state is None else state + value

    def add_all(self, state: Any, values: Sequence[Any]) -> Any:
        if state is None:
            return reduce(add, values)
        return reduce(add, values, state)  # in order: sum() of floats may differ in the last bit

    def merge(self, state: Any, other: Any) -> Any:
        if state is None or other is None:
            return other if state is None else state
        return state + other

    def subtract(self, state: Any, value: Any) -> Any:
        return -value if state is None else state - value

    def result(self, state: Any) -> Any:
        return 0 if state is None else state


class Mean(Aggregate[V_in]):
    """The arithmetic mean; None without values."""

    kind = "mean"

    def add(self, state: Any, value: Any) -> Any:
        return [value, 1] if state is None else [state[0] + value, state[1] + 1]

    def add_all(self, state: Any, values: Sequence[Any]) -> Any:
        if state is None:
            return [reduce(add, values), len(values)]
        return [reduce(add, values, state[0]), state[1] + len(values)]

    def merge(self, state: Any, other: Any) -> Any:
        if state is None or other is None:
            return other if state is None else state
        return [state[0] + other[0], state[1] + other[1]]

    def subtract(self, state: Any, value: Any) -> Any:
        if state is None or state[1] == 1:
            return None
        return [state[0] - value, state[1] - 1]

    def result(self, state: Any) -> Any:
        return None if state is None else state[0] / state[1]


class Min(Aggregate[V_in]):
    """The smallest value; None without values."""

    kind = "min"
    result_never_fails = True

    def add(self, state: Any, value: Any) -> Any:
        return value if state is None or value < state else state

    def add_all(self, state: Any, values: Sequence[Any]) -> Any:
        return min(values) if state is None else min((state, *values))

    def merge(self, state: Any, other: Any) -> Any:
        return state if other is None else self.add(state, other)


class Max(Aggregate[V_in]):
    """The largest value; None without values."""

    kind = "max"
    result_never_fails = True

    def add(self, state: Any, value: Any) -> Any:
        return value if state is None or value > state else state

    def add_all(self, state: Any, values: Sequence[Any]) -> Any:
        return max(values) if state is None else max((state, *values))

    def merge(self, state: Any, other: Any) -> Any:
        return state if other is None else self.add(state, other)


class First(Aggregate[V_in]):
    """The value with the lowest timestamp; of equal timestamps, that which came first."""

    kind = "first"
    result_never_fails = True
    takes_time = True

    def add(self, state: Any, value: Any) -> Any:
        return value if state is None or value[0] < state[0] else state

    def merge(self, state: Any, other: Any) -> Any:
        return state if other is None else self.add(state, other)

    def result(self, state: Any) -> Any:
        return None if state is None else state[1]


class Last(Aggregate[V_in]):
    """The value with the highest timestamp; of equal timestamps, that which came last."""

    kind = "last"
    result_never_fails = True
    takes_time = True

    def add(self, state: Any, value: Any) -> Any:
        return value if state is None or value[0] >= state[0] else state

    def merge(self, state: Any, other: Any) -> Any:
        return state if other is None else self.add(state, other)

    def result(self, state: Any) -> Any:
        return None if state is None else state[1]


class Distinct(Aggregate[V_in]):
    """The different values in the order in which they came, `limit` at most: the others are left out."""

    kind = "distinct"
    result_never_fails = True
    empty: Any = ()

    def __init__(self, of: Callable[[V_in], Any] | None = None, *, limit: int = 1000) -> None:
        super().__init__(of)
        self.limit = _at_least_one(limit, "limit")

    def add(self, state: Any, value: Any) -> Any:
        return state if value in state or len(state) >= self.limit else [*state, value]

    def merge(self, state: Any, other: Any) -> Any:
        return self.add_all(state, other)

    def result(self, state: Any) -> Any:
        return list(state)


class TopN(Aggregate[V_in]):
    """The `n` largest values, largest first; with `smallest`, the smallest. Of equal ones the first stays.

    `by` ranks them by another value than `of` takes: the largest orders `by` their amount.
    """

    kind = "top"
    result_never_fails = True
    empty: Any = ()

    def __init__(
        self,
        n: int,
        of: Callable[[V_in], Any] | None = None,
        *,
        by: Callable[[V_in], Any] | None = None,
        smallest: bool = False,
    ) -> None:
        super().__init__(of if by is None else _ranked(by, of))
        self.n = _at_least_one(n, "n")
        self.smallest = smallest
        self.is_ranked = by is not None
        self._rank: Callable[[Any], Any] = _same if by is None else itemgetter(0)
        self._result: Callable[[Any], Any] = _same if by is None else itemgetter(1)

    def add(self, state: Any, value: Any) -> Any:
        rank = self._rank(value)
        ranks = [self._rank(each) for each in state]
        if self.smallest:
            place = bisect_right(ranks, rank)
        else:
            ranks.reverse()
            place = len(ranks) - bisect_left(ranks, rank)
        if place >= self.n:
            return state
        return [*state[:place], value, *state[place : self.n - 1]]

    def merge(self, state: Any, other: Any) -> Any:
        return self.add_all(state, other)

    def result(self, state: Any) -> Any:
        return [self._result(each) for each in state]


class Collect(Aggregate[V_in]):
    """The values in the order in which they came: the first `limit` of them, or the last."""

    kind = "collect"
    result_never_fails = True
    empty: Any = ()

    def __init__(
        self,
        of: Callable[[V_in], Any] | None = None,
        *,
        limit: int = 1000,
        keep: Literal["first", "last"] = "first",
    ) -> None:
        super().__init__(of)
        self.limit = _at_least_one(limit, "limit")
        if keep not in ("first", "last"):
            raise ValueError(f'keep must be "first" or "last", not {keep!r}')
        self.keep = keep

    def add(self, state: Any, value: Any) -> Any:
        return self.add_all(state, (value,))

    def add_all(self, state: Any, values: Sequence[Any]) -> Any:
        if self.keep == "last":
            return [*state, *values][-self.limit :]
        return state if len(state) >= self.limit else [*state, *values][: self.limit]

    def merge(self, state: Any, other: Any) -> Any:
        return self.add_all(state, other)

    def result(self, state: Any) -> Any:
        return list(state)


def _settings(aggregate: Aggregate[Any]) -> dict[str, Any]:
    found = vars(aggregate).items()
    return {name: value for name, value in found if value is not None and not callable(value)}


def _ranked(by: Callable[[Any], Any], of: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    def pair(value: Any) -> Any:
        rank = by(value)
        return None if rank is None else [rank, value if of is None else of(value)]

    return pair


def _same(value: V) -> V:
    return value


def _at_least_one(number: Any, name: str) -> int:
    if not isinstance(number, int) or number < 1:
        raise ValueError(f"{name} must be an int of at least 1, not {number!r}")
    return number
