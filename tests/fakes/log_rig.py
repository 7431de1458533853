"""Batches with known records, small configs, and checks of the contents, for tests of the log."""

from itertools import count
from typing import Any

from headrace.protocol.model import TopicPartition
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import Buffer, Compression, read_batch_header
from headrace.runtime.files.file_layer import Files
from headrace.storage_node.log.config import LogConfig
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.log_manager import LogManager

TP = TopicPartition("t", 0)
FOLDER = "/d/t-0"
NOW = 1_700_000_000_000


def config(**keys: Any) -> LogConfig:
    """A LogConfig; unlike a user's, its segments may be tiny."""
    segment_bytes = keys.pop("segment_bytes", None)
    made = LogConfig(**keys)
    if segment_bytes is not None:
        object.__setattr__(made, "segment_bytes", segment_bytes)
    return made


def batch(
    count: int = 1,
    *,
    timestamp: int = NOW,
    step: int = 1,
    size: int = 10,
    compression: Compression = Compression.NONE,
    tag: str = "",
    **settings: Any,
) -> bytes:
    """A producer's batch: record i has timestamp + i * step, key `tag:i` and a value of `size` bytes."""
    builder = active_codec().builder(max_bytes=1 << 24, compression=compression, **settings)
    for number in range(count):
        builder.append(timestamp + number * step, f"{tag}:{number}".encode(), b"v" * size)
    return builder.build()


def open_log(
    files: Files,
    folder: str = FOLDER,
    *,
    was_clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    cleaner_offset: int | None = None,
    **keys: Any,
) -> Log:
    """Open (and recover) the log in `folder`; `keys` are LogConfig fields."""
    return Log.open(
        files,
        folder,
        config(**keys),
        topic_partition=TP,
        recovery_point=recovery_point,
        was_clean=was_clean,
        log_start_offset=log_start_offset,
        cleaner_offset=cleaner_offset,
        wall_ms=NOW,
    )


def manager_of(files: Files, **keys: Any) -> LogManager:
    """A log manager over `/d`, its logs loaded; segments take one batch of `filled`."""
    numbers = count(1)
    manager = LogManager(
        files,
        ("/d",),
        defaults=config(segment_bytes=300, **keys),
        new_uuid=lambda: next(numbers).to_bytes(16, "big"),
    )
    manager.open_dirs()
    manager.dirs.set_identity("cluster", 5)
    manager.load(NOW)
    return manager


def filled(files: Files, **keys: Any) -> LogManager:
    """A log manager with a log of five segments, each with a batch of one record, key `number:0`; all
    flushed."""
    manager = manager_of(files, **keys)
    log = manager.create(TP, bytes(range(16)), manager.defaults, is_new=True)
    for number in range(5):
        append(log, batch(tag=str(number), size=200))
    assert len(log.segments) == 5
    log.flush()
    return manager


def detach(manager: LogManager, partition: TopicPartition = TP) -> Log:
    """Detach the partition's log from the node; `Log.delete` frees its space."""
    (log,) = manager.detach_all([partition])
    return log


def append(log: Log, data: Buffer, *, epoch: int = 0, wall_ms: int = NOW) -> int:
    """Append as leader; returns the base offset."""
    return log.append_as_leader(data, leader_epoch=epoch, wall_ms=wall_ms).base_offset


def read_all(log: Log, *, offset: int | None = None, max_bytes: int = 1 << 20) -> list[bytes]:
    """All batches from `offset` (default: the log start) to the end, each as one bytes object."""
    at = log.log_start_offset if offset is None else offset
    batches: list[bytes] = []
    while at < log.log_end_offset:
        found = log.reader.read(at, max_bytes, upto_offset=log.log_end_offset)
        assert found.next_offset > at, f"no progress at {at}"
        for data in found.data:
            batches += split(bytes(data))
        at = found.next_offset
    return batches


def split(data: bytes) -> list[bytes]:
    """The batches in `data`, which must have no other bytes."""
    batches = []
    while data:
        size = read_batch_header(data).size_bytes
        assert size <= len(data), "a batch is cut"
        batches.append(data[:size])
        data = data[size:]
    return batches


def keys_of(batches: list[bytes]) -> list[tuple[int, bytes | None]]:
    """(offset, key) of every record."""
    return [(record.offset, record.key) for data in batches for record in active_codec().decode(data)]


def check_dense(log: Log) -> list[bytes]:
    """All batches of the log. Asserts valid batches without offset gaps, and the log's invariants."""
    batches = read_all(log)
    expected = None
    for data in batches:
        header = active_codec().check(data)
        assert expected in (None, header.base_offset), f"{header.base_offset} where {expected} follows"
        expected = header.next_offset
    assert expected in (None, log.log_end_offset)
    log.check()
    return batches
