"""Several aggregates of the same records as one row by name: the functions that an aggregation calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..records import Row
from ..state.formats import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...clients.serdes import Serde
    from ..processing import ProcessorContext
    from .aggregate_functions import Aggregate
    from .aggregates import Aggregator


_SHORT = 8  # a longer list is not looked through for each record


class NamedAggregates:
    """The initializer, the aggregator, the session merger and the subtractor of a row."""

    def __init__(self, aggregates: Mapping[str, Aggregate[Any]]) -> None:
        self.names = tuple(aggregates)
        self.aggregates = tuple(aggregates.values())
        self.takes_time = any(each.takes_time for each in self.aggregates)
        self._checks = tuple(
            (place, each.result) for place, each in enumerate(self.aggregates) if not each.result_never_fails
        )
        self._results = tuple(each.result for each in self.aggregates)
        self.empty = tuple(each.empty for each in self.aggregates)
        self._empty = self.row([each.empty for each in self.aggregates])
        self._adds = tuple(_step(each, each.add) for each in self.aggregates)
        self._subtracts = tuple(
            _step(each, each.subtract) for each in self.aggregates if each.subtract is not None
        )

    def row(self, states: Sequence[Any]) -> Row:
        """The row of these states."""
        results = [result(state) for result, state in zip(self._results, states)]  # noqa: B905  # one each
        row = Row(zip(self.names, results))  # noqa: B905
        row.states = tuple(states)
        return row

    def serde(self) -> Serde[Row]:
        """The serde of the store."""
        return rows.stored_rows(self.states_serde(), self.row)

    def states_serde(self) -> Serde[Sequence[Any]]:
        """The serde of the store for those that need no results."""
        tags = [f"{name}:{each.kind}" for name, each in zip(self.names, self.aggregates, strict=True)]
        return rows.states(tags, [each.empty for each in self.aggregates])

    def initializer(self) -> Row:
        """The row without records."""
        return self._empty

    def aggregator(self, own: Mapping[str, Aggregate[Any]] | None = None) -> Aggregator:
        """The row with one more record. `own`: the aggregates to which the record is added, by their names;
        the others keep their states."""
        if own is None:
            return TimedAggregator(self.add) if self.takes_time else self.add
        steps = [_step(own[name], own[name].add) if name in own else _same_state for name in self.names]

        def add(_key: Any, value: Any, row: Row, timestamp: int = 0) -> Row:
            return self.row([step(state, value, timestamp) for step, state in zip(steps, row.states)])  # noqa: B905

        return TimedAggregator(add) if any(each.takes_time for each in own.values()) else add

    def add(self, _key: Any, value: Any, row: Row, timestamp: int = 0) -> Row:
        """The row with one more record. `timestamp`: for aggregates that need it."""
        return self.row([add(state, value, timestamp) for add, state in zip(self._adds, row.states)])  # noqa: B905  # one state each; this runs per record

    def states_aggregator(self, context: ProcessorContext) -> Aggregator:
        """The states with one more record. Errors: those that the row of these states raises."""
        adds, checks, takes_time = self._adds, self._checks, self.takes_time

        def aggregator(_key: Any, value: Any, states: Sequence[Any]) -> Sequence[Any]:
            timestamp = 0
            if takes_time:
                record = context.record_context
                assert record is not None
                timestamp = record.timestamp
            added = [add(state, value, timestamp) for add, state in zip(adds, states)]  # noqa: B905
            for place, result in checks:
                result(added[place])
            return added

        return aggregator

    @staticmethod
    def can_wait(states: Sequence[Any]) -> bool:
        """Whether states certainly have bytes that are read back as equal states."""
        return all(map(_is_short, states))

    def subtract(self, _key: Any, value: Any, row: Row) -> Row:
        """The row without a record. Every aggregate must have `subtract`."""
        return self.row([subtract(state, value, 0) for subtract, state in zip(self._subtracts, row.states)])  # noqa: B905

    def merge(self, _key: Any, row: Row, other: Row) -> Row:
        """The row of two sessions; `row` is the earlier one."""
        pairs = zip(self.aggregates, row.states, other.states, strict=True)
        return self.row([each.merge(one, two) for each, one, two in pairs])


class TimedAggregator:
    """An aggregator that gets the timestamp of the record as well, once it is bound to a task."""

    def __init__(self, add: Callable[[Any, Any, Any, int], Any]) -> None:
        self._add = add

    def bound_to(self, context: ProcessorContext) -> Aggregator:
        """The aggregator of one task."""
        add = self._add

        def aggregator(key: Any, value: Any, aggregate: Any) -> Any:
            record = context.record_context
            assert record is not None
            return add(key, value, aggregate, record.timestamp)

        return aggregator

    def __call__(self, key: Any, value: Any, aggregate: Any) -> Any:
        """Errors: TypeError, it must be bound to a task."""
        raise TypeError("this aggregator needs timestamps: it is bound to a task first")


def _is_short(state: Any) -> bool:
    kind = type(state)
    if kind is int:
        return bool(-(2**63) <= state < 2**63)
    if state is None or kind is float:
        return True
    if kind is str:
        return str.isascii(state)
    return kind in (list, tuple) and len(state) <= _SHORT and all(map(_is_short, state))


def _same_state(state: Any, _value: Any, _timestamp: int) -> Any:
    return state


def _step(aggregate: Aggregate[Any], function: Callable[[Any, Any], Any]) -> Any:
    """`function(state, value)` of what the aggregate takes from the value of a record. Nulls are skipped."""
    of, takes_time = aggregate.of, aggregate.takes_time
    counts_all = of is None and aggregate.kind == "count"

    def step(state: Any, value: Any, timestamp: int) -> Any:
        if counts_all:
            return function(state, value)
        if value is not None and of is not None:
            value = of(value)
        if value is None:
            return state
        return function(state, [timestamp, value] if takes_time else value)

    return step
