"""Named aggregates of grouped streams, by key and by time windows.

Over a store with a cache nothing sees the row of each record: only the states are kept then, and rows are
made of what the cache flushes (docs/adr/0032-named-aggregates.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...clients.serdes import bytes_, int64, utf8
from ..topology.serdes import resolve
from .aggregate_functions import Count, Max, Mean, Min, Sum
from .aggregates import KStreamAggregate, StoreFunctions
from .binding import BoundProcessor
from .window_aggregates import KStreamWindowAggregate

if TYPE_CHECKING:
    from ..processing import Processor, ProcessorContext, TimeWindowDefinition
    from ..task.settings import TaskSettings
    from ..topology.specs import ProcessorSpec, SourceSpec
    from .late_records import LateRecords
    from .named_aggregates import NamedAggregates


_OF_NUMBERS = (Count, Sum, Mean, Min, Max)


def state_functions(context: ProcessorContext, store: Any, aggregates: NamedAggregates) -> StoreFunctions:
    """The aggregation over the states alone."""
    states = store.of_values(aggregates.states_serde(), aggregates.can_wait)
    return StoreFunctions(states, lambda: aggregates.empty, aggregates.states_aggregator(context))


class NamedProcessor(BoundProcessor):
    """The processor of one task, which takes rows by column as well."""

    __slots__ = ("_context", "_runs", "_supplier")

    def __init__(self, supplier: KStreamNamedAggregate) -> None:
        super().__init__(supplier.bind)
        self._supplier = supplier
        self._runs: Any = None

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._context = context

    def forward_rows(self, rows: Any, _latest_ms: int) -> None:
        """Rows of an `AggregatePath`."""
        if self._runs is None:
            from .column_aggregates import ColumnRuns

            self._runs = ColumnRuns(self._context, self._supplier.aggregates, self._supplier.store_name)
        self._runs.add(rows)


def takes_columns(settings: TaskSettings, source: SourceSpec, node: ProcessorSpec) -> bool:
    """Whether an aggregation by key can combine the records of a source by column: of numbers, or their
    count, without functions of users; and different bytes of keys are different keys."""
    supplier = node.supplier
    if type(supplier) is not KStreamNamedAggregate:
        return False
    key = resolve(source.key, "key", key=settings.key_serde, value=settings.value_serde)
    value = resolve(source.value, "value", key=settings.key_serde, value=settings.value_serde)
    if not any(key is each for each in (utf8, bytes_, int64)):
        return False
    aggregates = supplier.aggregates.aggregates
    kinds = _OF_NUMBERS if value is int64 else (Count,) if value is utf8 or value is bytes_ else ()
    return all(type(each) in kinds and each.of is None for each in aggregates)


class KStreamNamedAggregate(KStreamAggregate):
    """Aggregates the records of each key into a row. Records with a null key or value are dropped."""

    def create(self) -> Processor:
        return NamedProcessor(self)

    def __init__(self, store: Any, aggregates: NamedAggregates) -> None:
        super().__init__(store, aggregates.initializer, aggregates.aggregator())
        self.aggregates = aggregates

    def functions(self, context: ProcessorContext, store: Any) -> StoreFunctions:
        if not store.is_cached:
            return super().functions(context, store)
        return state_functions(context, store, self.aggregates)


class KStreamNamedWindowAggregate(KStreamWindowAggregate):
    """Aggregates per time window and key into a row."""

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

    def functions(self, context: ProcessorContext, store: Any) -> StoreFunctions:
        if not store.is_cached:
            return super().functions(context, store)
        return state_functions(context, store, self.aggregates)
