"""Whether the rows of a task are visible to read_committed consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ApiTimeoutError
from ...runtime.waiting_io import until
from .driver_log_io import committed_options
from .planner_io import Planner
from .ranges import OffsetRange
from .reading_io import fetch_arrow

if TYPE_CHECKING:
    from .sink_options import WriteOptions
    from .written import PreparedWrite


def is_visible(write: PreparedWrite, options: WriteOptions, *, patience_s: float = 0.0) -> bool:
    """Whether the first row of a write is visible to read_committed consumers: its transaction is committed.

    Polls for `patience_s`: a commit is answered before its markers are in all partitions. Errors:
    ApiTimeoutError if it is unknown by then, because of an earlier open transaction.
    """
    tp, written = write.report.partitions[0]
    reading = committed_options(options, tp, failOnDataLoss=False)  # deleted rows are not visible
    first = written.first
    planner = Planner(reading, is_known=True)
    if not until(lambda: planner.latest_offsets().get(tp, 0) > first, patience_s):
        raise ApiTimeoutError(
            f"{tp} has an open transaction before offset {first}: whether task {write.task} is committed"
            " is unknown until that has ended"
        )
    cut = OffsetRange(*tp, first, first + 1)
    return any(batch.num_rows for batch in fetch_arrow(cut, reading, columns=["offset"]))
