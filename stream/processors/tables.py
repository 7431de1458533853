"""Processors of tables that keep at most the table itself: source, filter, mapped values, regrouping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..processing import Takes
from ..records import Change, ValueAndTimestamp
from .binding import BindingSupplier
from .late_records import on_late
from .table_store import KTableMaterializedValueGetterSupplier, TableStore, change_forwarder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...clients.records import Headers
    from ..processing import Forward, ProcessorContext, Table, ValueGetter, ValueGetterSupplier
    from .aggregates import StoredTableSupplier
    from .late_records import LateRecords


class KTableSource(BindingSupplier):
    """Turns the records of a topic into changes of a table. `queryable`: the table is stored even if no
    operator reads it.

    A store is added when an operator needs to read the table (`view`) or its old values. `late` gets what is
    older than the history of a versioned store.
    """

    def __init__(self, store: Any, queryable: bool = False, late: LateRecords | None = None) -> None:
        self.store = store
        self.late = late
        self.store_name: str = store.name
        self.materialized = queryable
        self.send_old_values = False

    def stores(self) -> tuple[Any, ...]:
        return (self.store,) if self.materialized else ()

    def view(self) -> ValueGetterSupplier:
        self.materialized = True
        return KTableMaterializedValueGetterSupplier(self.store_name)

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        if not force_materialization and not self.materialized:
            return False
        self.send_old_values = self.materialized = True
        return True

    def bind(self, context: ProcessorContext) -> Forward:
        dropped = context.dropped
        if not self.materialized:
            forward_change = context.forward

            def pass_on(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                if key is None:
                    dropped("null key")
                    return
                forward_change(key, Change(value, None), timestamp, headers)

            return pass_on
        store = TableStore(context, self.store_name)
        get, put = store.get, store.put
        forward = change_forwarder(context, store.store, self.send_old_values)
        late, stream_time = on_late(self.late, context), context.current_stream_time_ms

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                dropped("null key")
                return
            found = get(key)
            is_latest = put(key, value, timestamp)
            if is_latest is None:
                late(key, value, timestamp, headers, None, stream_time())
            else:
                forward(key, value, None if found is None else found[0], timestamp, headers, is_latest)

        return process


class DerivedTableSupplier(BindingSupplier):
    """A supplier of a table that is computed from `parent`, and that has a store only if `store` is given."""

    def __init__(self, parent: Table, store: Any) -> None:
        self.parent = parent
        self.store = store
        self.send_old_values = False

    def stores(self) -> tuple[Any, ...]:
        return () if self.store is None else (self.store,)

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        if self.store is not None or self.parent.enable_sending_old_values(force_materialization):
            self.send_old_values = True
        return self.send_old_values

    def view(self) -> ValueGetterSupplier:
        if self.store is not None:
            return KTableMaterializedValueGetterSupplier(self.store.name)
        return DerivedValueGetterSupplier(self.parent.value_getter_supplier(), self.getter)

    def getter(self, parent: ValueGetter) -> ValueGetter:
        """A getter that computes from that of the parent."""
        raise NotImplementedError


class DerivedValueGetterSupplier:
    """Getters that compute from the getters of a parent table."""

    def __init__(self, parent: ValueGetterSupplier, wrap: Callable[[ValueGetter], ValueGetter]) -> None:
        self.parent = parent
        self.wrap = wrap

    def create(self) -> ValueGetter:
        return self.wrap(self.parent.create())

    def store_names(self) -> tuple[str, ...]:
        return self.parent.store_names()


class DerivedValueGetter:
    """Applies `compute(key, found)` to what the parent's getter returns."""

    def __init__(
        self,
        parent: ValueGetter,
        compute: Callable[[Any, ValueAndTimestamp[Any] | None], ValueAndTimestamp[Any] | None],
    ) -> None:
        self.parent = parent
        self.compute = compute

    @property
    def is_versioned(self) -> bool:
        return self.parent.is_versioned

    def init(self, context: ProcessorContext) -> None:
        self.parent.init(context)

    def get(self, key: Any) -> ValueAndTimestamp[Any] | None:
        return self.compute(key, self.parent.get(key))

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None:
        return self.compute(key, self.parent.get_as_of(key, timestamp))

    def close(self) -> None:
        self.parent.close()


def of_key_and_value(function: Callable[..., Any], takes: Takes) -> Callable[[Any, Any], Any]:
    """`function` of (key, value). Tables have no records: Takes.RECORD is a ValueError."""
    if takes is Takes.RECORD:
        raise ValueError("a function of a table takes the value, or the key and the value")
    return (lambda _key, value: function(value)) if takes is Takes.VALUE else function


