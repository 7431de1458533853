"""Which records of a rejected batch are named (KIP-467), in each codec."""

import struct
from typing import Any

import pytest
from crc32c import crc32c
from fake_files import FakeFiles
from headrace.protocol.errors import InvalidRecordError, InvalidTimestampError
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import Buffer, Compression
from headrace.storage_node.log.record_errors import MAX_CHECKED, MAX_RECORD_ERRORS
from log_rig import NOW, append, batch, open_log
from stored_batches import stored

HOUR = 3_600_000
BOTH = pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])


def of_rows(*rows: tuple[bytes | None, int], compression: Compression = Compression.NONE) -> bytes:
    """A batch of (key, timestamp)."""
    builder = active_codec().builder(max_bytes=1 << 24, compression=compression)
    for key, timestamp_ms in rows:
        builder.append(timestamp_ms, key, b"v")
    return builder.build()


def refused(data: Buffer, **keys: Any) -> InvalidRecordError | InvalidTimestampError:
    log = open_log(FakeFiles(), **keys)
    with pytest.raises((InvalidRecordError, InvalidTimestampError)) as caught:
        append(log, data)
    assert log.log_end_offset == 0
    return caught.value


@BOTH
def test_each_record_without_a_key_is_named(compression: Compression) -> None:
    """In a compacted topic; the message has the first three and the count."""
    rows = [(b"k" if number % 3 else None, NOW) for number in range(12)]
    error = refused(of_rows(*rows, compression=compression), cleanup_policy=("compact",))
    assert isinstance(error, InvalidRecordError)
    assert [index for index, _ in error.record_errors] == [0, 3, 6, 9]
    assert all("no key" in message for _, message in error.record_errors)
    assert "4 records" in str(error)
    assert "1 more" in str(error)


@BOTH
def test_each_timestamp_out_of_bounds_is_named(compression: Compression) -> None:
    """Too old and too new, both bounds inclusive; no timestamp is valid."""
    rows = [(b"k", NOW + delta) for delta in (-6, -5, 0, 7, 8)] + [(b"k", -1)]
    error = refused(
        of_rows(*rows, compression=compression),
        message_timestamp_before_max_ms=5,
        message_timestamp_after_max_ms=7,
    )
    assert isinstance(error, InvalidTimestampError)
    assert [index for index, _ in error.record_errors] == [0, 4]
    assert str(NOW + 8) in error.record_errors[1][1]


def test_one_wrong_timestamp_makes_invalid_timestamp() -> None:
    """As in Kafka: INVALID_TIMESTAMP if any record has that fault. A record is named once."""
    error = refused(
        of_rows((None, NOW), (b"k", NOW + 2 * HOUR), (None, NOW + 2 * HOUR)), cleanup_policy=("compact",)
    )
    assert isinstance(error, InvalidTimestampError)
    assert [index for index, _ in error.record_errors] == [0, 1, 2]
    assert "no key" in error.record_errors[2][1]


def test_log_append_time_bounds_no_timestamp() -> None:
    """Then only the key counts."""
    error = refused(
        of_rows((None, NOW), (b"k", NOW + 2 * HOUR)),
        cleanup_policy=("compact",),
        message_timestamp_type="LogAppendTime",
    )
    assert [index for index, _ in error.record_errors] == [0]


def test_record_with_wrong_offset_delta_is_named() -> None:
    """Offset deltas 0, 1, 3: the third record is wrong."""
    gap = stored([(0, b"k", b"v"), (1, b"k", b"v"), (3, b"k", b"v")], base_timestamp=NOW)
    data = bytearray(gap)
    struct.pack_into(">i", data, 23, 2)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    error = refused(bytes(data))
    assert [index for index, _ in error.record_errors] == [2]


def test_fault_of_the_batch_names_no_record() -> None:
    """The record count does not match the offsets."""
    data = bytearray(batch(3))
    struct.pack_into(">i", data, 57, 2)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    assert refused(bytes(data)).record_errors == ()


def test_number_of_named_records_is_bounded() -> None:
    """So is the number of checked records."""
    for count, named in ((MAX_RECORD_ERRORS + 1, MAX_RECORD_ERRORS), (MAX_CHECKED + 1, 0)):
        keys = {"cleanup_policy": ("compact",), "max_message_bytes": 1 << 23}
        error = refused(of_rows(*[(None, NOW)] * count), **keys)
        assert [index for index, _ in error.record_errors] == list(range(named))
