"""`python -m headrace.benchmarks.spark`: all groups, or some (`--only spark35-1,ray`)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from headrace.benchmarks import command_io, machine_io

from . import cells
from .page import page, table
from .session_io import Session

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def measure(options: argparse.Namespace, groups: Sequence[cells.Group], found: dict[str, Any]) -> None:
    """Add the runs of the groups. Errors: ChildError, LostDataError, KafkaError."""
    with Session(cells.QUICK if options.quick else cells.FULL, command_io.say) as session:
        for group in groups:
            load = machine_io.load_average()
            report = session.run(group)
            found["groups"][group.id] = {**report["about"], **command_io.about_group(found, load)}
            found["memory"] += report["memory"]
            found["runs"] += report["runs"]


BENCHMARK = command_io.Benchmark(
    "spark",
    "BENCHMARKS_SPARK.md",
    "spark35-1,ray",
    cells.chosen,
    measure,
    table,
    page,
    lists=("memory", "runs"),
)

if __name__ == "__main__":
    sys.exit(command_io.run(BENCHMARK))
