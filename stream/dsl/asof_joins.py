"""Joins as of a time: `join_asof` with a stream or a versioned table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..processors.asof_joins import AsofJoinLeftSide, AsofJoinRightSide, AsofWindow
from ..processors.stateless import PassThrough
from ..processors.stream_joins import TimeTrackers
from ..state.builders import StoreBuilder
from ..state.store_spec import StoreKind
from ..topology.errors import TopologyError
from .durations import Duration, to_ms
from .graph import ProcessorNode
from .handles import StreamHandle
from .late import Late, LateRoute, checked_late
from .stores import Store, StoreArgument, supplier_of
from .stream_joins import NO_SERDES, JoinSerdes, join_table, repartitioned_sides

if TYPE_CHECKING:
    from collections.abc import Callable

    from .handles import TableHandle


class AsofJoin(NamedTuple):
    """The options of a join as of a time."""

    joiner: Callable[[Any, Any, Any], Any]
    tolerance: Duration | None = None
    direction: str = "backward"
    grace: Duration = 0
    how: str = "inner"
    serdes: JoinSerdes = NO_SERDES
    store: StoreArgument = None
    late: Late | None = None
    name: str | None = None

    def check(self) -> None:
        """Errors: TopologyError for unknown directions and forms."""
        if self.direction not in ("backward", "forward", "nearest"):
            raise TopologyError(
                f'direction must be "backward", "forward" or "nearest", not {self.direction!r}'
            )
        if self.how not in ("inner", "left"):
            raise TopologyError(f'how must be "inner" or "left", not {self.how!r}')


def join_stream(left: StreamHandle, right: StreamHandle, join: AsofJoin) -> StreamHandle:
    """Each record of `left` with the nearest one of `right` within the tolerance."""
    join.check()
    window = _window(join)
    left, right = repartitioned_sides(left, right, join.serdes, join.name)
    left.copartition_with(right)
    graph, name, given = left.graph, join.name, join.serdes
    serdes = JoinSerdes(
        left.key if given.key is None else given.key,
        left.value if given.left is None else given.left,
        right.value if given.right is None else given.right,
    )
    left_name = graph.names.suffixed_or(name, "-asof-this", "KSTREAM-ASOFTHIS-")
    right_name = graph.names.suffixed_or(name, "-asof-other", "KSTREAM-ASOFOTHER-")
    merge = graph.names.suffixed_or(name, "-merge", "KSTREAM-MERGE-")
    late = checked_late(join.late)
    routes = (
        LateRoute(graph, late, name, "-this-late", serdes.key, serdes.left),
        LateRoute(graph, late, name, "-other-late", serdes.key, serdes.right),
    )
    stores = _stores(left, join, window, serdes, left_name, right_name)
    arguments = (window, join.joiner, join.how == "left", TimeTrackers(), stores, merge)
    left_node = ProcessorNode(left_name, AsofJoinLeftSide(*arguments, routes[0].records))
    right_node = ProcessorNode(right_name, AsofJoinRightSide(*arguments, routes[1].records))
    left_node.late_sink, right_node.late_sink = routes[0].sink, routes[1].sink
    left_node.accepts_null_keys = join.how == "left"
    graph.add(left_node, left.node)
    graph.add(right_node, right.node)
    node = ProcessorNode(merge, PassThrough())
    graph.add(node, left_node, right_node)
    return StreamHandle(graph, merge, node, left.sources | right.sources, serdes.key, None)


def join_versions(left: StreamHandle, table: TableHandle, join: AsofJoin) -> StreamHandle:
    """Each record with the version of its row as of its timestamp. Errors: TopologyError."""
    join.check()
    if join.direction != "backward":
        raise TopologyError(f"a table is joined backward: direction={join.direction!r} needs a stream")
    if join.late is not None:
        raise TopologyError("late= of join_asof needs a stream: a table has its history")
    if join.store is not None:
        raise TopologyError("store= of join_asof needs a stream: a table has its own")
    return join_table(
        left,
        table,
        join.joiner,
        is_left=join.how == "left",
        serdes=join.serdes,
        grace=join.grace or None,
        tolerance_ms=None if join.tolerance is None else to_ms(join.tolerance, "tolerance"),
        is_asof=True,
        name=join.name,
    )


def _window(join: AsofJoin) -> AsofWindow:
    if join.tolerance is None:
        raise TopologyError(
            "a join as of a time with a stream needs tolerance=: how long its records are kept; a versioned"
            " table keeps the last one of each key for ever"
        )
    tolerance = to_ms(join.tolerance, "tolerance")
    return AsofWindow(
        0 if join.direction == "forward" else tolerance,
        0 if join.direction == "backward" else tolerance,
        to_ms(join.grace, "grace"),
    )


def _stores(
    left: StreamHandle,
    join: AsofJoin,
    window: AsofWindow,
    serdes: JoinSerdes,
    left_name: str,
    right_name: str,
) -> tuple[StoreBuilder, StoreBuilder | None]:
    """The store of right records, and that of left ones that wait."""
    graph = left.graph
    store = Store(join.store) if isinstance(join.store, str) else join.store or Store()
    right_store = f"{right_name}-store" if store.name is None else f"{store.name}-asof-other-store"
    buffer = f"{left_name}-buffer" if store.name is None else f"{store.name}-asof-this-buffer"
    if store.name is None and join.name is None:
        graph.unnamed += [f"store {right_store}"] + [f"store {buffer}"] * bool(window.wait_ms)
    persistent = graph.stores_are_persistent if store.persistent is None else store.persistent
    right = StoreBuilder(
        right_store,
        StoreKind.WINDOW,
        key_serde=serdes.key,
        value_serde=serdes.right,
        persistent=persistent,
        supplier=supplier_of(graph, store),
        is_logged=store.logged,
        changelog_config=dict(store.config),
        retention_ms=window.retention_ms,
        segment_interval_ms=max(window.retention_ms // 2, 60_000),
        window_size_ms=1,
    )
    if not window.wait_ms:
        return right, None
    return right, StoreBuilder(
        buffer,
        StoreKind.JOIN_BUFFER,
        key_serde=serdes.key,
        value_serde=serdes.left,
        is_logged=store.logged,
        changelog_config=dict(store.config),
        grace_ms=window.wait_ms,
    )
