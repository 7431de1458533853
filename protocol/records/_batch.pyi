from collections.abc import Sequence

from .codec import BatchBuilder, Header, RecordLike
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
    def walk(
        self, data: Buffer, at: int, end: int, base_offset: int, upto_offset: int, leader_epoch: int
    ) -> tuple[int, int]: ...
