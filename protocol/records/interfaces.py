"""The interfaces of the record codecs, and the types of their results. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from .header import BatchHeader, Buffer, Compression, TimestampType
from .opening import MAX_DECOMPRESSED_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import ReadableBuffer

    from .columns import BinaryColumn, Columns, DecodedColumns
    from .opening import BatchFacts

# Source: Kafka, the default of log.cleaner.io.buffer.load.factor.
LOAD_FACTOR = 0.9
Header = tuple[str, bytes | None]


class RecordLike(Protocol):
    """One decoded record with slots; immutable, except for `_fill` before a consumer returns it. `timestamp`
    is in ms, with LOG_APPEND_TIME the batch's max timestamp."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def timestamp_type(self) -> int: ...
    @property
    def key(self) -> Any: ...
    @property
    def value(self) -> Any: ...
    @property
    def headers(self) -> tuple[Header, ...]: ...
    @property
    def leader_epoch(self) -> int: ...
    def _fill(self, key: Any, value: Any) -> None: ...
    def replace(self, **changes: Any) -> RecordLike:
        """A copy with other values of these attributes."""


class Cleaned(NamedTuple):
    """The result of cleaning a batch.

    `data`: the given buffer if unchanged, None if no record is kept. `max_timestamp` and its first offset are
    those of the kept records (both -1 without records).
    """

    data: Buffer | None
    records_kept: int
    records_removed: int
    max_timestamp: int
    offset_of_max_timestamp: int
    has_tombstones: bool


