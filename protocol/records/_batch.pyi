from collections.abc import Callable, Sequence
from typing import Any

from _typeshed import ReadableBuffer

from .cleaning import Cleaned
from .codec import BatchBuilder, ColumnSink, Header, OffsetMap, RecordLike
from .columns import BinaryColumn
from .header import BatchHeader, Buffer, Compression, TimestampType
from .opening import BatchFacts

class Record:
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    leader_epoch: int
    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Header, ...] = ...,
        leader_epoch: int = ...,
    ) -> None: ...

class CompiledCodec:
    name: str
    def __init__(self, hash_key: bytes) -> None: ...
    def builder(
        self,
        *,
        max_bytes: int,
        compression: Compression = ...,
        level: int | None = ...,
        timestamp_type: TimestampType = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        base_sequence: int = ...,
        is_transactional: bool = ...,
        is_control: bool = ...,
        delete_horizon_ms: int | None = ...,
    ) -> BatchBuilder: ...
    def record_bytes_bound(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ...
    ) -> int: ...
    def decode(
        self,
        batch: Buffer,
        *,
        topic: str = ...,
        partition: int = ...,
        check_crc: bool = ...,
        max_decompressed_bytes: int = ...,
    ) -> list[RecordLike]: ...
    def check(
        self, batch: Buffer, *, is_dense: bool = ..., max_decompressed_bytes: int = ...
    ) -> BatchHeader: ...
    def inspect(
        self, batch: Buffer, *, is_dense: bool = ..., max_decompressed_bytes: int = ...
    ) -> BatchFacts: ...
    def columns(
        self, *, keys: bool = ..., values: bool = ..., headers: bool = ..., max_column_bytes: int = ...
    ) -> ColumnSink: ...
    def murmur2(self, data: bytes) -> int: ...
    def hash_column(self, column: BinaryColumn, count: int) -> ReadableBuffer: ...
    def partition_rows(
        self, partitions: ReadableBuffer, partition_count: int
    ) -> tuple[ReadableBuffer, list[int]]: ...
    def walk(
        self,
        data: Buffer,
        at: int,
        end: int,
        base_offset: int,
        upto_offset: int,
        leader_epoch: int,
        *,
        check_crc: bool = ...,
        is_dense: bool = ...,
    ) -> tuple[int, int]: ...
    def offset_map(self, memory_bytes: int, *, load_factor: float = ...) -> OffsetMap: ...
    def clean_batch(
        self,
        batch: Buffer,
        offset_map: OffsetMap,
        *,
        now_ms: int,
        delete_retention_ms: int,
        is_horizon_due: bool = ...,
        check_crc: bool = ...,
        max_decompressed_bytes: int = ...,
    ) -> Cleaned: ...
    def empty_batch(self, header: BatchHeader) -> bytes: ...

class RecordFuture:
    delivery: Any
    _index: int
    _timestamp: int
    _key_size: int
    _value_size: int
    def __init__(self, delivery: Any, index: int, timestamp: int, key_size: int, value_size: int) -> None: ...

def adopt(readable: type) -> type: ...

class CompiledSlot:
    def open(self, builder: BatchBuilder, delivery: object, limit_bytes: int) -> None: ...
    def close(self) -> None: ...

class CompiledLane:
    def add_slot(self) -> CompiledSlot: ...
    def set_count(self, partition_count: int) -> None: ...
    def stick_to(self, partition: int) -> None: ...

class CompiledLanes:
    def __init__(self, max_record_bytes: int, ignore_keys: bool) -> None: ...
    def add_lane(self, topic: str) -> CompiledLane: ...
    def bind(self, send_slowly: Callable[..., Any]) -> Callable[..., Any]: ...
    def try_send(self, topic: str, value: object, key: object, partition: object) -> Any: ...
    def close(self) -> None: ...

def plain_sizes(values: list[Any], start: int, max_bytes: int) -> Sequence[int]: ...
