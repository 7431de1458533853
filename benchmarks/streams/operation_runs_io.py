"""Runs the groups of operations.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from .moves_io import MoveRuns
from .query_runs_io import QueryRuns
from .scale_runs_io import ScaleRuns
from .servers_io import describe
from .snapshot_runs_io import SnapshotRuns

if TYPE_CHECKING:
    from .cells import Sizes
    from .operations import Operation
    from .servers_io import Servers


class Runs(Protocol):
    """The runs of one group."""

    def run(self, cell: str) -> dict[str, Any]:
        """The figures of a run of one cell. Errors: ChildError, LostDataError, ValueError."""

    def close(self) -> None:
        """Delete what the runs share."""


def run(servers: Servers, group: Operation, sizes: Sizes) -> list[dict[str, Any]]:
    """The runs of a group: cells forwards and backwards in turn. Errors: ChildError, LostDataError."""
    make: dict[str, type[Runs]] = {
        "queries": QueryRuns, "snapshots": SnapshotRuns, "moves": MoveRuns, "workers": ScaleRuns,
    }  # fmt: skip
    made = make[group.workload](servers, sizes)  # type: ignore[call-arg]
    found = []
    try:
        for pair in range(group.pair_count(sizes)):
            for cell in group.systems if pair % 2 == 0 else group.systems[::-1]:
                figures = made.run(cell)
                servers.say(f"{group.id} {pair + 1}: {cell}: {describe(figures)}")
                found.append({"group": group.id, "pair": pair, "cell": cell, "is_used": True, **figures})
    finally:
        made.close()
    return found
