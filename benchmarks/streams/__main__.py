"""`python -m headrace.benchmarks.streams`: all groups, or some (`--only count-few,join`)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from headrace.benchmarks import command_io, machine_io

from . import cells, operation_runs_io
from .operations import Operation
from .page import page, table
from .registry import chosen
from .servers_io import Servers
from .session_io import Session

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def measure(
    options: argparse.Namespace, groups: Sequence[cells.Group | Operation], found: dict[str, Any]
) -> None:
    """Add the runs of the groups. Errors: ChildError, LostDataError, KafkaError; ValueError for a run that is
    too short."""
    sizes = cells.QUICK if options.quick else cells.FULL
    sizes = sizes._replace(pairs=options.pairs or sizes.pairs)
    with Servers(command_io.say) as servers:
        for group in groups:
            load = machine_io.load_average()
            if isinstance(group, Operation):
                found["runs"] += operation_runs_io.run(servers, group, sizes)
            else:
                found["runs"] += Session(servers, sizes).run(group)
            found["groups"][group.id] = {**command_io.about_group(found, load), "sizes": sizes._asdict()}


BENCHMARK = command_io.Benchmark(
    "streams", "BENCHMARKS_STREAMS.md", "count-few,join", chosen, measure, table, page, has_pairs=True
)

if __name__ == "__main__":
    sys.exit(command_io.run(BENCHMARK))
