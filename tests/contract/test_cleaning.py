"""What compaction leaves of a batch: the rules of Kafka's cleaner, over both codecs."""

from typing import Any

import batch_bytes as by_hand
import pytest
from headrace.protocol.errors import CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError
from headrace.protocol.records.cleaning import Cleaned
from headrace.protocol.records.codec import OffsetMap, RecordCodec
from headrace.protocol.records.header import Compression, TimestampType, read_batch_header
from stored_batches import stored

NOW = 1_700_000_000_000
DAY = 86_400_000
HEADERS = by_hand.varint(2) + b"".join(
    by_hand.nullable(part) for part in (b"trace", b"1", "é".encode(), None)
)


def map_with(codec: RecordCodec, *batches: bytes) -> OffsetMap:
    offsets = codec.offset_map(24_000)
    for batch in batches:
        assert offsets.add_batch(batch)
    return offsets


def clean(codec: RecordCodec, batch: bytes, offsets: OffsetMap, **more: Any) -> Cleaned:
    return codec.clean_batch(batch, offsets, **{"now_ms": NOW, "delete_retention_ms": DAY, **more})


def rows_of(codec: RecordCodec, data: Any) -> list[tuple[int, bytes | None, bytes | None]]:
    assert codec.check(data, is_dense=False).record_count, "a cleaned batch is sound"
    return [(record.offset, record.key, record.value) for record in codec.decode(data)]


@pytest.mark.parametrize("compression", list(Compression))
def test_only_the_last_value_of_a_key_stays(codec: RecordCodec, compression: Compression) -> None:
    """Other records keep offsets and timestamps, and the batch its fields."""
    rows = [(5, b"a", b"1"), (6, b"b", b"1"), (8, None, b"1"), (9, b"a", b"2"), (11, b"c", b"1")]
    times = [2000, 5000, 9000, 1500, 5000]
    batch = stored(
        rows,
        last_offset=13,
        compression=compression,
        timestamps=times,
        headers=HEADERS,
        producer=(7, 1, 40),
        attributes=0x10,
    )
    offsets = map_with(codec, batch, stored([(20, b"c", b"2")]))
    cleaned = clean(codec, batch, offsets)
    assert cleaned[1:] == (2, 3, 5000, 6, False)
    before, after = read_batch_header(batch), read_batch_header(cleaned.data or b"")
    assert rows_of(codec, cleaned.data) == [(6, b"b", b"1"), (9, b"a", b"2")]
    assert [record.timestamp for record in codec.decode(cleaned.data or b"")] == [5000, 1500]
    assert {record.headers for record in codec.decode(cleaned.data or b"")} == {
        (("trace", b"1"), ("é", None))
    }
    assert after == before._replace(
        batch_length=after.batch_length, crc=after.crc, max_timestamp=5000, record_count=2
    )
    again = clean(codec, bytes(cleaned.data or b""), offsets)
    assert again[1:] == (2, 0, 5000, 6, False)


def test_unchanged_batch_is_the_same_buffer(codec: RecordCodec) -> None:
    """An unchanged batch is not copied, compressed or not; an empty map removes nothing."""
    batch = stored([(0, b"a", b"1"), (1, b"b", b"1")])
    for data in (
        batch,
        bytearray(batch),
        memoryview(batch),
        stored([(0, b"a", b"1")], compression=Compression.ZSTD),
    ):
        assert clean(codec, data, map_with(codec, data)).data is data
    offsets = codec.offset_map(24_000)
    offsets.advance(5)
    assert clean(codec, batch, offsets).data is batch


def test_records_after_the_map_stay(codec: RecordCodec) -> None:
    """Null keys and repeated keys too: later records are not indexed yet."""
    batch = stored([(0, b"a", b"1"), (1, None, b"1"), (2, b"a", b"2"), (3, None, b"1"), (4, b"a", b"3")])
    assert clean(codec, batch, codec.offset_map(24_000)).data is batch
    offsets = codec.offset_map(24_000)
    offsets.add_batch(stored([(2, b"a", b"2")]))
    cleaned = clean(codec, batch, offsets)
    assert rows_of(codec, cleaned.data) == [(2, b"a", b"2"), (3, None, b"1"), (4, b"a", b"3")]


