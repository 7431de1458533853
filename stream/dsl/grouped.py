"""Grouped, windowed and cogrouped streams, which become tables. Java's operators, in snake_case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from . import aggregations, cogroups, named_aggregations
from .cogroups import Cogrouped
from .ktable import KTable
from .windows import CountWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..processors.aggregate_functions import Aggregate
    from ..records import Row, Windowed
    from .aggregations import Grouped
    from .late import Late
    from .stores import StoreArgument

K = TypeVar("K")
V = TypeVar("V")
V2 = TypeVar("V2")
R = TypeVar("R")


class KGroupedStream(Generic[K, V]):
    """A stream whose records are grouped by key."""

    def __init__(self, grouped: Grouped) -> None:
        self.grouped = grouped

    def count(self, *, store: StoreArgument = None, name: str | None = None) -> KTable[K, int]:
        """The number of records of each key."""
        return KTable(aggregations.aggregate(self.grouped, aggregations.counting(), store, name))

    def reduce(
        self, reducer: Callable[[V, V], V], *, store: StoreArgument = None, name: str | None = None
    ) -> KTable[K, V]:
        """The values of each key as one: `reducer(result, value)`; the first value is the first result."""
        what = aggregations.reducing(reducer, self.grouped.value)
        return KTable(aggregations.aggregate(self.grouped, what, store, name))

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        aggregator: Callable[[K, V, R], R],
        *,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    @overload
    def aggregate(
        self,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[V],
    ) -> KTable[K, Row]: ...
    def aggregate(
        self,
        initializer: Any = None,
        aggregator: Any = None,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[V],
    ) -> KTable[K, Any]:
        """A result for each key: `aggregator(key, value, result)`. Or a
        row of named aggregates, as total=Sum(...), whose serde in topics is `value`."""
        functions = {"initializer": initializer, "aggregator": aggregator}
        what = named_aggregations.aggregation(functions, aggregates, value, store, name)
        return KTable(aggregations.aggregate(self.grouped, what, store, name))

    @overload
    def windowed_by(
        self, windows: SessionWindows, *, late: Late | None = None
    ) -> SessionWindowedKStream[K, V]: ...
    @overload
    def windowed_by(
        self,
        windows: TimeWindows | SlidingWindows | UnlimitedWindows | CountWindows,
        *,
        late: Late | None = None,
    ) -> TimeWindowedKStream[K, V]: ...
    def windowed_by(
        self, windows: aggregations.Windows, *, late: Late | None = None
    ) -> SessionWindowedKStream[K, V] | TimeWindowedKStream[K, V]:
        """Results by window: `tumbling`, `hopping`, `sliding`, `session`, `unlimited`, `count_windows`.

        `late`: a topic, or a function of a LateRecord, for the records whose window is closed."""
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self.grouped, windows, late)
        return TimeWindowedKStream(self.grouped, windows, late)

    @overload
    def cogroup(self, aggregator: Callable[[K, V, R], R]) -> CogroupedKStream[K, R]: ...
    @overload
    def cogroup(self, **aggregates: Aggregate[V]) -> CogroupedKStream[K, Row]: ...
    def cogroup(self, aggregator: Any = None, **aggregates: Aggregate[V]) -> CogroupedKStream[K, Any]:
        """Begins an aggregation of several grouped streams: `aggregator(key, value, result)`. Or with named
        aggregates of the records of this stream, as total=Sum(...)."""
        cogrouped: CogroupedKStream[K, Any] = CogroupedKStream(Cogrouped(self.grouped.graph))
        return cogrouped.cogroup(self, aggregator, **aggregates)


class _WindowedKStream(Generic[K, V]):
    """What all windowed streams have."""

    def __init__(self, grouped: Grouped, windows: aggregations.Windows, late: Late | None = None) -> None:
        self._grouped = grouped
        self._windows = windows
        self._late = aggregations.checked_late_of(windows, late)
        self._emits_on_close = False

    def count(self, *, store: StoreArgument = None, name: str | None = None) -> KTable[Windowed[K], int]:
        """The number of records of each key and window."""
        return self._table(aggregations.counting(), store, name)

    def reduce(
        self, reducer: Callable[[V, V], V], *, store: StoreArgument = None, name: str | None = None
    ) -> KTable[Windowed[K], V]:
        """The values of each key and window as one: `reducer(result, value)`."""
        return self._table(aggregations.reducing(reducer, self._grouped.value), store, name)

    def _emit(self, strategy: str) -> None:
        if strategy not in ("update", "close"):
            raise ValueError(f'a result is emitted on "update" or on "close", not {strategy!r}')
        if strategy == "close" and isinstance(self._windows, UnlimitedWindows):
            raise ValueError("unlimited windows never close")
        self._emits_on_close = strategy == "close"

    def _table(
        self, what: aggregations.Aggregation, store: StoreArgument, name: str | None
    ) -> KTable[Windowed[K], Any]:
        return KTable(
            aggregations.aggregate_windows(
                self._grouped,
                self._windows,
                what,
                store,
                name,
                emit_on_close=self._emits_on_close,
                late=self._late,
            )
        )


class TimeWindowedKStream(_WindowedKStream[K, V]):
    """A grouped stream in time windows, sliding windows, count windows or one unlimited window."""

    def emit(self, strategy: Literal["update", "close"]) -> TimeWindowedKStream[K, V]:
        """Each update of a result (the default), or one final result when its window closes."""
        self._emit(strategy)
        return self

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        aggregator: Callable[[K, V, R], R],
        *,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], R]: ...
    @overload
    def aggregate(
        self,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[V],
    ) -> KTable[Windowed[K], Row]: ...
    def aggregate(
        self,
        initializer: Any = None,
        aggregator: Any = None,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[V],
    ) -> KTable[Windowed[K], Any]:
        """A result for each key and window: `aggregator(key, value, result)`. Or a
        row of named aggregates, as total=Sum(...), whose serde in topics is `value`."""
        functions = {"initializer": initializer, "aggregator": aggregator}
        what = named_aggregations.aggregation(functions, aggregates, value, store, name)
        return self._table(what, store, name)


class SessionWindowedKStream(_WindowedKStream[K, V]):
    """A grouped stream in sessions."""

    def emit(self, strategy: Literal["update", "close"]) -> SessionWindowedKStream[K, V]:
        """Each update of a result (the default), or one final result when its session closes."""
        self._emit(strategy)
        return self

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        aggregator: Callable[[K, V, R], R],
        merge: Callable[[K, R, R], R],
        *,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], R]: ...
    @overload
    def aggregate(
        self,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[V],
    ) -> KTable[Windowed[K], Row]: ...
    def aggregate(
        self,
        initializer: Any = None,
        aggregator: Any = None,
        merge: Any = None,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[V],
    ) -> KTable[Windowed[K], Any]:
        """A result for each session; `merge(key, one, other)` where a record joins two sessions. Or a
        row of named aggregates, as total=Sum(...), whose serde in topics is `value`."""
        functions = {"initializer": initializer, "aggregator": aggregator, "merge": merge}
        what = named_aggregations.aggregation(functions, aggregates, value, store, name)
        return self._table(what, store, name)


class CogroupedKStream(Generic[K, R]):
    """Grouped streams that are aggregated into one table."""

    def __init__(self, cogrouped: Cogrouped) -> None:
        self._cogrouped = cogrouped

    @overload
    def cogroup(
        self, grouped: KGroupedStream[K, V2], aggregator: Callable[[K, V2, R], R]
    ) -> CogroupedKStream[K, R]: ...
    @overload
    def cogroup(
        self, grouped: KGroupedStream[K, V2], **aggregates: Aggregate[V2]
    ) -> CogroupedKStream[K, Row]: ...
    def cogroup(
        self, grouped: KGroupedStream[K, Any], aggregator: Any = None, **aggregates: Aggregate[Any]
    ) -> CogroupedKStream[K, Any]:
        """Adds a grouped stream: `aggregator(key, value, result)`. Or with named aggregates of its records;
        one of the same name and kind as that of another stream is over the records of both."""
        self._cogrouped.add(grouped.grouped, aggregator, aggregates)
        return self

    def windowed_by(
        self, windows: aggregations.Windows, *, late: Late | None = None
    ) -> WindowedCogroupedKStream[K, R]:
        """Results by window. `late`: a topic or function for the records whose window is closed."""
        return WindowedCogroupedKStream(self._cogrouped, windows, late)

    @overload
    def aggregate(
        self, initializer: Callable[[], R], *, store: StoreArgument = None, name: str | None = None
    ) -> KTable[K, R]: ...
    @overload
    def aggregate(
        self,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[Any],
    ) -> KTable[K, Row]: ...
    def aggregate(
        self,
        initializer: Any = None,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[Any],
    ) -> KTable[K, Any]:
        """A result for each key. Or a row of the named aggregates of `cogroup`, and of these, which are over
        the records of all streams; `value` is its serde in topics."""
        what = cogroups.aggregation(
            self._cogrouped, {"initializer": initializer}, aggregates, value=value, store=store, name=name
        )
        return KTable(self._cogrouped.aggregate(None, what, store, name))


class WindowedCogroupedKStream(Generic[K, R]):
    """Several grouped streams that are aggregated into one table of windows."""

    def __init__(self, cogrouped: Cogrouped, windows: aggregations.Windows, late: Late | None = None) -> None:
        self._cogrouped = cogrouped
        self._windows = windows
        self._late = aggregations.checked_late_of(windows, late)

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        merge: Callable[[K, R, R], R] | None = None,
        *,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], R]: ...
    @overload
    def aggregate(
        self,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[Any],
    ) -> KTable[Windowed[K], Row]: ...
    def aggregate(
        self,
        initializer: Any = None,
        merge: Any = None,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[Any],
    ) -> KTable[Windowed[K], Any]:
        """A result for each key and window; sessions need `merge(key, one, other)`. Or a row of named
        aggregates, as without windows."""
        if isinstance(self._windows, SessionWindows) and initializer is not None and merge is None:
            raise ValueError("sessions need merge=, for a record that joins two of them")
        functions = {"initializer": initializer} | ({} if merge is None else {"merge": merge})
        what = cogroups.aggregation(
            self._cogrouped, functions, aggregates, value=value, store=store, name=name
        )
        return KTable(self._cogrouped.aggregate(self._windows, what, store, name, self._late))
