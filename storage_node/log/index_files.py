"""Write the index files of a segment, and check their sizes before they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.records.header import HEADER_BYTES

if TYPE_CHECKING:
    from ...runtime.files.file_layer import Files


def write_index(files: Files, path: str, content: bytes) -> None:
    """Replace the content of the file. Errors: KafkaStorageError."""
    file = files.open(path, create=True)
    try:
        file.truncate(0)
        if content:
            file.pwrite(0, [content])
    finally:
        file.close()


def index_size_fault(files: Files, path: str, entry_bytes: int, log_bytes: int) -> str | None:
    """Why the file cannot be an index with entries of this size for `log_bytes` of batches, or None. Errors:
    KafkaStorageError."""
    if not files.exists(path):
        return f"{path} is missing"
    size = files.size(path)
    if size % entry_bytes:
        return f"{path} has {size} bytes, no multiple of {entry_bytes}"
    # Bound: an entry per batch, and one for the end; a larger file must not fill the memory.
    if size // entry_bytes > log_bytes // HEADER_BYTES + 1:
        return f"{path} has {size} bytes for a log of {log_bytes}"
    return None