def test_batch_without_remaining_records(codec: RecordCodec) -> None:
    """The caller decides whether an empty batch stays."""
    batch = stored([(0, b"a", b"1"), (1, None, b"1")], producer=(9, 2, 70), attributes=0x18, last_offset=3)
    offsets = map_with(codec, batch, stored([(5, b"a", b"2")]))
    assert clean(codec, batch, offsets) == Cleaned(None, 0, 2, -1, -1, False)
    header = read_batch_header(batch)
    empty = codec.empty_batch(header)
    assert len(empty) == 61
    found = codec.check(empty, is_dense=False)
    assert found == header._replace(
        batch_length=49, crc=found.crc, record_count=0, base_timestamp=-1, attributes=0x18
    )
    assert clean(codec, empty, offsets) == Cleaned(None, 0, 0, -1, -1, False)
    assert codec.empty_batch(found) == empty


@pytest.mark.parametrize("compression", list(Compression))
def test_tombstone_is_removed_after_the_horizon(codec: RecordCodec, compression: Compression) -> None:
    """The first compaction sets the horizon, later ones keep it, one after it removes the tombstone."""
    batch = stored(
        [(0, b"a", b"1"), (1, b"gone", b"1"), (2, b"gone", None), (3, b"b", None)],
        compression=compression,
        timestamps=[NOW - 9, -1, NOW - 3, NOW - 5],
        base_timestamp=NOW,
        headers=HEADERS,
    )
    offsets = map_with(codec, batch)
    first = clean(codec, batch, offsets)
    assert first[1:] == (3, 1, NOW - 3, 2, True)
    header = read_batch_header(first.data or b"")
    assert (header.delete_horizon_ms, header.attributes) == (NOW + DAY, 0x40 | compression)
    assert rows_of(codec, first.data) == [(0, b"a", b"1"), (2, b"gone", None), (3, b"b", None)]
    assert [record.timestamp for record in codec.decode(first.data or b"")] == [NOW - 9, NOW - 3, NOW - 5]
    second = clean(codec, first.data or b"", offsets, now_ms=NOW + DAY - 1)
    assert second.data is first.data
    assert second.has_tombstones
    third = clean(codec, first.data or b"", offsets, now_ms=NOW + DAY)
    assert third[1:] == (1, 2, NOW - 9, 0, False)
    assert read_batch_header(third.data or b"").delete_horizon_ms == NOW + DAY
    assert rows_of(codec, third.data) == [(0, b"a", b"1")]
    assert [record.timestamp for record in codec.decode(third.data or b"")] == [NOW - 9]


def test_horizon_is_set_without_removing_records(codec: RecordCodec) -> None:
    """A batch of tombstones is rewritten for the horizon alone; a missing timestamp stays missing."""
    batch = stored([(0, b"a", None)], timestamps=[-1], base_timestamp=0)
    cleaned = clean(codec, batch, map_with(codec, batch), delete_retention_ms=2**63 - 1)
    assert cleaned[1:] == (1, 0, -1, 0, True)
    assert read_batch_header(cleaned.data or b"").delete_horizon_ms == 2**63 - 1
    assert codec.decode(cleaned.data or b"")[0].timestamp == -1


def test_log_append_time_batches(codec: RecordCodec) -> None:
    """All records have the max timestamp of the batch, before and after."""
    rows = [(0, b"a", b"1"), (1, b"b", None), (2, b"a", b"2")]
    batch = stored(rows, attributes=0x08, timestamps=[1, 2, 77_000], base_timestamp=1)
    cleaned = clean(codec, batch, map_with(codec, batch))
    assert cleaned[1:] == (2, 1, 77_000, 1, True)
    header = read_batch_header(cleaned.data or b"")
    assert (header.max_timestamp, header.timestamp_type) == (77_000, TimestampType.LOG_APPEND_TIME)
    assert [record.timestamp for record in codec.decode(cleaned.data or b"")] == [77_000] * 2


