"""Which batches of clients a leader accepts, and the error of each rejected one (RELIABILITY 3.3 rows
23-30)."""

import struct
from typing import Any

import pytest
from crc32c import crc32c
from fake_files import FakeFiles
from headrace.protocol import errors
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import Compression, read_batch_header
from headrace.storage_node.log.log import Log
from log_rig import NOW, append, batch, check_dense, open_log
from stored_batches import stored

HOUR = 3_600_000


def patched(at: int, fmt: str, value: int, *, fix_crc: bool = True) -> bytes:
    data = bytearray(batch(2))
    struct.pack_into(fmt, data, at, value)
    if fix_crc:
        struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return bytes(data)


REFUSED: dict[str, tuple[bytes, type[errors.KafkaError]]] = {
    "nothing": (b"", errors.CorruptMessageError),
    "a piece of a header": (batch()[:60], errors.CorruptMessageError),
    "cut": (batch()[:-1], errors.CorruptMessageError),
    "trailing byte": (batch() + b"x", errors.InvalidRecordError),
    "two batches": (batch() + batch(), errors.InvalidRecordError),
    "length 0": (patched(8, ">i", 0), errors.CorruptMessageError),
    "length -1": (patched(8, ">i", -1), errors.CorruptMessageError),
    "magic 0": (patched(16, ">b", 0), errors.InvalidRecordError),
    "magic 1": (patched(16, ">b", 1), errors.InvalidRecordError),
    "magic 3": (patched(16, ">b", 3), errors.InvalidRecordError),
    "bad CRC": (patched(40, ">b", 1, fix_crc=False), errors.CorruptMessageError),
    "codec 5": (patched(21, ">h", 5), errors.UnsupportedCompressionTypeError),
    "control bit": (patched(21, ">h", 0x20), errors.InvalidRecordError),
    "delete horizon bit": (patched(21, ">h", 0x40), errors.InvalidRecordError),
    "transactional bit": (patched(21, ">h", 0x10), errors.InvalidRecordError),
    "producer id": (patched(43, ">q", 7), errors.InvalidRecordError),
    "log append time bit": (patched(21, ">h", 0x08), errors.InvalidTimestampError),
    "count 0": (patched(57, ">i", 0), errors.InvalidRecordError),
    "count -1": (patched(57, ">i", -1), errors.InvalidRecordError),
    "count 2^31-1": (patched(57, ">i", 2**31 - 1), errors.InvalidRecordError),
    "last offset delta": (patched(23, ">i", 2), errors.InvalidRecordError),
    "timestamp -2": (patched(27, ">q", -2), errors.InvalidTimestampError),
    "timestamp 2^63-2": (patched(27, ">q", 2**63 - 2), errors.InvalidTimestampError),
    "far future": (batch(timestamp=NOW + 2 * HOUR), errors.InvalidTimestampError),
    "one record in the far future": (batch(2, step=2 * HOUR), errors.InvalidTimestampError),
    "emptied by a cleaner": (
        active_codec().empty_batch(read_batch_header(batch(2))),
        errors.InvalidRecordError,
    ),
    "gaps left by a cleaner": (
        stored([(0, b"k", b"v"), (2, b"k", b"v")], base_timestamp=NOW),
        errors.InvalidRecordError,
    ),
    "too large": (batch(size=2000), errors.MessageTooLargeError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_batches_are_rejected(name: str) -> None:
    """Each has its error; log and file do not change, and the next batch is appended."""
    data, error = REFUSED[name]
    files = FakeFiles()
    log = open_log(files, max_message_bytes=1000)
    append(log, batch())
    files.operations.clear()
    with pytest.raises(error):
        append(log, data)
    assert files.operations == []
    assert append(log, batch()) == 1
    assert len(check_dense(log)) == 2


def test_batch_larger_than_segment_bytes_is_rejected() -> None:
    """No segment could hold it."""
    log = open_log(FakeFiles(), segment_bytes=500)
    with pytest.raises(errors.RecordBatchTooLargeError, match=r"segment\.bytes"):
        append(log, batch(size=1000))


def test_large_batch_is_rejected_before_decompression() -> None:
    """max.message.bytes limits the compressed size; the damaged stream is not read."""
    data = bytearray(batch(200, size=100, compression=Compression.GZIP))
    data[100] ^= 1
    log = open_log(FakeFiles(), max_message_bytes=200)
    with pytest.raises(errors.MessageTooLargeError):
        append(log, bytes(data))


@pytest.mark.parametrize(
    ("timestamp", "keys", "is_taken"),
    [
        (NOW - 100 * HOUR, {}, True),
        (NOW + HOUR, {}, True),
        (NOW + HOUR + 1, {}, False),
        (-1, {"message_timestamp_before_max_ms": 0}, True),
        (NOW - 6, {"message_timestamp_before_max_ms": 5}, False),
        (NOW - 5, {"message_timestamp_before_max_ms": 5}, True),
        (NOW + 9 * HOUR, {"message_timestamp_type": "LogAppendTime"}, True),
    ],
)
def test_timestamps_outside_bounds_are_rejected(timestamp: int, keys: dict[str, Any], is_taken: bool) -> None:
    """Every record counts under CreateTime; a record without timestamp is valid."""
    log = open_log(FakeFiles(), **keys)
    try:
        append(log, batch(timestamp=timestamp))
    except errors.InvalidTimestampError:
        assert not is_taken
    else:
        assert is_taken


def test_servers_may_write_control_batches(log: Log) -> None:
    """`internal` batches skip the rules for clients, but not the checks of the bytes."""
    marker = batch(
        1, is_control=True, is_transactional=True, producer_id=5, producer_epoch=0, base_sequence=-1
    )
    log.append_as_leader(marker, leader_epoch=0, wall_ms=NOW, internal=True)
    assert log.log_end_offset == 1
    with pytest.raises(errors.CorruptMessageError):
        log.append_as_leader(marker[:-1] + b"\xff", leader_epoch=0, wall_ms=NOW, internal=True)


def test_checked_batch_is_not_inspected_again() -> None:
    """With `checked` the bytes are trusted, so that a thread can inspect and the owner append."""
    data = batch(3)
    facts = active_codec().inspect(data)
    log = open_log(FakeFiles())
    log.append_as_leader(data, leader_epoch=0, wall_ms=NOW, checked=facts)
    assert len(check_dense(log)) == 1
    with pytest.raises(errors.InvalidTimestampError):
        log.append_as_leader(data, leader_epoch=0, wall_ms=NOW - 2 * HOUR, checked=facts)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_compacted_topic_rejects_records_without_key(compression: Compression) -> None:
    """The error names them; other topics, and batches of servers, may have such records."""
    builder = active_codec().builder(max_bytes=1 << 20, compression=compression)
    for key in (b"a", b"", None, None):
        builder.append(NOW, key, b"v")
    data = builder.build()
    for policy in (("compact",), ("compact", "delete")):
        log = open_log(FakeFiles(), cleanup_policy=policy)
        with pytest.raises(errors.InvalidRecordError, match="record 2: no key"):
            append(log, data)
        append(log, batch(2))
        log.append_as_leader(data, leader_epoch=0, wall_ms=NOW, internal=True)
    append(open_log(FakeFiles()), data)
