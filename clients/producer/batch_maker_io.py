"""Makes builders and deliveries of batches, and splits batches that were too large."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.records.header import Compression
from .delivery_io import Delivery
from .splitting import split_batch, without_records

if TYPE_CHECKING:
    from ...protocol.records.codec import BatchBuilder, RecordCodec
    from ..config import ProducerConfig
    from .batches import Batch, PartitionQueue


class BatchMaker:
    """For one producer, whose deliveries are resolved on `io_thread`."""

    def __init__(self, codec: RecordCodec, config: ProducerConfig, io_thread: int | None) -> None:
        self._codec, self._io_thread = codec, io_thread
        self._compression = Compression[config.compression_type.upper()]
        self._level = config.compression_level

    def builder(self, max_bytes: int) -> BatchBuilder:
        """A builder with the compression of the producer."""
        return self._codec.builder(max_bytes=max_bytes, compression=self._compression, level=self._level)

    def delivery(self, queue: PartitionQueue) -> Delivery:
        """The delivery of a new batch."""
        return Delivery(queue.topic.name, queue.partition, self._io_thread)

    def split(self, batch: Batch, max_bytes: int) -> list[Batch]:
        """Split a batch into smaller ones, with deliveries of their own."""
        return split_batch(batch, max_bytes, self._codec, self.builder, self._hand_over)

    def without(self, batch: Batch, record_errors: dict[int, BaseException]) -> Batch:
        """The batch without records that the leader rejected; these resolve with their errors."""
        rest = self.delivery(batch.queue)
        part = without_records(batch, record_errors, self._codec, self.builder, rest)
        whole: Delivery = batch.delivery
        whole.refuse_records(record_errors, rest)
        return part

    def _hand_over(self, batch: Batch, first_indexes: list[int]) -> list[Any]:
        parts = [self.delivery(batch.queue) for _ in first_indexes]
        whole: Delivery = batch.delivery
        whole.split(list(zip(first_indexes, parts, strict=True)))
        return parts
