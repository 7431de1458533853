"""A node at its upkeep: the cleaner, retention and a cold reader at once, and the proof that all worked."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from .children_io import ChildError
from .group import CLEANED_MB, DELETED_SEGMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .session_io import Session

MIB = 1 << 20
MB = 1e6
# Of both topics: the files of what is cleaned or deleted go within the measured time, too.
_SOON = {"file.delete.delay.ms": "1000"}
# A segment rolls several times a second and any is reason enough: a cleaning finds the next one due.
COMPACTED = {**_SOON, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0",
             "segment.bytes": str(16 * MIB), "segment.ms": "250"}  # fmt: skip
RETAINED = {**_SOON, "segment.bytes": str(MIB), "retention.bytes": str(2 * MIB)}


@contextlib.contextmanager
def at_work(session: Session, name: str, spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The order of the client that gives them work, see `loops/upkeep.py`; its two topics go at the end."""
    system, topics = session.systems[name], dict[str, str]()
    try:
        for use, configs in (("compacted", COMPACTED), ("retained", RETAINED)):
            topics[use] = session.new_topic(name, 1, configs)
        times = {part: spec[part] for part in ("warm_s", "seconds")}
        yield {**times, **spec["upkeep"], **topics, "loop": "upkeep", "folder": str(session.folder(name))}
    finally:
        for topic in topics.values():
            system.delete_topic(topic)


def figures(what: str, kept: dict[str, Any], seconds: float, cold_bytes: int) -> dict[str, float]:
    """What was cleaned and deleted in these seconds. Errors: ChildError when one of the three did nothing."""
    done = {
        "cleaned": kept["cleaned_bytes"],
        "deleted": kept["deleted_bytes"],
        "read from the disk": kept["disk_bytes"],
        "read by the cold reader": cold_bytes,
    }
    for how, size in done.items():
        if not size:
            raise ChildError(f"{what}: nothing was {how} while it was measured: {done}")
    return {CLEANED_MB: done["cleaned"] / seconds / MB, DELETED_SEGMENTS: kept["deleted_segments"],
            "disk_mb_per_s": kept["disk_bytes"] / seconds / MB}  # fmt: skip
