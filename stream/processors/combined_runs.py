"""Named aggregates by column: the records of a run are combined per key, before one read and one write of the
store.

Only over a store with a cache that no other processor uses. The result is then that of a cache which never
evicts during the run: the same states, and after a flush of the cache the same records, in the same order
(docs/adr/0032-combined-runs.md).
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from ..errors import ProcessorFailedError
from ..records import Record, ValueAndTimestamp, Window
from .aggregates import KStreamAggregate
from .closed_windows import NO_TIMESTAMP
from .late_records import on_late
from .table_store import operator_store
from .window_aggregates import KStreamWindowAggregate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...clients.records import Headers
    from ..processing import Forward, ProcessorContext, TimeWindowDefinition
    from ..records import RecordContext
    from .late_records import LateRecords
    from .named_aggregates import NamedAggregates

MAX_RECORDS = 1000
PAUSE = 20  # runs that are not combined after one with less than two records for each aggregate
# Of these types only equal keys have equal bytes; 1, 1.0 and True are equal and have other bytes in JSON.
_PLAIN = frozenset({str, bytes, int, UUID})


class One(NamedTuple):
    """The record of an aggregate that has one in the run. `target`: where the aggregate is in the store."""

    key: Any
    target: Any
    number: int
    value: Any
    timestamp: int
    context: RecordContext


class Several(NamedTuple):
    """The records of an aggregate, by column."""

    key: Any
    target: Any
    numbers: list[int]
    values: list[Any]
    timestamps: list[int]
    contexts: list[RecordContext]


Combined = tuple[int, "RecordContext", Any, ValueAndTimestamp[Any]]
"""Number and context of the last record, target, and what is put there."""


class CombinedRuns:
    """The records of one run, by aggregate: in the order of the last record of each.

    `get`, `put`: the states of a target in the store, with their timestamp.
    """

    def __init__(
        self,
        context: ProcessorContext,
        aggregates: NamedAggregates,
        get: Callable[[Any], ValueAndTimestamp[Any] | None],
        put: Callable[[Any, ValueAndTimestamp[Any]], object],
    ) -> None:
        self._context = context
        self._aggregates = aggregates
        self._get = get
        self._put = put
        self._waiting: dict[Any, One | Several] = {}
        self._count = 0
        self._unbuffered = 0  # so many records are added at once: the last run had few for each aggregate
        context.flush_before_stores(self)

    def __bool__(self) -> bool:
        """Whether records wait."""
        return self._count > 0

    def add(self, place: Any, key: Any, target: Any, value: Any, timestamp: int) -> None:
        """Add the current record; a full run is combined. `place`: hashable, one for each target."""
        if self._unbuffered:
            self._unbuffered -= 1
            self._add_at_once(target, value, timestamp)
            return
        context = self._context.record_context
        assert context is not None
        number = self._count
        waiting = self._waiting.pop(place, None)
        if waiting is None:
            waiting = One(key, target, number, value, timestamp, context)
        else:
            if isinstance(waiting, One):
                _, _, *first = waiting
                waiting = Several(key, target, *([each] for each in first))
            waiting.numbers.append(number)
            waiting.values.append(value)
            waiting.timestamps.append(timestamp)
            waiting.contexts.append(context)
        self._waiting[place] = waiting
        self._count = number + 1
        if number + 1 >= MAX_RECORDS:
            if len(self._waiting) > MAX_RECORDS // 2:
                self._unbuffered = PAUSE * MAX_RECORDS
            self.flush()

    def _add_at_once(self, target: Any, value: Any, timestamp: int) -> None:
        found = self._get(target)
        states, latest = (self._aggregates.empty, -1) if found is None else found
        states = self._aggregates.added(states, value, timestamp)
        self._aggregates.check(states)
        self._put(target, ValueAndTimestamp(states, max(latest, timestamp)))

    def flush(self) -> None:
        """Combine the records that wait."""
        run, self._waiting, self._count = self._waiting, {}, 0
        context, put = self._context, self._put
        before = context.record_context
        try:
            combined = [each for each in map(self._combined, run.values()) if each is not None]
            combined.sort(key=itemgetter(0))  # a dropped record may have been the last one
            for _, last_context, target, value in combined:
                context.record_context = last_context
                put(target, value)
        finally:
            context.record_context = before

    def _combined(self, waiting: One | Several) -> Combined | None:
        found = self._get(waiting.target)
        states, latest = (self._aggregates.empty, -1) if found is None else found
        try:
            if isinstance(waiting, One):
                added = self._aggregates.added(states, waiting.value, waiting.timestamp)
                self._aggregates.check(added)
                value = ValueAndTimestamp(added, max(latest, waiting.timestamp))
                return waiting.number, waiting.context, waiting.target, value
            added = self._aggregates.added_run(states, waiting.values, waiting.timestamps)
            self._aggregates.check(added)
            value = ValueAndTimestamp(added, max(latest, *waiting.timestamps))
            return waiting.numbers[-1], waiting.contexts[-1], waiting.target, value
        except Exception:  # noqa: BLE001  # of the user's function: find its record
            return self._one_by_one(waiting, states, latest)

    def _one_by_one(self, waiting: One | Several, states: Sequence[Any], latest: int) -> Combined | None:
        """Without the records that the handler drops; None if it drops all."""
        last: tuple[int, RecordContext] | None = None
        columns: Any = [[each] for each in waiting[2:]] if isinstance(waiting, One) else waiting[2:]
        for number, value, timestamp, where in zip(*columns, strict=True):
            self._context.record_context = where
            try:
                added = self._aggregates.added(states, value, timestamp)
                self._aggregates.check(added)
            except Exception as error:  # noqa: BLE001  # of the user's function; the handler decides
                self._fail(Record(waiting.key, value, timestamp, where.headers), where, error)
            else:
                states, latest = added, max(latest, timestamp)
                last = number, where
        return None if last is None else (*last, waiting.target, ValueAndTimestamp(states, latest))

    def _fail(self, record: Record[Any, Any], where: RecordContext, error: Exception) -> None:
        try:
            self._context.fail(record, error)
        except ProcessorFailedError as failure:
            failure.offsets = (where.topic, where.partition, where.offset, where.offset)
            raise


def combines(context: ProcessorContext, store: Any) -> bool:
    """Whether the records of a run can be combined before the store is used."""
    return store.is_cached and context.is_only_user(store.name)


def place_of(store: Any) -> Callable[[Any], Any]:
    """A hashable object for each key of a store."""
    return lambda key: key if type(key) in _PLAIN else (store.bytes_of_key(key),)


class KStreamNamedAggregate(KStreamAggregate):
    """Aggregates the records of each key into a row. Records with a null key or value are dropped."""

    def __init__(self, store: Any, aggregates: NamedAggregates) -> None:
        super().__init__(store, aggregates.initializer, aggregates.aggregator())
        self.aggregates = aggregates

    def bind(self, context: ProcessorContext) -> Forward:
        one_by_one = super().bind(context)
        store = operator_store(context, self.store_name)
        if not combines(context, store):
            return one_by_one
        states = store.of_values(self.aggregates.states_serde())
        add = CombinedRuns(context, self.aggregates, states.get, states.put).add
        place, dropped = place_of(store), context.dropped

        def process(key: Any, value: Any, timestamp: int, _headers: Headers) -> None:
            if key is None or value is None:
                dropped("null key or value")
            else:
                add(place(key), key, key, value, timestamp)

        return process


class KStreamNamedTumblingAggregate(KStreamWindowAggregate):
    """Aggregates per tumbling window and key into a row.

    Windows that overlap are not combined: a record that fails in one of them is missing in the later ones.
    """

    def __init__(
        self,
        windows: TimeWindowDefinition,
        store: Any,
        emit_on_close: bool,
        aggregates: NamedAggregates,
        late: LateRecords | None = None,
    ) -> None:
        functions = aggregates.initializer, aggregates.aggregator()
        super().__init__(windows, store, emit_on_close, *functions, late)
        self.aggregates = aggregates

    def bind(self, context: ProcessorContext) -> Forward:
        one_by_one = super().bind(context)
        store = operator_store(context, self.store_name)
        if self.emit_on_close or not combines(context, store):
            return one_by_one
        states = store.of_values(self.aggregates.states_serde())
        add = CombinedRuns(
            context,
            self.aggregates,
            lambda target: states.fetch(*target),
            lambda target, value: states.put(target[0], value, target[1]),
        ).add
        place, dropped, late = place_of(store), context.dropped, on_late(self.late, context)
        size_ms, grace_ms = self.windows.size_ms, self.windows.grace_ms
        stream_time = NO_TIMESTAMP

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            nonlocal stream_time
            if key is None:
                dropped("null key")
                return
            if timestamp > stream_time:
                stream_time = timestamp
            start = timestamp // size_ms * size_ms
            if start + size_ms <= stream_time - grace_ms:
                dropped("closed window")
                late(key, value, timestamp, headers, Window(start, start + size_ms), stream_time)
            else:
                add((place(key), start), key, (key, start), value, timestamp)

        return process
