"""Recompresses a producer's batch with the codec of `compression.type`. Pure.

The records keep their bytes: only the payload's compression, the codec bits of the attributes, the batch
length and the CRC change. Offsets, leader epoch and the final timestamps are assigned by the append. Source:
Kafka LogValidator.java buildRecordsAndAssignOffsets; KIP-390 for the levels.
"""

from __future__ import annotations

from typing import NamedTuple

from .codec import active_codec
from .compression import compress
from .header import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    Buffer,
    Compression,
    read_batch_header,
    sealed_batch,
)
from .opening import MAX_DECOMPRESSED_BYTES, BatchFacts, open_batch

_LAST_COMPRESSION = max(Compression)


class Recompressed(NamedTuple):
    """The whole batch in the target codec, and the facts that `codec.inspect` would return for it."""

    batch: bytes
    facts: BatchFacts


def needs_recompression(batch: Buffer, target: Compression) -> bool:
    """Whether a leader stores this batch in another codec than the received one.

    False for a control batch, and for invalid bytes or an unknown codec: the append rejects those.
    """
    if len(batch) < HEADER_BYTES:
        return False
    attributes = batch[ATTRIBUTES_POSITION + 1]
    codec = attributes & COMPRESSION_MASK
    return codec != target and codec <= _LAST_COMPRESSION and not attributes & CONTROL_BIT


def recompress(
    batch: Buffer,
    target: Compression,
    level: int | None = None,
    *,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Recompressed:
    """Validate the one batch that fills `batch` as `codec.inspect` does, and compress its records with
    `target`.

    The records are decompressed once. Memory beside the input: twice the decompressed records, at most
    `max_decompressed_bytes` each, and the result. `level` as in `check_level`. Errors: those of
    `RecordCodec.inspect`.
    """
    header, payload = open_batch(
        batch, check_crc=True, is_dense=True, max_decompressed_bytes=max_decompressed_bytes
    )
    codec_free = header.attributes & ~COMPRESSION_MASK
    plain: Buffer = batch
    if header.compression_id:
        plain = sealed_batch(header._replace(attributes=codec_free), payload)
    facts = active_codec().inspect(plain, max_decompressed_bytes=max_decompressed_bytes)
    if target is Compression.NONE:
        stored = bytes(plain)
    else:
        packed = compress(target, memoryview(plain)[HEADER_BYTES:], level)
        stored = sealed_batch(header._replace(attributes=codec_free | target), packed)
    return Recompressed(stored, facts._replace(header=read_batch_header(stored)))
