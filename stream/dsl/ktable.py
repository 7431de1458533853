"""KTable, and grouped, windowed and cogrouped streams, which become tables. Java's operators, in snake_case.

Functions get the value, and with `with_key` the key before it; `filter` and `group_by` get key and value.
`store` names or describes the store of a table; `name` names the node of an operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from . import named_aggregations, table_joins, table_operators
from .handles import TableHandle, takes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..processing import ValueGetterSupplier
    from ..processors.aggregate_functions import Aggregate
    from ..records import Row
    from ..topology.specs import Partitioner
    from .kstream import KStream
    from .stores import StoreArgument
    from .suppressed import Suppressed

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
R = TypeVar("R")


class KTable(Generic[K, V]):
    """A table: the latest value of each key."""

    def __init__(self, handle: TableHandle) -> None:
        self.handle = handle

    @property
    def queryable_store_name(self) -> str | None:
        """The name of its store, if the user gave it one."""
        return self.handle.queryable_name

    def filter(
        self, predicate: Callable[[K, V], object], *, store: StoreArgument = None, name: str | None = None
    ) -> KTable[K, V]:
        """The rows for which `predicate` is true."""
        return KTable(
            table_operators.filtered(self.handle, predicate, takes_of(True), store, name, filter_not=False)
        )

    def filter_not(
        self, predicate: Callable[[K, V], object], *, store: StoreArgument = None, name: str | None = None
    ) -> KTable[K, V]:
        """The rows for which `predicate` is false."""
        return KTable(
            table_operators.filtered(self.handle, predicate, takes_of(True), store, name, filter_not=True)
        )

    @overload
    def map_values(
        self, mapper: Callable[[V], R], *, store: StoreArgument = None, name: str | None = None
    ) -> KTable[K, R]: ...
    @overload
    def map_values(
        self,
        mapper: Callable[[K, V], R],
        *,
        with_key: Literal[True],
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    def map_values(
        self,
        mapper: Callable[..., Any],
        *,
        with_key: bool = False,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """The rows with other values."""
        return KTable(table_operators.mapped_values(self.handle, mapper, takes_of(with_key), store, name))

    def transform_values(
        self, transformer: Any, *stores: str, store: StoreArgument = None, name: str | None = None
    ) -> KTable[K, Any]:
        """The rows with the values that a transformer of the user makes; `stores`: those that it uses."""
        return KTable(table_operators.transformed_values(self.handle, transformer, stores, store, name))

    @overload
    def to_stream(self, *, name: str | None = None) -> KStream[K, V]: ...
    @overload
    def to_stream(self, mapper: Callable[[K, V], K2], *, name: str | None = None) -> KStream[K2, V]: ...
    def to_stream(
        self, mapper: Callable[[K, V], Any] | None = None, *, name: str | None = None
    ) -> KStream[Any, V]:
        """The changes as records, under the keys that `mapper` returns, if given."""
        handle = table_operators.to_stream(self.handle, name)
        stream: KStream[Any, V] = self.handle.graph.make_stream(handle)
        return stream if mapper is None else stream.select_key(mapper)

    def suppress(self, suppressed: Suppressed) -> KTable[K, V]:
        """Holds changes back: `until_window_closes()`, `until_time_limit(...)`."""
        return KTable(table_operators.suppressed(self.handle, suppressed))

    def group_by(
        self,
        mapper: Callable[[K, V], tuple[K2, V2]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KGroupedTable[K2, V2]:
        """The rows under other keys and with other values."""
        return KGroupedTable(table_operators.GroupedTable(self.handle, mapper, key, value, name))

    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2], R],
        *,
        how: str = "inner",
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K2, V2],
        joiner: Callable[[V, V2], R],
        *,
        foreign_key: Callable[[V], K2 | None],
        partitioner: Partitioner | None = None,
        other_partitioner: Partitioner | None = None,
        how: str = "inner",
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K2, V2],
        joiner: Callable[[V, V2], R],
        *,
        foreign_key: Callable[[K, V], K2 | None],
        with_key: Literal[True],
        partitioner: Partitioner | None = None,
        other_partitioner: Partitioner | None = None,
        how: str = "inner",
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    def join(
        self, other: KTable[Any, Any], joiner: Callable[[Any, Any], Any], **options: Any
    ) -> KTable[K, Any]:
        """The rows of both tables by key, or by the key of the other table that `foreign_key` takes from the
        value (with `with_key`: from key and value). `how`: "inner", "left" or "outer"."""
        return KTable(table_joins.joined(self.handle, other.handle, joiner, **options))

    def left_join(
        self, other: KTable[Any, V2], joiner: Callable[[V, V2 | None], R], **options: Any
    ) -> KTable[K, R]:
        """As `join`, and with None for a missing right value. The same options."""
        return self.join(other, joiner, how="left", **options)

    def outer_join(
        self, other: KTable[K, V2], joiner: Callable[[V | None, V2 | None], R], **options: Any
    ) -> KTable[K, R]:
        """As `join`, and with None for a missing value of either side. The same options."""
        return self.join(other, joiner, how="outer", **options)


class GlobalKTable(Generic[K, V]):
    """A table of which every worker has all partitions; streams join it by any key."""

    def __init__(self, value_getter_supplier: ValueGetterSupplier, queryable_name: str | None) -> None:
        self.value_getter_supplier = value_getter_supplier
        self.queryable_store_name = queryable_name


class KGroupedTable(Generic[K, V]):
    """A table whose rows are grouped by new keys. Aggregations take the old value of a changed row away."""

    def __init__(self, grouped: table_operators.GroupedTable) -> None:
        self._grouped = grouped

    def count(self, *, store: StoreArgument = None, name: str | None = None) -> KTable[K, int]:
        """The number of rows of each key."""
        return KTable(self._grouped.count(store, name))

    def reduce(
        self,
        add: Callable[[V, V], V],
        subtract: Callable[[V, V], V],
        *,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """The values of each key as one: `add(result, value)`, `subtract(result, old_value)`."""
        return KTable(self._grouped.reduce(add, subtract, store, name))

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        add: Callable[[K, V, R], R],
        subtract: Callable[[K, V, R], R],
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
        add: Any = None,
        subtract: Any = None,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[V],
    ) -> KTable[K, Any]:
        """A result for each key: `add(key, value, result)`, `subtract(key, old_value, result)`; or a row of
        aggregates that can take values away, as total=Sum(...), whose serde in topics is `value`."""
        functions = {"initializer": initializer, "add": add, "subtract": subtract}
        if aggregates:
            named_aggregations.refuse(functions)
            return KTable(self._grouped.aggregate_named(aggregates, value, store, name))
        named_aggregations.require(functions, value)
        return KTable(self._grouped.aggregate(initializer, add, subtract, store, name))
