"""Aggregates of grouped streams and of grouped tables, without windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from .aggregate_runs import RunAggregation, reduce_one
from .binding import BindingSupplier
from .table_store import (
    KTableMaterializedValueGetterSupplier,
    TableStore,
    change_forwarder,
    is_silent,
    operator_store,
)

if TYPE_CHECKING:
    from ...clients.records import Headers
    from ..processing import Forward, InputRun, ProcessorContext, ProcessRun, ValueGetterSupplier
    from .binding import Bound

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]
Reducer = Callable[[Any, Any], Any]


def bound_aggregator(aggregator: Aggregator, context: ProcessorContext) -> Aggregator:
    """The aggregator of one task. One with `bound_to` reads the timestamp of the record from its context."""
    bind = getattr(aggregator, "bound_to", None)
    return aggregator if bind is None else bind(context)


class StoreFunctions(NamedTuple):
    """What an aggregation calls: the store as it reads and writes it, initializer and aggregator."""

    store: Any
    initializer: Initializer
    aggregator: Aggregator


class StoredTableSupplier(BindingSupplier):
    """A supplier of a table that always has a store."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.store_name: str = store.name
        self.send_old_values = False

    def stores(self) -> tuple[Any, ...]:
        return (self.store,)

    def view(self) -> ValueGetterSupplier:
        return KTableMaterializedValueGetterSupplier(self.store_name)

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        self.send_old_values = True
        return True


def _no_value() -> None:
    """The initializer of a reduction."""


def _run_of(
    process: Forward, store: Any, initializer: Initializer, aggregator: Aggregator, *, is_bound: bool
) -> ProcessRun | None:
    if not hasattr(store, "deferred"):
        return None
    aggregation = RunAggregation(process, store, initializer, aggregator, is_bound=is_bound)

    def process_run(run: InputRun) -> None:
        aggregation.by_key(run)

    return process_run


class KStreamAggregate(StoredTableSupplier):
    """Aggregates the records of each key. Records with a null key or value are dropped."""

    def __init__(self, store: Any, initializer: Initializer, aggregator: Aggregator) -> None:
        super().__init__(store)
        self.initializer = initializer
        self.aggregator = aggregator

    def functions(self, context: ProcessorContext, store: Any) -> StoreFunctions:
        """Of one task."""
        return StoreFunctions(store, self.initializer, bound_aggregator(self.aggregator, context))

    def bind(self, context: ProcessorContext) -> Bound:
        stored = operator_store(context, self.store_name)
        own, initializer, aggregator = self.functions(context, stored)
        is_bound = aggregator is not self.aggregator
        store = TableStore(context, self.store_name, own)
        get, put = store.get, store.put
        forward = change_forwarder(context, stored, self.send_old_values)
        dropped = context.dropped

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                dropped("null key or value")
                return
            found = get(key)
            if found is None:
                old = initializer()
            else:
                old, old_timestamp = found
                if old_timestamp > timestamp:
                    timestamp = old_timestamp
            new = aggregator(key, value, old)
            is_latest = put(key, new, timestamp)
            if is_latest is not None:
                forward(key, new, old, timestamp, headers, is_latest)

        if not is_silent(forward):
            return process
        return process, _run_of(process, own, initializer, aggregator, is_bound=is_bound)


class KStreamReduce(StoredTableSupplier):
    """Reduces the values of each key; the first value is the first result. Null keys and values are
    dropped."""

    def __init__(self, store: Any, reducer: Reducer) -> None:
        super().__init__(store)
        self.reducer = reducer

    def bind(self, context: ProcessorContext) -> Bound:
        store = TableStore(context, self.store_name)
        get, put = store.get, store.put
        forward = change_forwarder(context, store.store, self.send_old_values)
        reducer, dropped = self.reducer, context.dropped

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                dropped("null key or value")
                return
            found = get(key)
            old = None
            if found is not None:
                old, old_timestamp = found
                value = reducer(old, value)
                if old_timestamp > timestamp:
                    timestamp = old_timestamp
            is_latest = put(key, value, timestamp)
            if is_latest is not None:
                forward(key, value, old, timestamp, headers, is_latest)

        if not is_silent(forward):
            return process
        return process, _run_of(process, store.store, _no_value, reduce_one(reducer), is_bound=False)


class KTableAggregate(StoredTableSupplier):
    """Aggregates the changes of a grouped table: `remove` takes the old value away, `add` adds the new
    one."""

    def __init__(self, store: Any, initializer: Initializer, add: Aggregator, remove: Aggregator) -> None:
        super().__init__(store)
        self.initializer = initializer
        self.add = add
        self.remove = remove

    def bind(self, context: ProcessorContext) -> Forward:
        store = TableStore(context, self.store_name)
        get, put = store.get, store.put
        forward = change_forwarder(context, store.store, self.send_old_values)
        initializer, add, remove = self.initializer, self.add, self.remove
        name = self.store_name

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                raise ValueError(f"a table aggregate got a null key (store {name!r})")
            new_value, old_value = value[0], value[1]
            found = get(key)
            old = new = None if found is None else found[0]
            if found is not None and (new_value is not None or old_value is not None):
                timestamp = max(timestamp, found[1])
            if old_value is not None and old is not None:
                new = remove(key, old_value, old)
            if new_value is not None:
                new = add(key, new_value, initializer() if new is None else new)
            is_latest = put(key, new, timestamp)
            if is_latest is not None:
                forward(key, new, old, timestamp, headers, is_latest)

        return process


class KTableReduce(StoredTableSupplier):
    """Reduces the changes of a grouped table: `remove_reducer` takes the old value away, `add_reducer` adds
    the new."""

    def __init__(self, store: Any, add_reducer: Reducer, remove_reducer: Reducer) -> None:
        super().__init__(store)
        self.add_reducer = add_reducer
        self.remove_reducer = remove_reducer

    def bind(self, context: ProcessorContext) -> Forward:
        store = TableStore(context, self.store_name)
        get, put = store.get, store.put
        forward = change_forwarder(context, store.store, self.send_old_values)
        add, remove = self.add_reducer, self.remove_reducer
        name = self.store_name

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                raise ValueError(f"a table reduce got a null key (store {name!r})")
            new_value, old_value = value[0], value[1]
            found = get(key)
            old = new = None
            if found is not None:
                old, old_timestamp = found
                new = old
                if old_value is not None:
                    new = remove(old, old_value)
                    timestamp = max(timestamp, old_timestamp)
            if new_value is not None:
                if new is None:
                    new = new_value
                else:
                    assert found is not None
                    new = add(new, new_value)
                    timestamp = max(timestamp, found[1])
            is_latest = put(key, new, timestamp)
            if is_latest is not None:
                forward(key, new, old, timestamp, headers, is_latest)

        return process
