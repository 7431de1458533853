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
from ..state.builders import StoreBuilder, StoreKind
from ..state.formats.joins import left_or_right_value, timestamped_key_and_join_side
from ..topology.errors import TopologyError
from ..topology.serdes import DerivedSerde
from .durations import Duration, to_ms
from .graph import JoinWindowNode, StreamStreamJoinNode, StreamTableJoinNode
from .handles import StreamHandle, reversed_joiner
from .names import checked
from .repartition import repartition_node
from .stores import Store, join_window_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..processing import ValueGetterSupplier
    from .handles import TableHandle
    from .windows import JoinWindows


@dataclass(frozen=True, slots=True)
class JoinSerdes:
    """Serdes of key, left and right value, where those of the streams do not serve."""

    key: Any = None
    left: Any = None
    right: Any = None


def join_streams(
    left: StreamHandle,
    right: StreamHandle,
    joiner: Callable[[Any, Any, Any], Any],
    windows: JoinWindows,
    serdes: JoinSerdes,
    *,
    keeps_left: bool,
    keeps_right: bool,
    name: str | None,
    store: Store,
    other_store: Store | None,
) -> StreamHandle:
    """Pairs of records with one key within a window; with `keeps_*` also those that found none in theirs.

    `store.name` is the base of the names of the stores. With `other_store`, the two name one store each.
    """
    if left.needs_repartition:
        prefix = left.name if name is None else f"{checked(name)}-left"
        left = _repartitioned(left, prefix, serdes.key, serdes.left, is_named=name is not None)
    if right.needs_repartition:
        prefix = right.name if name is None else f"{checked(name)}-right"
        right = _repartitioned(right, prefix, serdes.key, serdes.right, is_named=name is not None)
    left.copartition_with(right)
    return _StreamStreamJoin(left, right, windows, serdes, keeps_left, keeps_right, store, other_store).add(
        joiner, name
    )


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
        store: Store,
        other_store: Store | None,
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
        self.store = store
        self.other_store = other_store
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
        self.graph.add(JoinWindowNode(left_window, KStreamJoinWindow(left_store)), self.left.node)
        self.graph.add(JoinWindowNode(right_window, KStreamJoinWindow(right_store)), self.right.node)
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
    serdes: JoinSerdes,
    *,
    is_left: bool,
    grace: Duration | None,
    name: str | None,
) -> StreamHandle:
    """Each record with the row of its key. `grace`: records wait that long for the row as of their time."""
    graph = stream.graph
    if stream.needs_repartition:
        prefix = stream.name if name is None else checked(name)
        stream = _repartitioned(stream, prefix, serdes.key, serdes.left, is_named=name is not None)
    sources = stream.copartition_with(table)
    node_name = graph.names.given_or(name, "KSTREAM-LEFTJOIN-" if is_left else "KSTREAM-JOIN-")
    key = stream.key if serdes.key is None else serdes.key
    grace_ms = None if grace is None else to_ms(grace, "grace")
    buffer = None
    if grace_ms is not None:
        if table.node.is_output_versioned is False:
            raise TopologyError(f"a join with grace needs a versioned table, unlike {table.name}")
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
    supplier = KStreamKTableJoin(getters, joiner, is_left, grace_ms, buffer)
    node = StreamTableJoinNode(node_name, supplier, getters.store_names(), grace_ms)
    graph.add(node, stream.node)
    node.accepts_null_keys = is_left
    return StreamHandle(graph, node_name, node, sources, key, None)


def join_global_table(
    stream: StreamHandle,
    getters: ValueGetterSupplier,
    mapper: Callable[[Any, Any], Any],
    joiner: Callable[[Any, Any, Any], Any],
    *,
    is_left: bool,
    name: str | None,
) -> StreamHandle:
    """Each record with the row of the key that `mapper` returns. Inner joins are named like left ones."""
    node_name = stream.graph.names.given_or(name, "KSTREAM-LEFTJOIN-")
    supplier = KStreamGlobalKTableJoin(getters, joiner, mapper, is_left)
    node = StreamTableJoinNode(node_name, supplier, (), None)
    node.accepts_null_keys = is_left
    stream.graph.add(node, stream.node)
    return StreamHandle(
        stream.graph, node_name, node, stream.sources, stream.key, None, stream.needs_repartition
    )