class BatchBuilder(Protocol):
    """A batch under construction. Not thread-safe: its owner holds a lock or the GIL during a call."""

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
    ) -> int:
        """Append one record; returns its index in the batch, or -1 (and appends nothing) if it would exceed
        max_bytes.

        The first record of a batch is always accepted, however large. `timestamp_ms` is -1 (none) or not
        negative. Errors, which append nothing: ValueError for a timestamp out of range, a record that fits in
        no batch, a header key that is not valid UTF-8, or after `build`; TypeError for other types.
        """

    def append_columns(
        self,
        columns: Columns,
        timestamp_ms: int,
        rows: ReadableBuffer | None,
        start: int,
        end: int,
        stop_bytes: int,
    ) -> int:
        """Append the rows with numbers rows[start:end] (int32; None: rows start .. end).

        Stops after the last row, when the batch is full, or after the row with which `size_bytes` exceeds
        `stop_bytes`; returns the position after the last appended row. `timestamp_ms` applies to columns
        without timestamps. Errors as in `append`, and ValueError for invalid offsets, a header key that is
        null or not UTF-8, a row out of range: raised at the first invalid row, of which nothing is appended;
        earlier rows stay, see `count`. Buffers that are too short for `columns.count` rows: ValueError, and
        no row is appended.
        """

    def append_values(
        self, timestamp_ms: int, values: Sequence[bytes | None], start: int, stop_bytes: int
    ) -> int:
        """`append_columns` for a sequence of values from position `start` on, without keys or headers.

        TypeError for a value that is neither bytes nor None; earlier values stay.
        """

    def stamp(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        """Set the producer of the batch, which may be known only shortly before `build`.

        Errors: ValueError as in `settings.check_settings`, or after `build`.
        """

    @property
    def count(self) -> int: ...

    @property
    def size_bytes(self) -> int:
        """Bytes of the batch if built uncompressed, header included."""

    def build(self) -> bytes:
        """The finished batch, compressed, with base offset 0 and leader epoch -1. ValueError if empty.

        The base timestamp is the first record's (or the delete horizon). Nothing can be appended afterwards.
        """

    def finish(self) -> Buffer:
        """As `build`, once, without a copy if uncompressed: the result is read-only, and the builder cannot
        be used again."""


class ColumnSink(Protocol):
    """Collects records of many batches by column. Not thread-safe: ValueError for concurrent calls.

    Memory: the bytes of the rows and about 45 bytes per row, at most twice that while it grows.
    """

    @property
    def count(self) -> int: ...

    def append(
        self,
        batch: Buffer,
        *,
        partition: int,
        from_offset: int = 0,
        max_rows: int,
        check_crc: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> tuple[int, int]:
        """Add the records of a batch at or after `from_offset`, at most `max_rows`.

        Returns the number of added rows and the offset to continue from: that of the first record left out,
        or the header's next offset if none was. A row that would bring a column's bytes above
        `max_column_bytes` is left out (except the first row of a sink): finish, and continue in a new sink.
        The whole batch is validated, including records that are not added. Errors as in `RecordCodec.decode`,
        and ValueError for a negative max_rows, a partition beyond 32 bits, or after `finish`; the sink is
        then unchanged.
        """

    def finish(self) -> DecodedColumns:
        """All collected rows; ValueError at a second call."""


class OffsetMap(Protocol):
    """The last offset of each key in bounded memory. Not thread-safe: ValueError for concurrent calls.

    Memory: 24 bytes per slot, touched as the map fills. Keys are identified by 128-bit hashes, see
    `offset_map.py`.
    """

    memory_bytes: int  # of the whole table
    capacity: int  # the maximum number of keys

    def __len__(self) -> int: ...

    @property
    def latest_offset(self) -> int:
        """The map contains every keyed record from its start offset up to this offset (inclusive); -1 if it
        is empty."""

    def clear(self) -> None:
        """Remove all keys and the latest offset."""

    def advance(self, offset: int) -> None:
        """Advance latest_offset to `offset` over batches without keys to add; it never decreases.

        For control batches, records of aborted transactions, and gaps between batches.
        """

    def get(self, key: bytes) -> int:
        """The last offset of the key, -1 for none."""

    def hash_of(self, key: bytes) -> bytes:
        """The 16-byte hash of the key in this map."""

    def add_batch(
        self,
        batch: Buffer,
        start_offset: int = 0,
        *,
        check_crc: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> bool:
        """Add key and offset of each record of the batch that has a key and an offset >= `start_offset`.

        latest_offset becomes the batch's last offset, if that is not below `start_offset`. Control batches
        have no keys in this sense. False, with nothing added, if the keys might not fit: the pass ends at
        latest_offset. Exception: an empty map adds as many keys as fit, so that a batch with more keys than
        the capacity does not block all passes; latest_offset is then within the batch. Errors: as in
        `RecordCodec.decode`, with nothing added; ValueError for a negative start.
        """

    def add_run(
        self,
        data: Buffer,
        at: int,
        start_offset: int = 0,
        *,
        check_crc: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> tuple[int, int]:
        """`add_batch` for consecutive batches of `data` from index `at` on; returns (index after them, number
        of their records).

        It stops without error before the first batch that needs a closer check: truncated, invalid,
        transactional, a control batch, without records, or with more keys than might fit. ValueError for a
        negative start, or an index out of range.
        """


class RecordCodec(Protocol):
    """Encodes and decodes record batches.

    Errors for invalid bytes: CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError, and no
    other; ValueError for invalid arguments. Memory beside the input: about max_decompressed_bytes (twice that
    for zstd without a declared size), and in `decode` the records, about 150 bytes each beside their own
    bytes.
    """

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
        """A new empty batch. Errors: ValueError as in `settings.check_settings`."""

    def record_bytes_bound(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
    ) -> int:
        """An upper bound of the bytes that this record adds to a batch, without encoding it."""

    def decode(
        self,
        batch: Buffer,
        *,
        topic: str = "",
        partition: int = -1,
        check_crc: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> list[RecordLike]:
        """All records of the one batch that fills `batch` exactly, which may be compacted."""

    def check(
        self,
        batch: Buffer,
        *,
        is_dense: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> BatchHeader:
        """Validate the one batch that fills `batch` exactly, including each record's lengths, without
        creating objects.

        A valid batch also decodes. `is_dense` requires what a producer may send (at least one record, offset
        deltas 0, 1, 2, ...); without it compacted batches are valid too. CorruptMessageError: length, magic
        or CRC, a damaged compressed stream. InvalidRecordError: inconsistent counts, deltas, varints or
        headers, trailing bytes, a decompression bomb. UnsupportedCompressionTypeError: codec bits 5-7.
        """

    def walk(
        self,
        data: Buffer,
        at: int,
        end: int,
        base_offset: int,
        upto_offset: int,
        leader_epoch: int,
        *,
        check_crc: bool = True,
        is_dense: bool = True,
    ) -> tuple[int, int]:
        """Skip valid stored batches from index `at` of `data` on; returns (index, offset) after them.

        It stops without error before the first batch that is not complete before `end`, does not start at the
        next offset (or, without `is_dense`, at or after it), reaches `upto_offset`, has another leader epoch
        or, with `check_crc`, a wrong CRC. Records are not checked. ValueError unless 0 <= at <= end <=
        len(data).
        """

    def inspect(
        self,
        batch: Buffer,
        *,
        is_dense: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> BatchFacts:
        """`check`, and the range of the records' timestamps from the same pass."""

    def columns(
        self,
        *,
        keys: bool = True,
        values: bool = True,
        headers: bool = True,
        max_column_bytes: int = 2**31 - 1,
    ) -> ColumnSink:
        """A new empty sink for the selected columns; the others are validated and dropped.

        Errors: ValueError if max_column_bytes is not between 1 and 2^31-1.
        """

    def murmur2(self, data: bytes) -> int:
        """The 32-bit murmur2 hash of Kafka's clients, unsigned. Errors: TypeError for other types than
        bytes."""

    def hash_column(self, column: BinaryColumn, count: int) -> ReadableBuffer:
        """murmur2 of each of the `count` values, as uint32; 0 for null.

        Errors: ValueError for invalid offsets or buffers that are too short.
        """

    def partition_rows(
        self, partitions: ReadableBuffer, partition_count: int
    ) -> tuple[ReadableBuffer, Sequence[int]]:
        """Row numbers sorted by partition, stable within a partition; `partitions` is int32 per row.

        Returns row numbers (int32) and the start of each partition's rows in them: those of p are starts[p]
        .. starts[p+1], and the rows marked -1 are last, from starts[partition_count] to
        starts[partition_count+1]. Errors: ValueError for a partition out of range, or more than 2^24
        partitions.
        """

    def offset_map(self, memory_bytes: int, *, load_factor: float = LOAD_FACTOR) -> OffsetMap:
        """A new empty map of at most `memory_bytes`, of which the fraction `load_factor` may be filled.

        Errors: ValueError if not a single key fits, for 2^32 slots, or a load factor not between 0 and 1.
        """

    def clean_batch(
        self,
        batch: Buffer,
        offset_map: OffsetMap,
        *,
        now_ms: int,
        delete_retention_ms: int,
        is_horizon_due: bool = False,
        check_crc: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> Cleaned:
        """The one stored batch that fills `batch` without the records that compaction removes; rules:
        `cleaning.py`.

        The map must be of the same codec. All records of a control batch are kept. `is_horizon_due` sets a
        missing delete horizon even without tombstones (for the marker of a transaction whose data is
        removed). The result is compressed at the codec's default level. Errors: as in `decode`;
        InvalidRecordError also for a result above 2 GiB, or a timestamp too far from the horizon; ValueError
        for negative times.
        """

    def empty_batch(self, header: BatchHeader) -> bytes:
        """The batch of that header without records, to be stored in its place.

        It keeps offsets, leader epoch, max timestamp and all producer fields, including the transactional and
        control bits. It drops compression, delete horizon and base timestamp (-1).
        """
