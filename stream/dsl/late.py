"""`late=` of windowed aggregations and joins: a function or a topic for records that come too late."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..processors.late_records import LateRecords
from ..records import LateRecord
from ..topology.errors import TopologyError
from .graph import LateSink

if TYPE_CHECKING:
    from .logical_graph import LogicalGraph

Late = str | Callable[[LateRecord[Any, Any]], object]
"""The name of a topic, or a function."""


def checked_late(late: Any) -> Late | None:
    """Errors: TopologyError for something else."""
    chosen: Late | None = late
    if late is None or callable(late) or (isinstance(late, str) and late):
        return chosen
    raise TopologyError(f"late= must be the name of a topic or a function of a late record, not {late!r}")


def checked_late_of_table(late: Any, is_versioned: bool) -> Late | None:
    """Errors: TopologyError for a table without versions: it takes every update."""
    if late is not None and not is_versioned:
        raise TopologyError("late= needs a versioned table, Store(history=...): others take any update")
    return checked_late(late)


class LateRoute:
    """Where the late records of one node go. `key` and `value`: serdes of the topic."""

    def __init__(
        self, graph: LogicalGraph, late: Late | None, name: str | None, suffix: str, key: Any, value: Any
    ) -> None:
        """A sink is named `name` with `suffix`, or by a number."""
        self.records: LateRecords | None = None
        self.sink: LateSink | None = None
        if isinstance(late, str):
            sink = graph.names.suffixed_or(name, suffix, "KSTREAM-SINK-")
            self.sink = LateSink(sink, late, key, value)
            self.records = LateRecords(sink=sink)
        elif late is not None:
            self.records = LateRecords(function=late)
