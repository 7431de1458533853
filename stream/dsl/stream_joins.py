"""Joins of a stream with another stream, a table or a global table.

Source: KStreamImpl.doJoin, KStreamImplJoin, KStreamImpl.doStreamTableJoin, KStreamImpl.doGlobalTableJoin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..processors.stateless import PassThrough
from ..processors.stream_joins import (
    KStreamJoinWindow,
    KStreamKStreamJoinLeftSide,
    KStreamKStreamJoinRightSide,
    KStreamKStreamSelfJoin,
    TimeTrackers,
)
from ..processors.stream_table_joins import KStreamGlobalKTableJoin, KStreamKTableJoin
from ..state.builders import StoreBuilder
from ..state.formats.joins import left_or_right_value, timestamped_key_and_join_side
from ..state.store_spec import StoreKind
from ..topology.errors import TopologyError
from ..topology.serdes import DerivedSerde
from .durations import Duration, to_ms
from .graph import JoinWindowNode, StreamStreamJoinNode, StreamTableJoinNode
from .handles import StreamHandle, reversed_joiner
from .late import LateRoute, checked_late
from .names import checked
from .repartition import repartition_node
from .stores import Store, StoreArgument, join_window_store, supplier_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..processing import ValueGetterSupplier
    from .handles import TableHandle
    from .late import Late
    from .windows import JoinWindows


@dataclass(frozen=True, slots=True)
class JoinSerdes:
    """Serdes of key, left and right value, where those of the streams do not serve."""

    key: Any = None
    left: Any = None
    right: Any = None


NO_SERDES = JoinSerdes()


def join_streams(
    left: StreamHandle,
    right: StreamHandle,
    joiner: Callable[[Any, Any, Any], Any],
    *,
    how: str,
    window: JoinWindows,
    serdes: JoinSerdes = NO_SERDES,
    store: StoreArgument = None,
    other_store: Store | None = None,
    late: Late | None = None,
    name: str | None = None,
) -> StreamHandle:
    """Pairs of records with one key within a window. `how`: "inner", or with the records that found none in
    theirs: "left" or "outer".

    `store.name` is the base of the names of the stores. With `other_store`, the two name one store each.
    """
    left, right = repartitioned_sides(left, right, serdes, name)
    left.copartition_with(right)
    described = Store(store) if isinstance(store, str) else store or Store()
    stores = described, other_store
    return _StreamStreamJoin(
        left, right, window, serdes, how != "inner", how == "outer", stores, checked_late(late)
    ).add(joiner, name)


def repartitioned_sides(
    left: StreamHandle, right: StreamHandle, serdes: JoinSerdes, name: str | None
) -> tuple[StreamHandle, StreamHandle]:
    """Both sides of a join of streams, through repartition topics where their keys were changed."""
    if left.needs_repartition:
        prefix = left.name if name is None else f"{checked(name)}-left"
        left = _repartitioned(left, prefix, serdes.key, serdes.left, is_named=name is not None)
    if right.needs_repartition:
        prefix = right.name if name is None else f"{checked(name)}-right"
        right = _repartitioned(right, prefix, serdes.key, serdes.right, is_named=name is not None)
    return left, right


class _StreamStreamJoin:
    """Names, stores and nodes of one join."""

    def __init__(
        self,
        left: StreamHandle,
        right: StreamHandle,
        windows: JoinWindows,
        serdes: JoinSerdes,
        keeps_left: bool,
        keeps_right: bool,
        stores: tuple[Store, Store | None],
        late: Late | None,
    ) -> None:
        self.graph = left.graph
        self.left = left
        self.right = right
        self.windows = windows
        self.serdes = JoinSerdes(
            left.key if serdes.key is None else serdes.key,
            left.value if serdes.left is None else serdes.left,
            right.value if serdes.right is None else serdes.right,
        )
        self.keeps_left = keeps_left
        self.keeps_right = keeps_right
        self.store, self.other_store = store, _ = stores
        self.late = late
        self.persistent = self.graph.stores_are_persistent if store.persistent is None else store.persistent

    def add(self, joiner: Callable[[Any, Any, Any], Any], name: str | None) -> StreamHandle:
        names = self.graph.names
        left_window = names.suffixed_or(name, "-this-windowed", "KSTREAM-WINDOWED-")
        right_window = names.suffixed_or(name, "-other-windowed", "KSTREAM-WINDOWED-")
        left_generated = names.generated("KSTREAM-OUTERTHIS-" if self.keeps_right else "KSTREAM-JOINTHIS-")
        right_generated = names.generated("KSTREAM-OUTEROTHER-" if self.keeps_left else "KSTREAM-JOINOTHER-")
        left_suffix = "-outer-this-join" if self.keeps_right else "-this-join"
        right_suffix = "-outer-other-join" if self.keeps_left else "-other-join"
        left_join = left_generated if name is None else checked(name + left_suffix)
        right_join = right_generated if name is None else checked(name + right_suffix)
        merge = names.suffixed_or(name, "-merge", "KSTREAM-MERGE-")
        left_store = self._window_store(left_generated, left_suffix, self.serdes.left, self.store)
        right_store = self._window_store(
            right_generated, right_suffix, self.serdes.right, self.other_store or self.store
        )
        if left_store.name == right_store.name:
            raise TopologyError(f"both sides of the join have a store with the name {left_store.name}")
        self._add_window(left_window, left_store, self.left, name, is_left=True)
        self._add_window(right_window, right_store, self.right, name, is_left=False)
        outer_store = self._outer_store(left_generated) if self.keeps_left else None
        trackers = TimeTrackers()
        join_left = KStreamKStreamJoinLeftSide(
            self.windows, joiner, self.keeps_left, trackers, right_store, outer_store
        )
        join_right = KStreamKStreamJoinRightSide(
            self.windows, reversed_joiner(joiner), self.keeps_right, trackers, left_store, outer_store
        )
        retention = self.windows.size_ms + self.windows.grace_ms
        node = StreamStreamJoinNode(
            merge,
            [(left_join, join_left, left_window), (right_join, join_right, right_window)],
            PassThrough(),
            KStreamKStreamSelfJoin(left_store, self.windows, joiner, retention),
        )
        node.accepts_null_keys = self.keeps_left or self.keeps_right
        self.graph.add(node, self.left.node, self.right.node)
        return StreamHandle(
            self.graph, merge, node, self.left.sources | self.right.sources, self.serdes.key, None
        )

    def _add_window(
        self, node_name: str, store: StoreBuilder, stream: StreamHandle, name: str | None, *, is_left: bool
    ) -> None:
        bounds = self.windows.before_ms, self.windows.after_ms
        value = self.serdes.left if is_left else self.serdes.right
        suffix = "-this-late" if is_left else "-other-late"
        route = LateRoute(self.graph, self.late, name, suffix, self.serdes.key, value)
        node = JoinWindowNode(
            node_name, KStreamJoinWindow(store, route.records, bounds if is_left else bounds[::-1])
        )
        node.late_sink = route.sink
        self.graph.add(node, stream.node)

    def _window_store(self, generated: str, suffix: str, value: Any, store: Store) -> StoreBuilder:
        if self.other_store is not None:
            if store.name is None:
                raise TopologyError("a store for one side of a join needs a name")
            name, config = store.name, store.config
        else:
            if store.name is None:
                self.graph.unnamed.append(f"store {generated}-store")
            name = f"{generated if store.name is None else store.name + suffix}-store"
            config = {**store.config, "cleanup.policy": "delete"}
        default, chosen = self.graph.stores_are_persistent, store.persistent
        return join_window_store(
            name,
            self.windows,
            self.serdes.key,
            value,
            config,
            is_logged=store.logged,
            persistent=default if chosen is None else chosen,
            headers=self.graph.stores_have_headers and self.other_store is None,
            supplier=supplier_of(self.graph, store),
        )

    def _outer_store(self, left_generated: str) -> StoreBuilder:
        """The store of records that wait for the other side until their window closes."""
        suffix = "-outer-shared-join" if self.keeps_right else "-left-shared-join"
        if self.store.name is not None:
            base = self.store.name + suffix
        else:
            side = "KSTREAM-OUTERTHIS-" if self.keeps_right else "KSTREAM-JOINTHIS-"
            base = f"KSTREAM-OUTERSHARED-{left_generated.removeprefix(side)}"
            self.graph.unnamed.append(f"store {base}-store")
        return StoreBuilder(
            f"{base}-store",
            StoreKind.LIST_VALUE,
            key_serde=DerivedSerde(timestamped_key_and_join_side, (("key", self.serdes.key),)),
            value_serde=DerivedSerde(
                left_or_right_value, (("value", self.serdes.left), ("value", self.serdes.right))
            ),
            persistent=self.persistent,
            supplier=supplier_of(self.graph, self.store),
            is_logged=self.store.logged,
            changelog_config=dict(self.store.config),
        )


def _repartitioned(
    stream: StreamHandle, prefix: str, key: Any, value: Any, *, is_named: bool
) -> StreamHandle:
    """The stream through a repartition topic. Joins of one stream share it, unless they are named."""
    key = stream.key if key is None else key
    value = stream.value if value is None else value
    node = repartition_node(stream.graph, prefix, key=key, value=value, is_named=is_named)
    source = node.name
    if stream.join_repartition is None or stream.name != prefix:
        stream.join_repartition = node
        stream.graph.add(node, stream.node)
    return StreamHandle(stream.graph, source, stream.join_repartition, frozenset([source]), key, value)


def join_table(
    stream: StreamHandle,
    table: TableHandle,
    joiner: Callable[[Any, Any, Any], Any],
    *,
    is_left: bool,
    grace: Duration | None = None,
    serdes: JoinSerdes = NO_SERDES,
    name: str | None = None,
    tolerance_ms: int | None = None,
    is_asof: bool = False,
) -> StreamHandle:
    """Each record with the row of its key. `grace`: records wait that long for the row as of their time.

    `tolerance_ms`: a row that is older by more is not joined. `is_asof`: the table must be versioned.
    """
    graph = stream.graph
    if stream.needs_repartition:
        prefix = stream.name if name is None else checked(name)
        stream = _repartitioned(stream, prefix, serdes.key, serdes.left, is_named=name is not None)
    sources = stream.copartition_with(table)
    node_name = graph.names.given_or(name, "KSTREAM-LEFTJOIN-" if is_left else "KSTREAM-JOIN-")
    key = stream.key if serdes.key is None else serdes.key
    grace_ms = None if grace is None else to_ms(grace, "grace")
    buffer = None
    if (grace_ms is not None or is_asof) and table.node.is_output_versioned is False:
        raise TopologyError(f"a join with grace or as of a time needs a versioned table, unlike {table.name}")
    if grace_ms is not None:
        buffer = StoreBuilder(
            f"{node_name}-Buffer",
            StoreKind.JOIN_BUFFER,
            key_serde=key,
            value_serde=stream.value if serdes.left is None else serdes.left,
            grace_ms=grace_ms,
        )
        if name is None:
            graph.unnamed.append(f"store {buffer.name}")
    getters = table.value_getter_supplier()
    supplier = KStreamKTableJoin(getters, joiner, is_left, grace_ms, buffer, tolerance_ms)
    least_history_ms = 0 if grace_ms is None and is_asof else grace_ms
    node = StreamTableJoinNode(node_name, supplier, getters.store_names(), least_history_ms)
    graph.add(node, stream.node)
    node.accepts_null_keys = is_left
    return StreamHandle(graph, node_name, node, sources, key, None)


def join_global_table(
    stream: StreamHandle,
    getters: ValueGetterSupplier,
    joiner: Callable[[Any, Any, Any], Any],
    *,
    is_left: bool,
    key: Callable[[Any, Any], Any],
    name: str | None = None,
) -> StreamHandle:
    """Each record with the row of the key that `key` returns. Inner joins are named like left ones."""
    node_name = stream.graph.names.given_or(name, "KSTREAM-LEFTJOIN-")
    supplier = KStreamGlobalKTableJoin(getters, joiner, key, is_left)
    node = StreamTableJoinNode(node_name, supplier, (), None)
    node.accepts_null_keys = is_left
    stream.graph.add(node, stream.node)
    return StreamHandle(
        stream.graph, node_name, node, stream.sources, stream.key, None, stream.needs_repartition
    )
