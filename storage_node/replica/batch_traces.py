"""The sampled batches among those that this node has appended, and notes of spans for them. Pure.

The core only notes what happened and when; the shell makes the spans. A node remembers the contexts of its
latest sampled batches. So fetches of them have spans, and followers get the contexts with the records,
without a search. The contexts of truncated batches are kept until newer ones replace them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import KafkaError
from ...protocol.messages.data import TracedBatch
from ...protocol.records.header import HEADER_BYTES, read_batch_header
from ...protocol.records.opening import open_batch
from ...runtime.tracing.contexts import contexts_in, is_compressed, sampled_texts
from ...runtime.tracing.names import APPEND, FETCH, REPLICATE
from ..effects import NoteSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...protocol.records.header import Buffer
    from ..log.append_rules import AppendInfo
    from ..log.lending import Part
    from .partition import Partition, PartitionKey
    from .step_output import StepOutput

# Bound: batches that a node remembers.
MAX_BATCHES = 1024
# Bound: a larger batch is not decompressed for its traces.
_MAX_DECOMPRESSED_BYTES = 8 * 1024 * 1024


class Appended(NamedTuple):
    """A sampled batch of a request that waits for its acknowledgement."""

    entry: int  # its index in the request
    partition: Partition
    batch: TracedBatch


class _Remembered(NamedTuple):
    batch: TracedBatch
    appended_ms: int


class BatchTraces:
    """The traces of one node. `compressed_ratio`: the share of compressed batches that are looked into."""

    def __init__(self, output: StepOutput, compressed_ratio: float = 0.0) -> None:
        self._output = output
        self._compressed_ratio, self._share = compressed_ratio, 0.0
        self._batches: dict[PartitionKey, deque[_Remembered]] = {}
        self._order: deque[PartitionKey] = deque()

    # --- on a leader ------------------------------------------------------------------------------------

    def appended(
        self, partition: Partition, frame: Buffer, given: Sequence[str] | None, info: AppendInfo, now_ms: int
    ) -> TracedBatch | None:
        """A batch was appended; `given` has its contexts if the client knows them. None if it has none."""
        contexts = self._contexts_in(frame) if given is None else sampled_texts(given)
        if not contexts or info.is_repeated:
            return None
        batch = TracedBatch(info.base_offset, info.last_offset, contexts)
        self._remember(partition.key, batch, now_ms)
        return batch

    def acknowledged(
        self, appended: Appended, began_ms: int, client_id: str, acks: int, error_code: int
    ) -> None:
        """Note the `append` of a batch, from its request until the response is due."""
        span = NoteSpan(
            APPEND,
            appended.partition.topic_partition,
            appended.batch,
            began_ms,
            client_id=client_id,
            acks=acks,
            error_code=error_code,
        )
        self._output.effects.append(span)

    def within(self, key: PartitionKey, offset: int, data: Sequence[Part]) -> tuple[TracedBatch, ...]:
        """The sampled batches among those from `offset` on in `data`."""
        return tuple(item.batch for item in self._within(key, offset, data))

    def fetched(
        self, partition: Partition, offset: int, data: Sequence[Part], began_ms: int, client_id: str
    ) -> None:
        """Note the `fetch` of sampled batches, from when both the request and the batch were there."""
        for item in self._within(partition.key, offset, data):
            since_ms = max(began_ms, item.appended_ms)
            self._output.effects.append(
                NoteSpan(FETCH, partition.topic_partition, item.batch, since_ms, client_id=client_id)
            )

    # --- on a follower ----------------------------------------------------------------------------------

    def replicated(self, partition: Partition, batches: Iterable[TracedBatch], now_ms: int) -> None:
        """Note the `replicate` of batches that the leader sent with their contexts."""
        for batch in batches:
            contexts = sampled_texts(batch.traceparents)
            if contexts:
                checked = TracedBatch(batch.base_offset, batch.last_offset, contexts)
                self._remember(partition.key, checked, now_ms)
                self._output.effects.append(NoteSpan(REPLICATE, partition.topic_partition, checked, now_ms))

    # --- inside -----------------------------------------------------------------------------------------

    def _contexts_in(self, frame: Buffer) -> tuple[str, ...]:
        if not is_compressed(frame):
            return contexts_in(memoryview(frame)[HEADER_BYTES:])
        self._share += self._compressed_ratio
        if self._share < 1:
            return ()
        self._share -= 1
        try:
            _, records = open_batch(
                frame, check_crc=False, is_dense=False, max_decompressed_bytes=_MAX_DECOMPRESSED_BYTES
            )
        except KafkaError:  # larger than the bound
            return ()
        return contexts_in(records)

    def _remember(self, key: PartitionKey, batch: TracedBatch, now_ms: int) -> None:
        if len(self._order) >= MAX_BATCHES:
            oldest = self._order.popleft()
            batches = self._batches[oldest]
            batches.popleft()
            if not batches:
                del self._batches[oldest]
        self._order.append(key)
        self._batches.setdefault(key, deque()).append(_Remembered(batch, now_ms))

    def _within(self, key: PartitionKey, offset: int, data: Sequence[Part]) -> list[_Remembered]:
        batches = self._batches.get(key)
        if not batches or not data or batches[-1].batch.last_offset < offset:
            return []
        end = _end_of(data[-1])
        return [item for item in batches if item.batch.last_offset >= offset and item.batch.base_offset < end]


def _end_of(part: Part) -> int:
    """The offset after the last batch of the part."""
    if isinstance(part, bytes | bytearray | memoryview):
        at = end = 0
        while at + HEADER_BYTES <= len(part):
            header = read_batch_header(part, at)
            at, end = at + header.size_bytes, header.next_offset
        return end
    return part.next_offset
