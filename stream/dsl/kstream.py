"""KStream: a stream of records, in Java's operators with names in snake_case.

Functions get the value, and with `with_key` the key before it; `filter`, `map`, `flat_map`, `select_key`,
`group_by`, `peek`, `foreach` and branches always get key and value. `name` names the node of an operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from ..processors import stateless
from . import stream_joins, stream_operators
from .aggregations import Grouped
from .handles import StreamHandle, TableHandle, joiner_of, takes_of
from .ktable import GlobalKTable, KGroupedStream, KTable
from .names import checked
from .stores import Store, StoreArgument
from .stream_joins import JoinSerdes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..processing import ProcessorSupplier
    from ..processors.user import UserProcessor
    from ..records import Record
    from ..topology.specs import Partitioner, TopicNameExtractor
    from .durations import Duration
    from .windows import JoinWindows

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
R = TypeVar("R")

NO_SERDES = JoinSerdes()


class KStream(Generic[K, V]):
    """A stream of records. Every record stands for itself."""

    def __init__(self, handle: StreamHandle) -> None:
        self._handle = handle

    # records

    def filter(self, predicate: Callable[[K, V], object], *, name: str | None = None) -> KStream[K, V]:
        """The records for which `predicate` is true."""
        return self._same(stateless.KStreamFilter(predicate), name, "KSTREAM-FILTER-")

    def filter_not(self, predicate: Callable[[K, V], object], *, name: str | None = None) -> KStream[K, V]:
        """The records for which `predicate` is false."""
        return self._same(stateless.KStreamFilter(predicate, True), name, "KSTREAM-FILTER-")

    def map(self, mapper: Callable[[K, V], tuple[K2, V2]], *, name: str | None = None) -> KStream[K2, V2]:
        """Other keys and values."""
        supplier = stateless.KStreamMap(mapper)
        return KStream(stream_operators.new_keys(self._handle, supplier, name, "KSTREAM-MAP-"))

    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[K2, V2]]], *, name: str | None = None
    ) -> KStream[K2, V2]:
        """Any number of other keys and values for each record."""
        supplier = stateless.KStreamFlatMap(mapper)
        return KStream(stream_operators.new_keys(self._handle, supplier, name, "KSTREAM-FLATMAP-"))

    def select_key(self, mapper: Callable[[K, V], K2], *, name: str | None = None) -> KStream[K2, V]:
        """Other keys."""
        return KStream(stream_operators.select_key(self._handle, mapper, takes_of(True), name))

    @overload
    def map_values(self, mapper: Callable[[V], R], *, name: str | None = None) -> KStream[K, R]: ...
    @overload
    def map_values(
        self, mapper: Callable[[K, V], R], *, with_key: Literal[True], name: str | None = None
    ) -> KStream[K, R]: ...
    @overload
    def map_values(
        self, mapper: Callable[[Record[K, V]], R], *, with_record: Literal[True], name: str | None = None
    ) -> KStream[K, R]: ...
    def map_values(
        self,
        mapper: Callable[..., Any],
        *,
        with_key: bool = False,
        with_record: bool = False,
        name: str | None = None,
    ) -> KStream[K, Any]:
        """Other values."""
        supplier = stateless.KStreamMapValues(mapper, takes_of(with_key, with_record))
        return KStream(stream_operators.new_values(self._handle, supplier, name, "KSTREAM-MAPVALUES-"))

    @overload
    def flat_map_values(
        self, mapper: Callable[[V], Iterable[R]], *, name: str | None = None
    ) -> KStream[K, R]: ...
    @overload
    def flat_map_values(
        self, mapper: Callable[[K, V], Iterable[R]], *, with_key: Literal[True], name: str | None = None
    ) -> KStream[K, R]: ...
    @overload
    def flat_map_values(
        self,
        mapper: Callable[[Record[K, V]], Iterable[R]],
        *,
        with_record: Literal[True],
        name: str | None = None,
    ) -> KStream[K, R]: ...
    def flat_map_values(
        self,
        mapper: Callable[..., Iterable[Any]],
        *,
        with_key: bool = False,
        with_record: bool = False,
        name: str | None = None,
    ) -> KStream[K, Any]:
        """Any number of other values for each record."""
        supplier = stateless.KStreamFlatMapValues(mapper, takes_of(with_key, with_record))
        return KStream(stream_operators.new_values(self._handle, supplier, name, "KSTREAM-FLATMAPVALUES-"))

    def peek(self, action: Callable[[K, V], object], *, name: str | None = None) -> KStream[K, V]:
        """Calls `action` for each record, and passes the record on."""
        return self._same(stateless.KStreamPeek(action), name, "KSTREAM-PEEK-")

    def foreach(self, action: Callable[[K, V], object], *, name: str | None = None) -> None:
        """Calls `action` for each record."""
        stream_operators.terminal(self._handle, stateless.KStreamForeach(action), name, "KSTREAM-FOREACH-")

    def print(
        self,
        *,
        label: str | None = None,
        mapper: Callable[[K, V], str] | None = None,
        write: Callable[[str], object] | None = None,
        name: str | None = None,
    ) -> None:
        """Writes each record as a line to `write`, by default that of standard output."""
        stream_operators.print_records(self._handle, label, mapper, write, name)

    # streams

    def merge(self, other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
        """The records of both streams."""
        return KStream(stream_operators.merge(self._handle, other._handle, name))

    def __add__(self, other: KStream[K, V]) -> KStream[K, V]:
        return self.merge(other)

    def split(self, *, name: str | None = None) -> BranchedKStream[K, V]:
        """Begins to split the stream: each record goes to the first branch whose predicate is true."""
        return BranchedKStream(stream_operators.Splitter(self._handle, name))

    def repartition(
        self,
        *,
        key: Any = None,
        value: Any = None,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
        name: str | None = None,
    ) -> KStream[K, V]:
        """The records through an internal topic, partitioned by their key."""
        return KStream(stream_operators.repartition(self._handle, name, key, value, partitions, partitioner))

    def to(
        self,
        topic: str | TopicNameExtractor,
        *,
        key: Any = None,
        value: Any = None,
        partitioner: Partitioner | None = None,
        name: str | None = None,
    ) -> None:
        """Writes to a topic, or to the topic that a function of key, value and RecordContext returns."""
        stream_operators.to(self._handle, topic, key, value, partitioner, name)

    def to_table(self, *, name: str | None = None, store: StoreArgument = None) -> KTable[K, V]:
        """The records as updates of a table; a None value deletes its key."""
        return KTable(stream_operators.to_table(self._handle, name, store))

    def process(self, processor: UserProcessor, *stores: str, name: str | None = None) -> KStream[Any, Any]:
        """What a processor of the Processor API forwards. `stores`: those that it uses."""
        return KStream(stream_operators.process(self._handle, processor, name, stores))

    def process_values(
        self, processor: UserProcessor, *stores: str, name: str | None = None
    ) -> KStream[K, Any]:
        """What a processor forwards that cannot change keys."""
        return KStream(stream_operators.process_values(self._handle, processor, name, stores))

    # groups

    def group_by_key(
        self, *, key: Any = None, value: Any = None, name: str | None = None
    ) -> KGroupedStream[K, V]:
        """The records of each key. `name`: of the repartition topic, if the key was changed."""
        handle = self._handle
        return KGroupedStream(
            Grouped(
                handle,
                handle.key if key is None else key,
                handle.value if value is None else value,
                None if name is None else checked(name),
                handle.needs_repartition,
            )
        )

    def group_by(
        self, mapper: Callable[[K, V], K2], *, key: Any = None, value: Any = None, name: str | None = None
    ) -> KGroupedStream[K2, V]:
        """The records of each new key. `name`: of the operator and the repartition topic."""
        handle = stream_operators.select_key(self._handle, mapper, takes_of(True), name)
        value = self._handle.value if value is None else value
        return KGroupedStream(Grouped(handle, key, value, name, True))

    # joins

    @overload
    def join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V, V2], R],
        *,
        window: JoinWindows,
        serdes: JoinSerdes = NO_SERDES,
        store: StoreArgument = None,
        other_store: Store | None = None,
        how: str = "inner",
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2], R],
        *,
        grace: Duration | None = None,
        serdes: JoinSerdes = NO_SERDES,
        how: str = "inner",
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[K2, V2],
        joiner: Callable[[V, V2], R],
        *,
        key: Callable[[K, V], K2],
        how: str = "inner",
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self, other: Any, joiner: Callable[..., R], *, with_key: Literal[True], **options: Any
    ) -> KStream[K, R]: ...
    def join(
        self,
        other: KStream[K, Any] | KTable[K, Any] | GlobalKTable[Any, Any],
        joiner: Callable[..., Any],
        *,
        with_key: bool = False,
        how: str = "inner",
        **options: Any,
    ) -> KStream[K, Any]:
        """Pairs of values: with the records of another stream within a window, the row of a table, or the row
        of a global table for the key that `key` returns. `how`: "inner", "left" or "outer"."""
        return self._join(how, other, joiner_of(joiner, with_key), options)

    @overload
    def left_join(
        self,
        other: KStream[K, V2] | KTable[K, V2] | GlobalKTable[Any, V2],
        joiner: Callable[[V, V2 | None], R],
        **options: Any,
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self, other: Any, joiner: Callable[..., R], *, with_key: Literal[True], **options: Any
    ) -> KStream[K, R]: ...
    def left_join(self, other: Any, joiner: Callable[..., Any], **options: Any) -> KStream[K, Any]:
        """As `join`, and with None for a missing right value. The same options."""
        return self.join(other, joiner, how="left", **options)

    @overload
    def outer_join(
        self, other: KStream[K, V2], joiner: Callable[[V | None, V2 | None], R], **options: Any
    ) -> KStream[K, R]: ...
    @overload
    def outer_join(
        self, other: KStream[K, V2], joiner: Callable[..., R], *, with_key: Literal[True], **options: Any
    ) -> KStream[K, R]: ...
    def outer_join(
        self, other: KStream[K, Any], joiner: Callable[..., Any], **options: Any
    ) -> KStream[K, Any]:
        """As `join`, and with None for a missing value of either side. The same options."""
        return self.join(other, joiner, how="outer", **options)

    def _join(
        self, how: str, other: Any, joiner: Callable[[Any, Any, Any], Any], options: dict[str, Any]
    ) -> KStream[K, Any]:
        if how not in ("inner", "left", "outer"):
            raise ValueError(f'how must be "inner", "left" or "outer", not {how!r}')
        if isinstance(other, KStream):
            return KStream(self._join_stream(how, other, joiner, **options))
        if how == "outer":
            raise ValueError("a stream and a table have no outer join: the table does not trigger results")
        if isinstance(other, KTable):
            return KStream(self._join_table(how == "left", other.handle, joiner, **options))
        if isinstance(other, GlobalKTable):
            return KStream(self._join_global_table(how == "left", other, joiner, **options))
        raise TypeError(f"a stream joins a KStream, KTable or GlobalKTable, not {other!r}")

    def _join_stream(
        self,
        how: str,
        other: KStream[Any, Any],
        joiner: Callable[[Any, Any, Any], Any],
        *,
        window: JoinWindows,
        serdes: JoinSerdes = NO_SERDES,
        store: StoreArgument = None,
        other_store: Store | None = None,
        name: str | None = None,
    ) -> StreamHandle:
        return stream_joins.join_streams(
            self._handle,
            other._handle,
            joiner,
            window,
            serdes,
            keeps_left=how != "inner",
            keeps_right=how == "outer",
            name=name,
            store=Store(store) if isinstance(store, str) else store or Store(),
            other_store=other_store,
        )

    def _join_table(
        self,
        is_left: bool,
        table: TableHandle,
        joiner: Callable[[Any, Any, Any], Any],
        *,
        grace: Duration | None = None,
        serdes: JoinSerdes = NO_SERDES,
        name: str | None = None,
    ) -> StreamHandle:
        return stream_joins.join_table(
            self._handle, table, joiner, serdes, is_left=is_left, grace=grace, name=name
        )

    def _join_global_table(
        self,
        is_left: bool,
        table: GlobalKTable[Any, Any],
        joiner: Callable[[Any, Any, Any], Any],
        *,
        key: Callable[[Any, Any], Any],
        name: str | None = None,
    ) -> StreamHandle:
        return stream_joins.join_global_table(
            self._handle, table.value_getter_supplier, key, joiner, is_left=is_left, name=name
        )

    def _same(self, supplier: ProcessorSupplier, name: str | None, prefix: str) -> KStream[K, V]:
        return KStream(stream_operators.same_records(self._handle, supplier, name, prefix))


class BranchedKStream(Generic[K, V]):
    """A stream that is being split. The result of the last call: the branches by name.

    A branch has the name of the split and its own, or its number; the default branch has number 0.
    `chain`: makes another stream of the branch, or consumes it (None).
    """

    def __init__(self, splitter: stream_operators.Splitter) -> None:
        self._splitter = splitter
        self._branches: dict[str, KStream[Any, Any]] = {}

    def branch(
        self,
        predicate: Callable[[K, V], object],
        *,
        name: str | None = None,
        chain: Callable[[KStream[K, V]], KStream[Any, Any] | None] | None = None,
    ) -> BranchedKStream[K, V]:
        """Adds a branch for the records for which `predicate` is the first that is true."""
        self._add(self._splitter.branch(predicate, name), chain)
        return self

    def default_branch(
        self,
        *,
        name: str | None = None,
        chain: Callable[[KStream[K, V]], KStream[Any, Any] | None] | None = None,
    ) -> dict[str, KStream[K, V]]:
        """Adds a branch for all other records."""
        self._add(self._splitter.default_branch(name), chain)
        return self._branches

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """All other records are dropped."""
        return self._branches

    def _add(
        self, handle: StreamHandle, chain: Callable[[KStream[K, V]], KStream[Any, Any] | None] | None
    ) -> None:
        stream: KStream[K, V] = KStream(handle)
        output = stream if chain is None else chain(stream)
        if output is not None:
            self._branches[handle.name] = output
