"""What readers of the metadata log are told: the newest records from memory, or a snapshot. Pure.

Only committed records are in here. Invariants: an answer never cuts a decision in two, so no reader ever acts
on half of one; an answer continues exactly where the reader stands, or is a snapshot.
Bound: the tail holds at most twice `max_tail_records` (beyond one decision); a reader further behind gets a
snapshot.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import msgspec

from ..protocol.errors import NO_ERROR, OffsetOutOfRangeError
from ..protocol.messages.control import FetchMetadataResponse
from ..protocol.metadata.replay import image_records
from .metrics import ElectionCounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..protocol.metadata.image import MetadataImage
    from ..protocol.metadata.records import MetadataRecord


# Bound: encoded answers kept: the snapshot, and news for readers who are little behind.
MAX_ENCODED = 8


class MetadataFeed:
    """The committed image, and the tail of records that led to it."""

    def __init__(self, image: MetadataImage, max_tail_records: int, max_answer_records: int) -> None:
        self._max_tail_records = max_tail_records
        self._max_answer_records = max_answer_records
        self.elections = ElectionCounts()
        self.restart(image)

    def restart(self, image: MetadataImage) -> None:
        """Know only this image, as after a snapshot of another controller was loaded."""
        self.image = image
        self._tail: list[MetadataRecord] = []
        self._tail_start = image.offset + 1  # offset of the first record in the tail
        self._ends: list[int] = []  # exclusive end offset of each decision in the tail
        self._encoded: dict[int, bytes] = {}  # answers to this image by where the reader stands

    def publish(
        self,
        image: MetadataImage,
        decisions: Sequence[Sequence[MetadataRecord]],
        took_ms: Sequence[int] = (),
    ) -> None:
        """The decisions, in log order, are committed and made `image`; `took_ms` of each if they were made
        here."""
        end_offset = self.image.offset + 1
        self.elections.committed(self.image, decisions, took_ms)
        for records in decisions:
            end_offset += len(records)
            self._ends.append(end_offset)
            self._tail.extend(records)
        assert end_offset == image.offset + 1, "the image must be the one that the decisions made"
        self.image = image
        self._encoded.clear()
        self._trim()

    def encoded(self, offset: int) -> bytes | None:
        """As `answer`, as MessagePack; the same bytes for all readers that stand at the same place.

        A snapshot may be tens of MB, and news goes to every node of a cluster at once; a reader that asks a
        hundred times and reads nothing must not make a hundred of them.
        """
        key = max(offset, self._tail_start - 2)  # everybody before the tail gets the same snapshot
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
        """What comes after `offset`, the last one that the reader has applied; None if there is nothing.

        Errors: OffsetOutOfRangeError for a reader that is ahead: it has seen metadata that was lost.
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
        """The answer to a reader whose time is up."""
        return FetchMetadataResponse(NO_ERROR, base_offset=offset + 1, end_offset=offset + 1)

    def _tail_answer(self, start: int) -> FetchMetadataResponse:
        first = bisect_right(self._ends, start)  # the decision that holds `start`
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
        """Drop whole old decisions; only once the tail is twice too long, so that the cost is spread."""
        if len(self._tail) <= 2 * self._max_tail_records:
            return
        target = self.image.offset + 1 - self._max_tail_records
        count = min(bisect_left(self._ends, target) + 1, len(self._ends))
        start = self._ends[count - 1]
        del self._tail[: start - self._tail_start]
        del self._ends[:count]
        self._tail_start = start