def test_control_batches_stay_whole(codec: RecordCodec) -> None:
    """A horizon is set only if the caller says that the transaction is empty."""
    marker = by_hand.batch(
        by_hand.record(0, 0, b"\0\0\0\1", b"\0\0\0\0\0\0"), attributes=0x30, producer=(5, 0, -1)
    )
    offsets = map_with(codec, stored([(7, b"\0\0\0\1", b"v")]))
    kept = clean(codec, marker, offsets)
    assert kept.data is marker
    assert kept[1:] == (1, 0, 1000, 0, False)
    due = clean(codec, marker, offsets, is_horizon_due=True)
    assert due[1:] == (1, 0, 1000, 0, False)
    header = read_batch_header(due.data or b"")
    assert (header.attributes, header.delete_horizon_ms) == (0x70, NOW + DAY)
    assert clean(codec, bytes(due.data or b""), offsets, is_horizon_due=True, now_ms=NOW + 1)[1] == 1
    assert read_batch_header(due.data or b"").producer_id == 5


def test_records_are_copied_byte_for_byte(codec: RecordCodec) -> None:
    """Unusual but valid bytes too: long varints, null as -7, used attributes."""
    odd_body = (
        b"\x05" + b"\x80\x00" + b"\x82\x00" + by_hand.nullable(b"odd") + by_hand.varint(-7) + b"\x80\x00"
    )
    odd = by_hand.varint(len(odd_body)) + odd_body
    payload = by_hand.record(0) + odd + by_hand.record(2)
    batch = by_hand.batch(payload, 3)
    cleaned = clean(codec, batch, map_with(codec, batch), now_ms=0, delete_retention_ms=0)
    horizon = by_hand.varint(1000)  # different from a horizon of 0
    moved_body = odd_body[:1] + horizon + odd_body[3:]
    moved = by_hand.varint(len(moved_body)) + moved_body
    assert bytes(cleaned.data or b"")[61:] == moved + by_hand.record(2, 1000)


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (b"", CorruptMessageError),
        (stored([(0, b"k", b"v")])[:-1], CorruptMessageError),
        (stored([(0, b"k", b"v")]) + b"x", CorruptMessageError),
        (stored([(0, b"k", b"v")])[:-1] + b"x", CorruptMessageError),
        (by_hand.batch(by_hand.record(), attributes=5), UnsupportedCompressionTypeError),
        (by_hand.batch(by_hand.record() + by_hand.record(0), 2), InvalidRecordError),
        (by_hand.batch(by_hand.record(length=40)), InvalidRecordError),
        (by_hand.batch(by_hand.record(), 2**31 - 1), InvalidRecordError),
        (by_hand.batch(by_hand.record(key=None, value=None) + b"x"), InvalidRecordError),
        (by_hand.batch(b"x", 0, last_delta=0), InvalidRecordError),
        (by_hand.batch(by_hand.record(), base_offset=-1), InvalidRecordError),
        (by_hand.batch(b"", 0, last_delta=2, base_offset=2**63 - 2), InvalidRecordError),
        (by_hand.batch(by_hand.record(value=None), base_timestamp=-(2**63)), InvalidRecordError),
        (by_hand.batch(by_hand.record(headers=b"\x02\x02\xff\x00")), InvalidRecordError),
    ],
)
def test_damaged_batches_are_refused(codec: RecordCodec, batch: bytes, error: type[Exception]) -> None:
    """Also those of which nothing would stay."""
    offsets = codec.offset_map(24_000)
    with pytest.raises(error):
        clean(codec, batch, offsets)


def test_limits_of_arguments(codec: RecordCodec) -> None:
    """A decompression bomb is not decompressed, and no time is negative."""
    batch = stored([(0, b"k", bytes(10_000))], compression=Compression.GZIP)
    offsets = codec.offset_map(24_000)
    with pytest.raises(InvalidRecordError):
        clean(codec, batch, offsets, max_decompressed_bytes=9_000)
    with pytest.raises(InvalidRecordError):
        offsets.add_batch(batch, max_decompressed_bytes=9_000)
    for wrong in ({"now_ms": -1}, {"delete_retention_ms": -1}):
        with pytest.raises(ValueError, match="horizon"):
            clean(codec, batch, offsets, **wrong)
    damaged = bytearray(stored([(0, b"k", b"v")]))
    damaged[17] ^= 1
    assert clean(codec, bytes(damaged), offsets, check_crc=False).records_kept == 1
