"""Joins of two tables by key. A change of either side reads the row of the other side and forwards the joined
change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..records import Change, ValueAndTimestamp
from .binding import BindingSupplier, BoundProcessor
from .table_store import KTableMaterializedValueGetterSupplier, TableStore, change_forwarder

if TYPE_CHECKING:
    from ...clients.records import Headers
    from ..processing import (
        Forward,
        Processor,
        ProcessorContext,
        Table,
        TableProcessorSupplier,
        ValueGetter,
        ValueGetterSupplier,
    )

TableJoiner = Callable[[Any, Any], Any]


class KTableKTableJoin(BindingSupplier):
    """One side of a join: receives the changes of `table1` and reads `table2`. `joiner` takes (value1,
    value2).

    A row of the join needs the key in `table1` if `needs_first`, in `table2` if `needs_second`, else in
    either. For the other side the DSL swaps the tables and reverses the joiner.
    """

    needs_first: bool
    needs_second: bool

    def __init__(self, table1: Table, table2: Table, joiner: TableJoiner) -> None:
        self.table1 = table1
        self.table2 = table2
        self.getters1 = table1.value_getter_supplier()
        self.getters2 = table2.value_getter_supplier()
        self.joiner = joiner
        self.use_versioned_semantics = False
        self.send_old_values = False

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        self.table1.enable_sending_old_values(True)
        self.table2.enable_sending_old_values(True)
        self.send_old_values = True
        return True

    def view(self) -> ValueGetterSupplier:
        return JoinedValueGetterSupplier(self)

    def row(self, value1: Any, value2: Any) -> Any:
        """The joined value, None where the join has no row."""
        if value1 is None and (self.needs_first or value2 is None):
            return None
        if value2 is None and self.needs_second:
            return None
        return self.joiner(value1, value2)

    def create(self) -> Processor:
        getter = self.getters2.create()
        return BoundProcessor(lambda context: self._bind(context, getter), getter.close)

    def _bind(self, context: ProcessorContext, getter: ValueGetter) -> Forward:
        getter.init(context)
        forward, dropped, get, row = context.forward_changed, context.dropped, getter.get, self.row
        latest_only = self.use_versioned_semantics
        send_old_values, needs_second = self.send_old_values, self.needs_second

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                dropped("null key")
                return
            new, old, is_latest = value
            if latest_only and not is_latest:
                dropped("not the latest version")
                return
            found = get(key)
            if found is None:
                if needs_second or (new is None and old is None):
                    return
                other = None
            else:
                other, other_timestamp = found
                if other_timestamp > timestamp:
                    timestamp = other_timestamp
            change = Change(row(new, other), row(old, other) if send_old_values else None, is_latest)
            forward(key, change, timestamp, headers)

        return process


class KTableKTableInnerJoin(KTableKTableJoin):
    """A row exists while both tables have the key."""

    needs_first = needs_second = True


class KTableKTableLeftJoin(KTableKTableJoin):
    """A row exists while `table1`, which sends the changes, has the key."""

    needs_first, needs_second = True, False


class KTableKTableRightJoin(KTableKTableJoin):
    """A row exists while `table2`, which is read, has the key."""

    needs_first, needs_second = False, True


class KTableKTableOuterJoin(KTableKTableJoin):
    """A row exists while either table has the key."""

    needs_first = needs_second = False


class JoinedValueGetterSupplier:
    """Getters that join the rows of both tables."""

    def __init__(self, join: KTableKTableJoin) -> None:
        self.join = join

    def create(self) -> ValueGetter:
        return JoinedValueGetter(self.join)

    def store_names(self) -> tuple[str, ...]:
        names = self.join.getters1.store_names() + self.join.getters2.store_names()
        return tuple(dict.fromkeys(names))


class JoinedValueGetter:
    """Reads both tables; the timestamp of a row is the higher one of theirs."""

    is_versioned = False

    def __init__(self, join: KTableKTableJoin) -> None:
        self._row = join.row
        self._first = join.getters1.create()
        self._second = join.getters2.create()

    def init(self, context: ProcessorContext) -> None:
        self._first.init(context)
        self._second.init(context)

    def get(self, key: Any) -> ValueAndTimestamp[Any] | None:
        first = self._first.get(key) or _ABSENT
        second = self._second.get(key) or _ABSENT
        row = self._row(first[0], second[0])
        return None if row is None else ValueAndTimestamp(row, max(first[1], second[1]))

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None:
        raise TypeError("a joined table is not versioned: it has no value as of a timestamp")

    def close(self) -> None:
        self._first.close()
        self._second.close()


_ABSENT = ValueAndTimestamp(None, -1)


class KTableKTableJoinMerger(BindingSupplier):
    """The result of a join of tables: forwards the changes of both sides, and stores them if `store` is
    given."""

    def __init__(
        self, parent1: TableProcessorSupplier, parent2: TableProcessorSupplier, store: Any = None
    ) -> None:
        self.parent1 = parent1
        self.parent2 = parent2
        self.store = store
        self.send_old_values = False

    def stores(self) -> tuple[Any, ...]:
        return () if self.store is None else (self.store,)

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        self.parent1.enable_sending_old_values(True)
        self.parent2.enable_sending_old_values(True)
        self.send_old_values = True
        return True

    def bind(self, context: ProcessorContext) -> Forward:
        send_old_values = self.send_old_values
        if self.store is None:
            forward_change = context.forward
            if send_old_values:
                return forward_change

            def without_old(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                forward_change(key, Change(value[0], None, value[2]), timestamp, headers)

            return without_old
        store = TableStore(context, self.store.name)
        put = store.put
        forward = change_forwarder(context, store.store, send_old_values)

        def stored(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            new, old, _ = value
            is_latest = put(key, new, timestamp)
            if is_latest is not None:
                forward(key, new, old, timestamp, headers, is_latest)

        return stored

    def view(self) -> ValueGetterSupplier:
        if self.store is not None:
            return KTableMaterializedValueGetterSupplier(self.store.name)
        return MergedValueGetterSupplier(self.parent1.view(), self.parent2.view())


class MergedValueGetterSupplier:
    """Getters of the first side, connected to the stores of both."""

    def __init__(self, first: ValueGetterSupplier, second: ValueGetterSupplier) -> None:
        self.first = first
        self.second = second

    def create(self) -> ValueGetter:
        return self.first.create()

    def store_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.first.store_names() + self.second.store_names()))
