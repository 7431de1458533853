"""Walk the record batches of a segment file: by header only, or whole with the CRC checked.

Both raise CorruptMessageError at the first byte that cannot be a batch, after yielding all batches before it;
the message has the file and the position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from ...protocol.errors import CorruptMessageError
from ...protocol.records.header import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    LENGTH_END,
    BatchHeader,
    read_batch_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...runtime.files.file_layer import File

# Bound: bytes of a segment that a scan holds in memory, unless one batch is larger.
SCAN_CHUNK_BYTES = 1024 * 1024
# Bound: bytes that a header walk reads at once: an index interval of 4 KiB and small batches around it.
WALK_CHUNK_BYTES = 16 * 1024


class StoredBatch(NamedTuple):
    """One whole batch of a segment file, CRC checked."""

    position: int
    header: BatchHeader
    data: memoryview


def crc_fault(batch: memoryview, header: BatchHeader) -> str | None:
    """Why the CRC of the whole batch is wrong, or None."""
    actual = crc32c(batch[ATTRIBUTES_POSITION:])
    return None if actual == header.crc else f"CRC is {actual:#010x}, the header says {header.crc:#010x}"


def header_at(data: memoryview, at: int, *, path: str, position: int) -> BatchHeader:
    """The header at index `at` of `data`; `path` and `position` are for the error."""
    try:
        return read_batch_header(data, at)
    except CorruptMessageError as error:
        raise CorruptMessageError(f"{path} at byte {position}: {error}") from error


def scan_batches(file: File, position: int, end: int) -> Iterator[StoredBatch]:
    """All batches between two positions, read whole, CRC checked."""
    chunk, start = memoryview(b""), position
    while position < end:
        at = position - start
        if len(chunk) - at < HEADER_BYTES:
            chunk, start, at = _chunk(file, position, end, SCAN_CHUNK_BYTES), position, 0
        header = header_at(chunk, at, path=file.path, position=position)
        if position + header.size_bytes > end:
            raise CorruptMessageError(
                f"{file.path} at byte {position}: {header.size_bytes} bytes of batch, {end - position} left"
            )
        if len(chunk) - at < header.size_bytes:
            wanted = max(header.size_bytes, SCAN_CHUNK_BYTES)
            chunk, start, at = _chunk(file, position, end, wanted), position, 0
        data = chunk[at : at + header.size_bytes]
        fault = crc_fault(data, header) if len(data) == header.size_bytes else "the file ends inside it"
        if fault:
            raise CorruptMessageError(f"{file.path} at byte {position}: {fault}")
        yield StoredBatch(position, header, data)
        position += header.size_bytes


def walk_headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of all batches between two positions; bodies are neither read nor checked."""
    chunk, start = memoryview(b""), position
    while position < end:
        at = position - start
        if at > len(chunk) or len(chunk) - at < HEADER_BYTES:
            chunk, start, at = _chunk(file, position, end, WALK_CHUNK_BYTES), position, 0
        header = header_at(chunk, at, path=file.path, position=position)
        if position + header.size_bytes > end:
            raise CorruptMessageError(
                f"{file.path} at byte {position}: {header.size_bytes} bytes of batch, {end - position} left"
            )
        yield position, header
        position += LENGTH_END + header.batch_length


def _chunk(file: File, position: int, end: int, size: int) -> memoryview:
    return memoryview(file.pread(position, min(size, end - position)))
