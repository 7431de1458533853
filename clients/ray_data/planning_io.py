"""Plans exact ranges from the arguments of a read, on the driver. Does not import Ray."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..bootstrap import explicit_bootstrap, resolve_bootstrap
from ..pipeline.offsets import offsets_to_json
from ..pipeline.planner_io import Planner
from ..pipeline.source_options import read_options
from .arguments import check_order, core_options, end_side, offsets_of, start_side

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..pipeline.filters import Filters
    from ..pipeline.ranges import Plan
    from ..pipeline.source_options import ReadOptions
    from .arguments import Side


def planned(
    topics: Any,
    bootstrap: Any,
    start_offset: Any,
    end_offset: Any,
    given: Mapping[str, Any],
    filters: Filters | None = None,
) -> tuple[ReadOptions, Plan]:
    """Validated options, and the exact ranges of a read. Errors: as `read`."""
    options = with_bootstrap(core_options(topics, bootstrap, given))
    start, end = start_side(start_offset), end_side(end_offset)
    check_order(start, end)
    checked = read_options(with_sides(options, start, end))
    return checked, Planner(checked).batch(filters)


def with_sides(options: Mapping[str, Any], start: Side, end: Side | None = None) -> dict[str, Any]:
    """Options with start and end, except those that they have already. Requests partitions if needed. Errors:
    as `read`."""
    edges = dict(start.options) | dict(() if end is None else end.options)
    if start.needs_partitions or (end is not None and end.needs_partitions):
        logs = Planner(read_options(options, stream=True)).latest_offsets()
        if start.needs_partitions:
            edges["startingOffsets"] = offsets_of(start, "start_offset", logs, is_end=False)
        if end is not None and end.needs_partitions:
            edges["endingOffsets"] = offsets_of(end, "end_offset", logs, is_end=True)
    for name in ("startingOffsets", "endingOffsets"):
        if name in edges and not isinstance(edges[name], str):
            edges[name] = offsets_to_json(edges[name])
    named = {name.lower() for name in options}
    return {**options, **{name: value for name, value in edges.items() if name.lower() not in named}}


def with_bootstrap(options: dict[str, Any]) -> dict[str, Any]:
    """Resolve bootstrap addresses once, here, so that tasks and the driver use the same cluster. Errors:
    NoClusterError."""
    names = ("bootstrap", "bootstrap.servers", "kafka.bootstrap.servers", "headrace.bootstrap.servers")
    if any(name.lower() in names for name in options):
        return options
    found = resolve_bootstrap(explicit_bootstrap(None, os.environ))
    return options | {"bootstrap.servers": ",".join(f"{each.host}:{each.port}" for each in found)}
