"""Transaction markers: control batches that commit or abort a producer's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import KafkaError
from ...protocol.records.codec import active_codec
from ...protocol.records.control import EndTransaction, decode_control, encode_control

if TYPE_CHECKING:
    from ...protocol.records.header import BatchHeader, Buffer


def encode_marker(producer_id: int, producer_epoch: int, marker: EndTransaction, wall_ms: int) -> bytes:
    """A control batch with one record."""
    builder = active_codec().builder(
        max_bytes=1024,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
    builder.append(wall_ms, *encode_control(marker))
    return builder.build()


def read_marker(batch: Buffer, header: BatchHeader) -> EndTransaction | None:
    """The marker in a control batch; None if compaction has emptied the batch, or its version is unknown."""
    if not header.record_count:
        return None
    try:
        record = active_codec().decode(batch)[0]
        found = decode_control(record.key, record.value)
    except KafkaError:
        return None
    return found if isinstance(found, EndTransaction) else None
