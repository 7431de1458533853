"""Joins of two tables by key. A change of either side reads the row of the other side and forwards the joined
change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .binding import BindingSupplier
from .table_store import KTableMaterializedValueGetterSupplier

if TYPE_CHECKING:
    from ..processing import Table, TableProcessorSupplier, ValueGetter, ValueGetterSupplier

TableJoiner = Callable[[Any, Any], Any]


class KTableKTableJoin(BindingSupplier):
    """One side of a join: receives the changes of `table1` and reads `table2`. `joiner` takes (value1,
    value2).

    For the other side the DSL swaps the tables and reverses the joiner.
    """

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
        raise NotImplementedError


class KTableKTableInnerJoin(KTableKTableJoin):
    """A row exists while both tables have the key."""


class KTableKTableLeftJoin(KTableKTableJoin):
    """A row exists while `table1`, which sends the changes, has the key."""


class KTableKTableRightJoin(KTableKTableJoin):
    """A row exists while `table2`, which is read, has the key."""


class KTableKTableOuterJoin(KTableKTableJoin):
    """A row exists while either table has the key."""


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
