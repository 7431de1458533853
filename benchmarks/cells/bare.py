"""Cells without a system under test: ceilings of ZeroMQ, the page cache and the checksum. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..constants import OF_RATES
from .cell import Cell
from .figures import with_rates

if TYPE_CHECKING:
    from ..harness import Harness

START_TIMEOUT_S = 20.0


class BareCell(Cell):
    """A ZeroMQ loop that receives messages and, in `mode` write, writes them to a file."""

    reports = OF_RATES

    def run(self, harness: Harness) -> dict[str, Any]:
        with harness.server("loops.bare", str(harness.scratch), self.spec["mode"]) as server:
            port = int(server.line(START_TIMEOUT_S).removeprefix("ready "))
            order = {**self.spec, "loop": "bareclient", "port": port, "server_pids": [server.pid]}
            (report,) = harness.run_workers([order])
        return with_rates(report)


class LocalCell(Cell):
    """A loop within one process, named by `loop`."""

    reports = OF_RATES

    def run(self, harness: Harness) -> dict[str, Any]:
        (report,) = harness.run_workers([{**self.spec, "directory": str(harness.scratch)}])
        return with_rates(report)
