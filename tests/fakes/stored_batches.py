"""Stored batches with any offsets; encoded by hand, because a builder makes offsets without gaps."""

from collections.abc import Sequence

import batch_bytes as by_hand
from headrace.protocol.records.compression import compress
from headrace.protocol.records.header import Compression

Row = tuple[int, bytes | None, bytes | None]  # offset, key, value


def stored(
    rows: Sequence[Row],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    compression: Compression = Compression.NONE,
    attributes: int = 0,
    base_timestamp: int = 1000,
    timestamps: Sequence[int] | None = None,
    leader_epoch: int = 3,
    producer: tuple[int, int, int] = (-1, -1, -1),
    headers: bytes = b"\x00",
) -> bytes:
    """One batch; `timestamps` (ms; None: base + index) are the timestamps of its records."""
    first = rows[0][0] if base_offset is None else base_offset
    last = rows[-1][0] if last_offset is None else last_offset
    times = range(base_timestamp, base_timestamp + len(rows)) if timestamps is None else timestamps
    payload = b"".join(
        by_hand.record(offset - first, time - base_timestamp, key, value, headers)
        for (offset, key, value), time in zip(rows, times, strict=True)
    )
    return by_hand.batch(
        compress(compression, payload),
        len(rows),
        last_delta=last - first,
        attributes=attributes | int(compression),
        base_offset=first,
        leader_epoch=leader_epoch,
        base_timestamp=base_timestamp,
        max_timestamp=max(times),
        producer=producer,
    )
