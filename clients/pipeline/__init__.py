"""Topics as bounded offset ranges of Arrow columns: the base of the Spark and Ray Data integrations.

A driver validates options and plans ranges, tasks read and write them: `read_options`, `Planner`,
`fetch_arrow`; `write_options`, `write_arrow`, and for exactly once `prepare_arrow` with `Sink`. Options,
ranges and messages are small and can be pickled. Names are imported at their first use: pyarrow is an extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.lazy_names import lazy_names

if TYPE_CHECKING:
    from .driver_log_io import Progress as Progress
    from .filters import Filters as Filters
    from .offsets import Position as Position
    from .offsets import offsets_from_json as offsets_from_json
    from .offsets import offsets_to_json as offsets_to_json
    from .offsets import position_from_json as position_from_json
    from .offsets import position_to_json as position_to_json
    from .planner_io import Planner as Planner
    from .ranges import Loss as Loss
    from .ranges import OffsetRange as OffsetRange
    from .ranges import Plan as Plan
    from .reading_io import fetch_arrow as fetch_arrow
    from .sink_io import Sink as Sink
    from .sink_io import abort_writes as abort_writes
    from .sink_io import commit_writes as commit_writes
    from .sink_options import WriteOptions as WriteOptions
    from .sink_options import write_options as write_options
    from .source_options import Limits as Limits
    from .source_options import ReadOptions as ReadOptions
    from .source_options import read_options as read_options
    from .writing_io import prepare_arrow as prepare_arrow
    from .writing_io import write_arrow as write_arrow
    from .written import PreparedWrite as PreparedWrite
    from .written import WriteReport as WriteReport
    from .written import Written as Written

_HOMES = {
    "Filters": ".filters",
    "Limits": ".source_options",
    "Loss": ".ranges",
    "OffsetRange": ".ranges",
    "Plan": ".ranges",
    "Planner": ".planner_io",
    "Position": ".offsets",
    "PreparedWrite": ".written",
    "Progress": ".driver_log_io",
    "ReadOptions": ".source_options",
    "Sink": ".sink_io",
    "WriteOptions": ".sink_options",
    "WriteReport": ".written",
    "Written": ".written",
    "abort_writes": ".sink_io",
    "commit_writes": ".sink_io",
    "fetch_arrow": ".reading_io",
    "offsets_from_json": ".offsets",
    "offsets_to_json": ".offsets",
    "position_from_json": ".offsets",
    "position_to_json": ".offsets",
    "prepare_arrow": ".writing_io",
    "read_options": ".source_options",
    "write_arrow": ".writing_io",
    "write_options": ".sink_options",
}

__all__ = [
    "Filters", "Limits", "Loss", "OffsetRange", "Plan", "Planner", "Position", "PreparedWrite", "Progress",
    "ReadOptions", "Sink", "WriteOptions", "WriteReport", "Written", "abort_writes", "commit_writes",
    "fetch_arrow", "offsets_from_json", "offsets_to_json", "position_from_json", "position_to_json",
    "prepare_arrow", "read_options", "write_arrow", "write_options",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
