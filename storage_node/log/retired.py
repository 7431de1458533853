"""Files of segments that are in no log any more: they stay for file.delete.delay.ms, then they are removed.

The wait lets readers that hold such a segment end. What a process leaves is removed when its log is opened
again. Source: Kafka LocalLog.java deleteSegmentFiles.
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

# Bound: segments of one removal: large files take long, and the work behind it must not wait for hundreds.
_SEGMENTS_PER_REMOVAL = 16


@dataclass(frozen=True, slots=True)
class Removal:
    """Files whose time has come; `run` goes on any thread, one at a time."""

    segments: tuple[Segment, ...]

    def run(self) -> None:
        """Remove them. A failing disk takes its dir offline; of a folder that was renamed meanwhile, or whose
        disk is offline, files stay until it goes as a whole or is opened again."""
        for segment in self.segments:
            try:
                segment.remove()
            except KafkaStorageError:
                segment.close()


class RetiredSegments:
    """Those that wait. One owner."""

    def __init__(self) -> None:
        self._fresh: list[tuple[int, Segment]] = []  # with their delays: when they came is told by `due`
        self._waiting: list[tuple[int, int, Segment]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._fresh) + len(self._waiting)

    def add(self, log: Log, segments: Sequence[Segment]) -> None:
        """Segments that have left `log`; their names are taken away already."""
        self._fresh += [(log.config.file_delete_delay_ms, segment) for segment in segments]

    def due(self, now_ms: int) -> list[Removal]:
        """What is to be removed by now, handed out once. Delays count from the first call after `add`."""
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
        """Let go of all files; they stay on the disk for the next start."""
        for _, segment in self._fresh:
            segment.close()
        for *_, segment in self._waiting:
            segment.close()
        self._fresh.clear()
        self._waiting.clear()
