"""The operators of cases: each takes a handle, brings it into the form that it needs, adds its nodes."""

from __future__ import annotations

from collections.abc import Callable

from .aggregate_operators import aggregate, cogroup, windowed
from .generator import Generator, Handle
from .join_operators import foreign_join, global_join, stream_join, stream_table, table_join
from .processor_api import global_store, terminal, topology
from .stream_operators import (
    filter_,
    flat_map,
    flat_map_values,
    map_,
    map_values,
    merge,
    peek,
    process,
    repartition,
    select_key,
    split,
    table_reader,
    to_table,
)
from .table_operators import (
    suppress_time,
    suppress_window,
    table_aggregate,
    table_filter,
    table_values,
    to_stream,
)

OPERATORS: dict[str, Callable[[Generator, Handle], Handle]] = {
    "filter": filter_("filter"),
    "filter_not": filter_("filter_not"),
    "map": map_,
    "flat_map": flat_map,
    "map_values": map_values,
    "flat_map_values": flat_map_values,
    "select_key": select_key,
    "peek": peek,
    "merge": merge,
    "split": split,
    "repartition": repartition,
    "to_table": to_table,
    "process": process("process"),
    "process_values": process("process_values"),
    "foreach": terminal("foreach"),
    "print": terminal("print"),
    "to": terminal("to"),
    "global_store": global_store,
    "topology": topology,
    "table_reader": table_reader,
    "count": aggregate("count"),
    "reduce": aggregate("reduce"),
    "aggregate": aggregate("aggregate"),
    "tumbling": windowed("tumbling"),
    "hopping": windowed("hopping"),
    "sliding": windowed("sliding"),
    "session": windowed("session"),
    "unlimited": windowed("unlimited"),
    "cogroup": cogroup(windowed=False),
    "cogroup_windowed": cogroup(windowed=True),
    "table_filter": table_filter("filter"),
    "table_filter_not": table_filter("filter_not"),
    "table_map_values": table_values("map_values"),
    "transform_values": table_values("transform_values"),
    "to_stream": to_stream,
    "table_count": table_aggregate("count"),
    "table_reduce": table_aggregate("reduce"),
    "table_aggregate": table_aggregate("aggregate"),
    "suppress_time": suppress_time,
    "suppress_window": suppress_window,
    "stream_join": stream_join("join"),
    "stream_left_join": stream_join("left_join"),
    "stream_outer_join": stream_join("outer_join"),
    "self_join": stream_join("join", alone=True),
    "stream_table_join": stream_table("join"),
    "stream_table_left_join": stream_table("left_join"),
    "grace_join": stream_table("join", versioned=True),
    "grace_left_join": stream_table("left_join", versioned=True),
    "global_join": global_join("join"),
    "global_left_join": global_join("left_join"),
    "table_join": table_join("join"),
    "table_left_join": table_join("left_join"),
    "table_outer_join": table_join("outer_join"),
    "foreign_join": foreign_join("foreign_join"),
    "foreign_left_join": foreign_join("left_foreign_join"),
}
PAIRS = tuple((first, second) for first in OPERATORS for second in OPERATORS)
