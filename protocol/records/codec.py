"""One face, two codecs: `batch.py` is the readable truth, `_batch.pyx` the fast twin.

The compiled twin is the default. `HEADRACE_CODEC=python` asks for the pure one; a missing build is an
error that says how to build it, never a silent fallback.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import ConfigError
from .cleaning import Cleaned
from .columns import BinaryColumn, Columns, DecodedColumns, HeaderColumn
from .environment_io import codec_choice, process_secret
from .header import BatchHeader, Buffer, Compression, TimestampType
from .offset_map import LOAD_FACTOR
from .opening import MAX_DECOMPRESSED_BYTES, BatchFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import ReadableBuffer

__all__ = [
    "MAX_DECOMPRESSED_BYTES",
    "BatchBuilder",
    "BatchFacts",
    "BinaryColumn",
    "Cleaned",
    "ColumnSink",
    "Columns",
    "DecodedColumns",
    "Header",
    "HeaderColumn",
    "OffsetMap",
    "RecordCodec",
    "RecordLike",
    "active_codec",
    "pick_codec",
]

Header = tuple[str, bytes | None]


class RecordLike(Protocol):
    """One decoded record, with slots; immutable, but for `_fill` before it is handed out. `timestamp` is in
    ms, under LOG_APPEND_TIME the batch's max timestamp."""

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
        """A record with other values for these attributes."""


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

        The first record of a batch is always taken, however large. `timestamp_ms` is -1 (none) or not
        negative. Errors, which add nothing: ValueError for a timestamp out of range, a record that fits in
        no batch, a header key that UTF-8 cannot hold, or after `build`; TypeError for other types.
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
        """Append the rows numbered rows[start:end] (int32; None: the rows start .. end themselves).

        Stops when all joined, when the batch is full, or after the row with which `size_bytes` passes
        `stop_bytes`; gives the position behind the last one that joined. `timestamp_ms` is for columns
        without timestamps. Errors as in `append`, and ValueError for offsets that run backwards or out of
        their data, a header key that is null or not UTF-8, a row that is not there: raised for the first
        unfit row with nothing of it added; the rows before it stay, `count` tells. Buffers that are too short
        for `columns.count` rows: ValueError, and nothing is added.
        """

    def append_values(
        self, timestamp_ms: int, values: Sequence[bytes | None], start: int, stop_bytes: int
    ) -> int:
        """`append_columns` for a sequence of values from position `start` on, without keys or headers.

        TypeError for a value that is neither bytes nor None; those before it stay.
        """

    def stamp(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        """Say who writes the batch, where that is known only when it is about to be built.

        Errors: ValueError as in `settings.check_settings`, or after `build`.
        """

    @property
    def count(self) -> int:
        """Records appended so far."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the batch as it would be built uncompressed, header included."""

    def build(self) -> bytes:
        """The finished batch, compressed, with base offset 0 and leader epoch -1. ValueError when empty.

        The base timestamp is the first record's (or the delete horizon). Nothing can be appended after it.
        """

    def finish(self) -> Buffer:
        """`build` once, without a copy where nothing is compressed: read-only, and the builder is used up."""


class ColumnSink(Protocol):
    """Records of many batches, gathered by column. Not thread-safe: ValueError when two calls meet.

    Memory: the bytes of the rows and some 45 for each, twice that at most while it grows.
    """

    @property
    def count(self) -> int:
        """Rows gathered so far."""

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
        """Take the records of a batch at or after `from_offset`, at most `max_rows`.

        Gives the rows taken, and the offset to go on from: that of the first record left out, or the
        header's next offset when none was. A row that would carry the bytes of one column past
        `max_column_bytes` is left out (the first row of a sink never is): finish, and go on in a new sink.
        The whole batch is checked, also what is not taken. Errors as in `RecordCodec.decode`, and ValueError
        for a negative max_rows, a partition beyond 32 bits, or after `finish`; the sink is then as before.
        """

    def finish(self) -> DecodedColumns:
        """All rows gathered, once; ValueError after that."""


class OffsetMap(Protocol):
    """The last offset of each key in bounded memory. Not thread-safe: ValueError when two calls meet.

    Memory: 24 bytes for each slot, touched as far as it fills. Keys are told apart by a hash of 128 bits, see
    `offset_map.py` for what that means.
    """

    memory_bytes: int  # of the whole table
    capacity: int  # keys that it holds at most

    def __len__(self) -> int:
        """Keys in the map."""

    @property
    def latest_offset(self) -> int:
        """Up to here (inclusive) the map knows every keyed record since its start; -1 in an empty map."""

    def clear(self) -> None:
        """Forget all keys and the latest offset."""

    def advance(self, offset: int) -> None:
        """Carry latest_offset on to `offset`, over what has no keys to put; it never goes back.

        That is for control batches, the data of aborted transactions, and gaps between batches.
        """

    def get(self, key: bytes) -> int:
        """The last offset put for the key, -1 for none."""

    def hash_of(self, key: bytes) -> bytes:
        """The 16 bytes that stand for the key in this map."""

    def add_batch(
        self,
        batch: Buffer,
        start_offset: int = 0,
        *,
        check_crc: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> bool:
        """Put key and offset of each record of the batch that has a key and an offset >= `start_offset`.

        Then latest_offset is the batch's last offset, if that is not below `start_offset`. Control batches
        have no keys in this sense. False, and nothing put, when the keys might not fit: the pass ends with
        latest_offset. One thing differs in an empty map, so that a batch with more keys than it holds cannot
        stop all passes: it takes what fits, and latest_offset then lies within the batch.
        Errors: as in `RecordCodec.decode`, with nothing put; ValueError for a negative start.
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
        """`add_batch` for batch after batch of `data` from index `at` on; (index after them, their records).

        It stops without a word before the first one that is to be looked at closely: one that is cut short or
        wrong, of a transaction, a control batch, without records, or with more keys than might fit.
        ValueError for a negative start, or an index outside the data.
        """


class RecordCodec(Protocol):
    """Encode and decode record batches.

    Errors on bad bytes: CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError, and no
    other; ValueError when called wrongly. Memory beside the input: at most about max_decompressed_bytes
    (twice that for zstd without a declared size), and in `decode` the records, some 150 bytes each beside
    their own bytes.
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
        """A new empty batch under construction. Errors: ValueError as in `settings.check_settings`."""

    def record_bytes_bound(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
    ) -> int:
        """At least the bytes that appending this record adds to any batch, found without encoding it."""

    def decode(
        self,
        batch: Buffer,
        *,
        topic: str = "",
        partition: int = -1,
        check_crc: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> list[RecordLike]:
        """All records of the one batch that fills `batch` exactly, compacted batches included."""

    def check(
        self,
        batch: Buffer,
        *,
        is_dense: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> BatchHeader:
        """Check the one batch that fills `batch` exactly, down to each record's lengths, building no object.

        What passes also decodes. `is_dense` asks for what a producer may send (at least one record, offset
        deltas 0, 1, 2, ...); without it compacted batches pass too.
        CorruptMessageError: length, magic or CRC, a damaged compressed stream. InvalidRecordError: counts,
        deltas, varints or headers that do not add up, trailing bytes, a bomb.
        UnsupportedCompressionTypeError: codec bits 5-7.
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
        """Skip the stored batches from index `at` of `data` on that are sound; (index, offset) after them.

        It stops without a word before the first one that is not whole before `end`, does not begin at the
        offset that follows (or, without `is_dense`, behind it), reaches `upto_offset`, has another leader
        epoch or, with `check_crc`, a wrong CRC. Records are not looked at. ValueError unless
        0 <= at <= end <= len(data).
        """

    def inspect(
        self,
        batch: Buffer,
        *,
        is_dense: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> BatchFacts:
        """`check`, and the range of the records' timestamps, found in the same walk."""

    def columns(
        self,
        *,
        keys: bool = True,
        values: bool = True,
        headers: bool = True,
        max_column_bytes: int = 2**31 - 1,
    ) -> ColumnSink:
        """A new empty sink for the columns asked for; the others are checked and left out.

        Errors: ValueError if max_column_bytes is not between 1 and 2^31-1.
        """

    def murmur2(self, data: bytes) -> int:
        """The 32-bit murmur2 hash of Kafka's clients, unsigned. Errors: TypeError for other than bytes."""

    def hash_column(self, column: BinaryColumn, count: int) -> ReadableBuffer:
        """murmur2 of each of the `count` values, as uint32; 0 for null.

        Errors: ValueError for offsets that run backwards or out of their data, or buffers too short.
        """

    def partition_rows(
        self, partitions: ReadableBuffer, partition_count: int
    ) -> tuple[ReadableBuffer, Sequence[int]]:
        """The rows sorted by partition, those of one partition in their order; `partitions` is int32 per row.

        Gives row numbers (int32) and where each partition's rows start in them: those of p are
        starts[p] .. starts[p+1], and the rows marked -1 stand last, from starts[partition_count] to
        starts[partition_count+1]. Errors: ValueError for another partition, or more than 2^24 of them.
        """

    def offset_map(self, memory_bytes: int, *, load_factor: float = LOAD_FACTOR) -> OffsetMap:
        """A new empty map in at most so many bytes, of which `load_factor` may fill.

        Errors: ValueError if not even one key fits, for 2^32 slots, or a load factor not between 0 and 1.
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
        """The one stored batch that fills `batch` without what compaction removes; the rules: `cleaning.py`.

        The map is of the same codec. All records of a control batch stay. `is_horizon_due` sets the delete
        horizon, where there is none yet, also without tombstones (for the marker of a transaction whose data
        is gone). Compressed anew at the codec's default level. Errors: as in `decode`; InvalidRecordError too
        for a result beyond 2 GiB, or a timestamp too far from the horizon; ValueError for negative times.
        """

    def empty_batch(self, header: BatchHeader) -> bytes:
        """The batch of that header without its records, to be stored in its place.

        It keeps offsets, leader epoch, max timestamp and what the producer wrote of itself, transaction and
        control bits included. What is gone: compression, delete horizon, base timestamp (-1).
        """


def pick_codec(choice: str | None) -> RecordCodec:
    """The codec named by HEADRACE_CODEC: None or "compiled", or "python".

    Errors: ConfigError for another name; ImportError, naming the make target, if the compiled one is not
    built.
    """
    if choice == "python":
        from .batch import PythonCodec

        return PythonCodec(process_secret())
    if choice not in (None, "compiled"):
        raise ConfigError(f"HEADRACE_CODEC must be 'compiled' or 'python', not {choice!r}")
    try:
        from ._batch import CompiledCodec
    except ModuleNotFoundError as error:
        raise ImportError(
            "the compiled record codec is not built: run `make codec`, or set HEADRACE_CODEC=python "
            "to use the slow one"
        ) from error
    return CompiledCodec(process_secret())


@cache
def active_codec() -> RecordCodec:
    """The codec of this process, picked once by the environment variable HEADRACE_CODEC."""
    return pick_codec(codec_choice())
