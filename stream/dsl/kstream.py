"""KStream: a stream of records, in Java's operators with names in snake_case.

Functions get the value, and with `with_key` the key before it; `filter`, `map`, `flat_map`, `select_key`,
`group_by`, `peek`, `foreach` and branches always get key and value. `name` names the node of an operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from ..processors import stateless
from . import asof_joins, async_operators, stream_joins, stream_operators
from .aggregations import Grouped
from .grouped import KGroupedStream
from .handles import StreamHandle, joiner_of, takes_of
from .ktable import GlobalKTable, KTable
from .names import checked
from .stream_joins import NO_SERDES, JoinSerdes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import Unpack

    import pyarrow

    from ..processing import ProcessorSupplier
    from ..processors.user import UserProcessor
    from ..records import Record
    from ..topology.specs import Partitioner, TopicNameExtractor
    from .async_operators import AsyncOptions
    from .durations import Duration
    from .late import Late
    from .stores import Store, StoreArgument
    from .windows import JoinWindows

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
R = TypeVar("R")


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
    def map_values_async(
        self, mapper: Callable[[V], Awaitable[R]], **options: Unpack[AsyncOptions]
    ) -> KStream[K, R]: ...
    @overload
    def map_values_async(
        self,
        mapper: Callable[[K, V], Awaitable[R]],
        *,
        with_key: Literal[True],
        **options: Unpack[AsyncOptions],
    ) -> KStream[K, R]: ...
    @overload
    def map_values_async(
        self,
        mapper: Callable[[Record[K, V]], Awaitable[R]],
        *,
        with_record: Literal[True],
        **options: Unpack[AsyncOptions],
    ) -> KStream[K, R]: ...
    def map_values_async(
        self,
        mapper: Callable[..., Awaitable[Any]],
        *,
        with_key: bool = False,
        with_record: bool = False,
        **options: Unpack[AsyncOptions],
    ) -> KStream[K, Any]:
        """Other values, by an async function: many calls are under way at a time. Options: AsyncOptions."""
        takes = takes_of(with_key, with_record)
        return KStream(async_operators.map_values_async(self._handle, mapper, takes, **options))

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

    def arrow(
        self,
        function: Callable[[pyarrow.RecordBatch], pyarrow.RecordBatch | pyarrow.Table | None],
        *,
        batch: int = 65_536,
        max_wait: Duration = 100,
        name: str | None = None,
    ) -> KStream[Any, Any]:
        """The rows of the pyarrow.RecordBatch that a function returns for one of at most `batch` records. No
        record waits longer than `max_wait`, or than a commit. Errors: ImportError without pyarrow."""
        from . import arrow_operators

        return KStream(arrow_operators.arrow(self._handle, function, batch, max_wait, name))

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

    def to_table(
        self, *, name: str | None = None, store: StoreArgument = None, late: Late | None = None
    ) -> KTable[K, V]:
        """The records as updates of a table; a None value deletes its key. `late`: a topic or function for
        updates that are older than the history of a versioned table."""
        return KTable(stream_operators.to_table(self._handle, name, store, late))

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
        late: Late | None = None,
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
        of a global table for the key that `key` returns. `how`: "inner", "left" or "outer". `late`: a topic
        or function for records that are too old for the window of a join of streams."""
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

    @overload
    def join_asof(
        self,
        other: KStream[K, V2] | KTable[K, V2],
        joiner: Callable[[V, V2], R],
        *,
        tolerance: Duration | None = None,
        direction: Literal["backward", "forward", "nearest"] = "backward",
        grace: Duration = 0,
        how: Literal["inner"] = "inner",
        serdes: JoinSerdes = NO_SERDES,
        store: StoreArgument = None,
        late: Late | None = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join_asof(
        self,
        other: KStream[K, V2] | KTable[K, V2],
        joiner: Callable[[V, V2 | None], R],
        *,
        how: Literal["left"],
        tolerance: Duration | None = None,
        direction: Literal["backward", "forward", "nearest"] = "backward",
        grace: Duration = 0,
        serdes: JoinSerdes = NO_SERDES,
        store: StoreArgument = None,
        late: Late | None = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join_asof(
        self, other: Any, joiner: Callable[..., R], *, with_key: Literal[True], **options: Any
    ) -> KStream[K, R]: ...
    def join_asof(
        self,
        other: KStream[K, Any] | KTable[K, Any],
        joiner: Callable[..., Any],
        *,
        with_key: bool = False,
        **options: Any,
    ) -> KStream[K, Any]:
        """Each record with the latest earlier one of its key in another stream, at most `tolerance` older,
        with the first later one ("forward") or the nearest; or with the row of a versioned table as of its
        time.

        `grace`: records wait that long for records of the other side that are out of order."""
        join = asof_joins.AsofJoin(joiner_of(joiner, with_key), **options)
        if isinstance(other, KTable):
            return KStream(asof_joins.join_versions(self._handle, other.handle, join))
        return self._join_asof_stream(other, join)

    def _join_asof_stream(self, other: KStream[Any, Any], join: asof_joins.AsofJoin) -> KStream[K, Any]:
        return KStream(asof_joins.join_stream(self._handle, other._handle, join))

    def _join(
        self, how: str, other: Any, joiner: Callable[[Any, Any, Any], Any], options: dict[str, Any]
    ) -> KStream[K, Any]:
        if how not in ("inner", "left", "outer"):
            raise ValueError(f'how must be "inner", "left" or "outer", not {how!r}')
        if isinstance(other, KStream):
            if "window" not in options:
                raise TypeError("a join of two streams needs window=, such as stream.join_window(60_000)")
            return self._join_stream(how, other, joiner, options)
        if how == "outer":
            raise ValueError("a stream and a table have no outer join: the table does not trigger results")
        is_left = how == "left"
        if isinstance(other, KTable):
            table = other.handle
            return KStream(stream_joins.join_table(self._handle, table, joiner, is_left=is_left, **options))
        if isinstance(other, GlobalKTable):
            if "key" not in options:
                raise TypeError("a join with a global table needs key=, the function that returns its key")
            getters = other.value_getter_supplier
            return KStream(
                stream_joins.join_global_table(self._handle, getters, joiner, is_left=is_left, **options)
            )
        raise TypeError(f"a stream joins a KStream, KTable or GlobalKTable, not {other!r}")

    def _join_stream(
        self,
        how: str,
        other: KStream[Any, Any],
        joiner: Callable[[Any, Any, Any], Any],
        options: dict[str, Any],
    ) -> KStream[K, Any]:
        return KStream(stream_joins.join_streams(self._handle, other._handle, joiner, how=how, **options))

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
