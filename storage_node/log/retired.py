"""Files of retired segments: they are removed after file.delete.delay.ms.

The delay lets running reads finish. Files that a process leaves are removed when the log is opened again.
Source: Kafka LocalLog.java deleteSegmentFiles.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .log import Log
    from .segment import Segment

# Bound: segments of one removal: large files take long, and queued work must not wait for hundreds of them.
_SEGMENTS_PER_REMOVAL = 16


@dataclass(frozen=True, slots=True)
class Removal:
    """Segments whose delay is over; `run` on any thread, one at a time."""

    segments: tuple[Segment, ...]

    def run(self) -> None:
        """A failing disk takes its dir offline. In a folder that was renamed, or on an offline disk, files
        stay until the folder is removed or the log is opened again."""
        for segment in self.segments:
            try:
                segment.remove()
            except KafkaStorageError:
                segment.close()


class RetiredSegments:
    """The queue of retired segments. Owner's thread."""

    def __init__(self) -> None:
        self._fresh: list[tuple[int, Segment]] = []  # with their delays, which start at the next `due`
        self._waiting: list[tuple[int, int, Segment]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._fresh) + len(self._waiting)

    def add(self, log: Log, segments: Sequence[Segment]) -> None:
        """Segments that have left `log`; their files are renamed already."""
        self._fresh += [(log.config.file_delete_delay_ms, segment) for segment in segments]

    def due(self, now_ms: int) -> list[Removal]:
        """Removals that are due, returned once. Delays count from the first call after `add`."""
        for delay_ms, segment in self._fresh:
            self._count += 1
            heapq.heappush(self._waiting, (now_ms + delay_ms, self._count, segment))
        self._fresh.clear()
        due: list[Segment] = []
        while self._waiting and self._waiting[0][0] <= now_ms:
            due.append(heapq.heappop(self._waiting)[2])
        step = _SEGMENTS_PER_REMOVAL
        return [Removal(tuple(due[start : start + step])) for start in range(0, len(due), step)]

    def close(self) -> None:
        """Close all files; the next start removes them."""
        for _, segment in self._fresh:
            segment.close()
        for *_, segment in self._waiting:
            segment.close()
        self._fresh.clear()
        self._waiting.clear()