class KTableFilter(DerivedTableSupplier):
    """Keeps the rows for which `predicate` is true; with `filter_not`, the others."""

    def __init__(
        self,
        parent: Table,
        predicate: Callable[..., Any],
        filter_not: bool = False,
        store: Any = None,
        takes: Takes = Takes.KEY_VALUE,
    ) -> None:
        super().__init__(parent, store)
        self.predicate = of_key_and_value(predicate, takes)
        self.filter_not = filter_not
        self.use_versioned_semantics = False
        # A row that never passed is not forwarded as a deletion; known only with the old value.
        self.send_old_values = parent.enable_sending_old_values(False)

    def _kept(self, key: Any, value: Any) -> Any:
        if value is not None and bool(self.predicate(key, value)) != self.filter_not:
            return value
        return None

    def getter(self, parent: ValueGetter) -> ValueGetter:
        kept = self._kept
        return DerivedValueGetter(
            parent, lambda key, found: None if found is None or kept(key, found[0]) is None else found
        )

    def bind(self, context: ProcessorContext) -> Forward:
        kept = self._kept
        send_old_values = self.send_old_values
        skip_unseen = send_old_values and not self.use_versioned_semantics
        if self.store is None:
            forward_change = context.forward

            def computed(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                new = kept(key, value[0])
                old = kept(key, value[1]) if send_old_values else None
                if new is None and old is None and skip_unseen:
                    return
                forward_change(key, Change(new, old, value[2]), timestamp, headers)

            return computed
        store = TableStore(context, self.store.name)
        get, put = store.get, store.put
        forward = change_forwarder(context, store.store, send_old_values)

        def stored(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            new = kept(key, value[0])
            found = get(key) if send_old_values else None
            if new is None and found is None and skip_unseen:
                return
            is_latest = put(key, new, timestamp)
            if is_latest is not None:
                forward(key, new, None if found is None else found[0], timestamp, headers, is_latest)

        return stored


class KTableMapValues(DerivedTableSupplier):
    """Maps the values of a table; deletions stay deletions."""

    def __init__(
        self, parent: Table, mapper: Callable[..., Any], store: Any = None, takes: Takes = Takes.KEY_VALUE
    ) -> None:
        super().__init__(parent, store)
        self.mapper = of_key_and_value(mapper, takes)

    def getter(self, parent: ValueGetter) -> ValueGetter:
        return DerivedValueGetter(parent, self._compute)

    def _compute(self, key: Any, found: ValueAndTimestamp[Any] | None) -> ValueAndTimestamp[Any] | None:
        new = None if found is None else self.mapper(key, found[0])
        return None if new is None or found is None else ValueAndTimestamp(new, found[1])

    def bind(self, context: ProcessorContext) -> Forward:
        mapper = self.mapper
        send_old_values = self.send_old_values
        if self.store is None:
            forward_change = context.forward

            def computed(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                new, old, is_latest = value
                if new is not None:
                    new = mapper(key, new)
                old = mapper(key, old) if send_old_values and old is not None else None
                forward_change(key, Change(new, old, is_latest), timestamp, headers)

            return computed
        store = TableStore(context, self.store.name)
        get, put = store.get, store.put
        forward = change_forwarder(context, store.store, send_old_values)

        def stored(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            new = value[0]
            if new is not None:
                new = mapper(key, new)
            found = get(key) if send_old_values else None
            is_latest = put(key, new, timestamp)
            if is_latest is not None:
                forward(key, new, None if found is None else found[0], timestamp, headers, is_latest)

        return stored


class KTablePassThrough(BindingSupplier):
    """The result of a cogroup: forwards the changes of its aggregates, which share one store."""

    def __init__(self, parents: Sequence[StoredTableSupplier], store_name: str) -> None:
        self.parents = tuple(parents)
        self.store_name = store_name

    def view(self) -> ValueGetterSupplier:
        return KTableMaterializedValueGetterSupplier(self.store_name)

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        for parent in self.parents:
            parent.enable_sending_old_values(force_materialization)
        return True

    def bind(self, context: ProcessorContext) -> Forward:
        return context.forward


class KTableRepartitionMap(BindingSupplier):
    """Regroups a table: forwards the removal of the old value from its group and the addition of the new one.

    Both go out as one change if they belong to the same group. Errors: ValueError for a null key.
    """

    def __init__(self, parent: Table, mapper: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        self.parent = parent
        self.mapper = mapper
        self.use_versioned_semantics = False

    def view(self) -> ValueGetterSupplier:
        raise TypeError("a regrouped table has no store: it is repartitioned")

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        raise TypeError("a regrouped table always receives old values")

    def bind(self, context: ProcessorContext) -> Forward:
        forward = context.forward
        mapper = self.mapper
        latest_only = self.use_versioned_semantics

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                raise ValueError("group_by of a table got a null key")
            new, old, is_latest = value
            if latest_only and not is_latest:
                return
            new_key, new = (None, None) if new is None else mapper(key, new)
            old_key, old = (None, None) if old is None else mapper(key, old)
            has_old = old_key is not None and old is not None
            has_new = new_key is not None and new is not None
            if has_old and has_new and old_key == new_key:
                forward(old_key, Change(new, old, is_latest), timestamp, headers)
                return
            if has_old:
                forward(old_key, Change(None, old, is_latest), timestamp, headers)
            if has_new:
                forward(new_key, Change(new, None, is_latest), timestamp, headers)

        return process
