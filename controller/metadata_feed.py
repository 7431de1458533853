"""Responses to readers of the metadata log: the newest records from memory, or a snapshot. Pure.

It has committed records only. Invariants: a response ends between decisions, so that no reader applies a part
of one; it begins at the reader's next offset, or is a snapshot. Bound: the tail holds at most twice
`max_tail_records` (beyond one decision); a reader further behind gets a snapshot.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import msgspec

from ..protocol.errors import NO_ERROR, OffsetOutOfRangeError
from ..protocol.messages.control import FetchMetadataResponse
from ..protocol.metadata.features import level_of
from ..protocol.metadata.records import FeatureLevelRecord
from ..protocol.metadata.replay import image_records
from ..runtime.telemetry.histogram import Histogram
from .metrics import ElectionCounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..protocol.metadata.image import MetadataImage
    from ..protocol.metadata.records import MetadataRecord


# Bound: cached responses: the snapshot, and records for readers that are slightly behind.
MAX_ENCODED = 8


class MetadataFeed:
    """The committed image, and the tail of records that led to it."""

    def __init__(self, image: MetadataImage, max_tail_records: int, max_answer_records: int) -> None:
        self._max_tail_records = max_tail_records
        self._max_answer_records = max_answer_records
        self.elections = ElectionCounts()
        self.decided_records = 0  # made here, and committed
        self.decision_times = Histogram()  # of decisions that were made here, until their commit
        self.lowered_at = -1
        """The offset of the image with which a feature level was last lowered, -1 without one. The records
        before may be of kinds that servers with the lower level do not know."""
        self.restart(image)

    def restart(self, image: MetadataImage) -> None:
        """Start from this image without a tail, as after another controller's snapshot was loaded."""
        self.image = image
        self._tail: list[MetadataRecord] = []
        self._tail_start = image.offset + 1  # offset of the first record in the tail
        self._ends: list[int] = []  # exclusive end offset of each decision in the tail
        self._encoded: dict[int, bytes] = {}  # responses by the offset that the reader has applied

    def publish(
        self,
        image: MetadataImage,
        decisions: Sequence[Sequence[MetadataRecord]],
        took_ms: Sequence[int] = (),
    ) -> None:
        """These decisions, in log order, are committed and lead to `image`; `took_ms` are their durations if
        they were made here."""
        end_offset = self.image.offset + 1
        is_lowered = any(map(self._lowers_a_level, decisions))
        self.elections.committed(self.image, decisions, took_ms)
        for each_ms, records in zip(took_ms, decisions, strict=False):
            self.decision_times.record(each_ms)
            self.decided_records += len(records)
        for records in decisions:
            end_offset += len(records)
            self._ends.append(end_offset)
            self._tail.extend(records)
        assert end_offset == image.offset + 1, "the image must be the one that the decisions made"
        self.image = image
        self._encoded.clear()
        self._trim()
        if is_lowered:
            self.lowered_at = image.offset
            self.restart(image)

    def _lowers_a_level(self, records: Sequence[MetadataRecord]) -> bool:
        return any(
            isinstance(record, FeatureLevelRecord) and record.level < level_of(self.image, record.name)
            for record in records
        )

    def encoded(self, offset: int) -> bytes | None:
        """As `answer`, encoded; cached for all readers at the same offset.

        A snapshot may have tens of MB, and new records are sent to every node at once; a reader that asks a
        hundred times without reading must not allocate a hundred of them.
        """
        key = max(offset, self._tail_start - 2)  # all readers before the tail get the same snapshot
        found = self._encoded.get(key)
        if found is None:
            answer = self.answer(offset)
            if answer is None:
                return None
            found = msgspec.msgpack.encode(answer)
            if len(self._encoded) >= MAX_ENCODED:
                self._encoded.clear()
            self._encoded[key] = found
        return found

    def answer(self, offset: int) -> FetchMetadataResponse | None:
        """The response for a reader that has applied `offset`; None without newer records.

        Errors: OffsetOutOfRangeError for a reader that is ahead: it has applied metadata that was lost.
        """
        if offset > self.image.offset:
            raise OffsetOutOfRangeError(
                f"the reader has metadata up to {offset}, the controller only up to {self.image.offset}"
            )
        if offset == self.image.offset:
            return None
        start = offset + 1
        return self._snapshot_answer() if start < self._tail_start else self._tail_answer(start)

    def nothing_new(self, offset: int) -> FetchMetadataResponse:
        """The response without records, when the reader's wait is over."""
        return FetchMetadataResponse(NO_ERROR, base_offset=offset + 1, end_offset=offset + 1)

    def _tail_answer(self, start: int) -> FetchMetadataResponse:
        first = bisect_right(self._ends, start)  # the decision that contains `start`
        last = bisect_right(self._ends, start + self._max_answer_records) - 1
        end = self._ends[max(first, last)]
        records = self._tail[start - self._tail_start : end - self._tail_start]
        return FetchMetadataResponse(NO_ERROR, base_offset=start, end_offset=end, records=tuple(records))

    def _snapshot_answer(self) -> FetchMetadataResponse:
        return FetchMetadataResponse(
            NO_ERROR,
            is_snapshot=True,
            base_offset=0,
            end_offset=self.image.offset + 1,
            records=tuple(image_records(self.image)),
        )

    def _trim(self) -> None:
        """Drop the oldest decisions, once the tail is twice too long, which spreads the cost."""
        if len(self._tail) <= 2 * self._max_tail_records:
            return
        target = self.image.offset + 1 - self._max_tail_records
        count = min(bisect_left(self._ends, target) + 1, len(self._ends))
        start = self._ends[count - 1]
        del self._tail[: start - self._tail_start]
        del self._ends[:count]
        self._tail_start = start
