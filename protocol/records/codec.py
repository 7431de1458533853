"""One face, two codecs: `batch.py` is the readable truth, `_batch.pyx` the fast twin.

The compiled twin is the default. `HEADRACE_CODEC=python` asks for the pure one; a missing build is an
error that says how to build it, never a silent fallback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .header import BatchHeader, Buffer, Compression, TimestampType

if TYPE_CHECKING:
    from collections.abc import Sequence

Header = tuple[str, bytes | None]

# Bound: what one batch may grow to when decompressed. 1000 times a 1 MiB batch would be a bomb; 128 MiB
# leaves room for the largest honest batch (max.message.bytes of 100 MiB, stored uncompressed).
MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024


class RecordLike(Protocol):
    """One decoded record, with slots; the attributes are plain and may be replaced by deserialisers."""

    topic: str
    partition: int
    offset: int
    timestamp: int  # ms; the batch's max timestamp under LOG_APPEND_TIME
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    leader_epoch: int


class BatchBuilder(Protocol):
    """A batch under construction. Not thread-safe: its owner holds a lock or the GIL for one call."""

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
    ) -> int:
        """Add one record; its index in the batch, or -1 (and nothing added) if it would pass max_bytes.

        The first record of a batch is always taken, however large.
        """

    @property
    def count(self) -> int:
        """Records appended so far."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the batch as it would be built uncompressed, header included."""

    def build(self) -> bytes:
        """The finished batch, compressed, with base offset 0 and leader epoch -1. ValueError when empty."""


class RecordCodec(Protocol):
    """Encode and decode record batches. Errors on bad bytes: CorruptMessageError, InvalidRecordError,
    UnsupportedCompressionTypeError; ValueError when called wrongly. Never another exception, never more
    memory than MAX_DECOMPRESSED_BYTES plus the input."""

    name: str  # "compiled" or "python"

    def builder(
        self,
        *,
        max_bytes: int,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
        is_control: bool = False,
        delete_horizon_ms: int | None = None,
    ) -> BatchBuilder:
        """A new empty batch under construction."""

    def decode(
        self, batch: Buffer, *, topic: str = "", partition: int = -1, check_crc: bool = True
    ) -> list[RecordLike]:
        """All records of the one batch that fills `batch` exactly."""

    def check(self, batch: Buffer) -> BatchHeader:
        """Check the one batch that fills `batch` exactly, down to each record's lengths, building no object.

        CorruptMessageError: length, magic or CRC. InvalidRecordError: counts, deltas, varints or headers
        that do not add up, trailing bytes, a bomb. UnsupportedCompressionTypeError: codec bits 5-7.
        """


def pick_codec(choice: str | None) -> RecordCodec:
    """The codec named by HEADRACE_CODEC: None or "compiled", or "python"."""
    raise NotImplementedError
