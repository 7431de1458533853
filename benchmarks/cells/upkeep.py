"""Work for the cleaner and retention in parallel with an open loop, and the check that it was done. Pure."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ..constants import CLEANED_MB, DELETED_SEGMENTS, DISK_MB
from ..harness import ChildError
from .figures import BYTES_PER_MB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..harness import Harness, Order, Report

MIB = 1 << 20
# cleaned and deleted files are removed within the measured time, too
_DELETE_SOON = {"file.delete.delay.ms": "1000"}
# Several segments roll each second, and any dirty ratio suffices: there is always a segment to clean.
COMPACTED = {**_DELETE_SOON, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0",
             "segment.bytes": str(16 * MIB), "segment.ms": "250"}  # fmt: skip
RETAINED = {**_DELETE_SOON, "segment.bytes": str(MIB), "retention.bytes": str(2 * MIB)}


@contextlib.contextmanager
def order(harness: Harness, system: str, spec: dict[str, Any]) -> Iterator[Order]:
    """The order of the client that writes to a compacted and a retained topic, see `loops/upkeep.py`."""
    with harness.topic(system, 1, COMPACTED) as compacted, harness.topic(system, 1, RETAINED) as retained:
        yield {"loop": "upkeep", "warm_s": spec["warm_s"], "seconds": spec["seconds"], **spec["upkeep"],
               "compacted": compacted, "retained": retained,
               "folder": str(harness.node_dir(system))}  # fmt: skip


def figures(cell: str, report: Report, seconds: float, cold_bytes: int) -> dict[str, float]:
    """What was cleaned and deleted in `seconds`. Errors: ChildError when one kind of work was not done."""
    done = {
        "cleaned": report["cleaned_bytes"],
        "deleted": report["deleted_bytes"],
        "read from the disk": report["disk_bytes"],
        "read by the cold reader": cold_bytes,
    }
    for kind, size in done.items():
        if not size:
            raise ChildError(f"{cell}: no bytes were {kind} during the measurement: {done}")
    return {
        CLEANED_MB: done["cleaned"] / seconds / BYTES_PER_MB,
        DELETED_SEGMENTS: report["deleted_segments"],
        DISK_MB: report["disk_bytes"] / seconds / BYTES_PER_MB,
    }
