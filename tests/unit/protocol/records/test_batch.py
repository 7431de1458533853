"""Both codecs through one set of tests: what builders write, what decode and check accept and refuse."""

import pickle
from typing import Any

import batch_bytes as by_hand
import pytest
from headrace.protocol import errors
from headrace.protocol.records.codec import RecordCodec, pick_codec
from headrace.protocol.records.header import Compression, TimestampType, assigned_prefix, read_batch_header

INT64_MAX = 2**63 - 1


@pytest.fixture(params=["python", "compiled"])
def codec(request: pytest.FixtureRequest) -> RecordCodec:
    return pick_codec(request.param)


# --- building -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", list(Compression))
def test_appended_entries_are_read_back(codec: RecordCodec, compression: Compression) -> None:
    """Nulls, empties and headers survive every compression; offsets and timestamps are each record's own."""
    builder = codec.builder(max_bytes=1 << 20, compression=compression)
    rows = [
        (1000, b"key", b"value", ()),
        (999, None, b"", (("h", b"1"), ("h", None), ("é", b""))),
        (5000, b"", None, ()),
        (-1, None, None, (("only", b"x" * 300),)),
    ]
    assert [builder.append(*row) for row in rows] == [0, 1, 2, 3]
    records = codec.decode(builder.build(), topic="t", partition=7)
    assert [(r.timestamp, r.key, r.value, r.headers) for r in records] == rows
    assert [r.offset for r in records] == [0, 1, 2, 3]
    assert {(r.topic, r.partition, r.timestamp_type, r.leader_epoch) for r in records} == {("t", 7, 0, -1)}


def test_the_header_of_a_built_batch(codec: RecordCodec) -> None:
    """Base timestamp is the first record's, max timestamp the largest, and the producer's triple is kept."""
    builder = codec.builder(
        max_bytes=1000, producer_id=77, producer_epoch=3, base_sequence=9, is_transactional=True
    )
    for timestamp_ms in (500, 900, 100):
        builder.append(timestamp_ms, None, b"v")
    header = read_batch_header(builder.build())
    assert (header.base_offset, header.leader_epoch, header.magic) == (0, -1, 2)
    assert (header.base_timestamp, header.max_timestamp) == (500, 900)
    assert (header.record_count, header.last_offset_delta) == (3, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 9)
    assert header.is_transactional
    assert not header.is_control


def test_all_attribute_bits(codec: RecordCodec) -> None:
    """Each setting sets its bit and no other."""

    def attributes(**settings: object) -> int:
        builder = codec.builder(max_bytes=1000, **settings)  # type: ignore[arg-type]
        builder.append(1, b"k", b"v")
        return read_batch_header(builder.build()).attributes

    assert attributes() == 0
    assert [attributes(compression=c) for c in Compression] == [0, 1, 2, 3, 4]
    assert attributes(timestamp_type=TimestampType.LOG_APPEND_TIME) == 0x08
    ids = {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0}
    assert attributes(is_transactional=True, **ids) == 0x10
    assert attributes(is_control=True) == 0x20
    assert attributes(delete_horizon_ms=5) == 0x40


def test_delete_horizon_takes_the_base_timestamp_field(codec: RecordCodec) -> None:
    """The horizon is the base of the deltas, so the records' own timestamps stay."""
    builder = codec.builder(max_bytes=1000, delete_horizon_ms=10_000)
    builder.append(500, b"k", None)
    builder.append(20_000, b"k", None)
    data = builder.build()
    header = read_batch_header(data)
    assert (header.delete_horizon_ms, header.max_timestamp) == (10_000, 20_000)
    assert [r.timestamp for r in codec.decode(data)] == [500, 20_000]


def test_log_append_time_stamps_every_record_with_the_max_timestamp(codec: RecordCodec) -> None:
    """Under LOG_APPEND_TIME the deltas mean nothing, even when they would not fit."""
    payload = by_hand.record(0, INT64_MAX) + by_hand.record(1, -5)
    data = by_hand.batch(payload, 2, attributes=0x08, max_timestamp=4242)
    records = codec.decode(data)
    assert [(r.timestamp, r.timestamp_type) for r in records] == [(4242, 1), (4242, 1)]
    assert codec.inspect(data)[1:3] == (4242, 4242)


def test_first_record_without_a_key_is_reported(codec: RecordCodec) -> None:
    """By its index in the batch; an empty key is a key."""
    for keys, expected in (((b"a", b""), -1), ((b"a", None, b"c", None), 1), ((None,), 0)):
        builder = codec.builder(max_bytes=1000)
        for key in keys:
            builder.append(5, key, b"v")
        assert codec.inspect(builder.build()).first_null_key == expected


def test_size_is_exact_and_max_bytes_is_kept(codec: RecordCodec) -> None:
    """size_bytes is what build gives uncompressed; a record that would pass max_bytes is refused."""
    for max_bytes in range(61, 400, 7):
        builder = codec.builder(max_bytes=max_bytes)
        assert builder.size_bytes == 61
        before = 61
        while builder.append(1000 + before, b"k" * (before % 70), b"v", [("h", b"x")]) >= 0:
            before = builder.size_bytes
        assert builder.size_bytes == before
        assert builder.count == 1 or before <= max_bytes
        assert len(builder.build()) == before


def test_a_record_that_fits_exactly_is_taken(codec: RecordCodec) -> None:
    """max_bytes is inclusive."""
    probe = codec.builder(max_bytes=10_000)
    probe.append(5, b"a", b"b")
    probe.append(6, b"c", b"d")
    exact = codec.builder(max_bytes=probe.size_bytes)
    assert [exact.append(5, b"a", b"b"), exact.append(6, b"c", b"d"), exact.append(6, b"", b"")] == [0, 1, -1]
    tight = codec.builder(max_bytes=probe.size_bytes - 1)
    assert [tight.append(5, b"a", b"b"), tight.append(6, b"c", b"d")] == [0, -1]


def test_the_first_record_is_taken_however_large(codec: RecordCodec) -> None:
    """A producer with a large record sends it alone; the next one starts another batch."""
    builder = codec.builder(max_bytes=100)
    assert builder.append(1, None, b"x" * 100_000) == 0
    assert builder.append(1, None, b"") == -1
    assert len(codec.decode(builder.build())) == 1


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [(None, None, ()), (b"k" * 70, b"v" * 9000, ()), (b"", b"x", (("é" * 100, None), ("", b"v" * 200)))],
)
def test_the_bound_of_a_record_is_never_below_its_size(
    codec: RecordCodec, key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    """A producer that reserves the bound never runs over, and wastes little."""
    builder = codec.builder(max_bytes=1 << 20)
    builder.append(0, b"", b"")
    before = builder.size_bytes
    builder.append(INT64_MAX, key, value, headers)
    actual = builder.size_bytes - before
    assert actual <= codec.record_bytes_bound(key, value, headers) <= actual + 36 + 10 * len(headers)


def test_append_refuses_invalid_records(codec: RecordCodec) -> None:
    """Wrong types and timestamps raise an error with their name, and append nothing."""
    builder = codec.builder(max_bytes=1000)
    for timestamp_ms in (-2, INT64_MAX + 1, -(2**70)):
        with pytest.raises(ValueError, match="timestamp"):
            builder.append(timestamp_ms, b"k", b"v")
    with pytest.raises(ValueError, match="surrogates"):
        builder.append(1, b"k", b"v", [("\ud800", b"")])
    bad = [
        (1.5, b"", b"", ()),
        (1, "k", b"", ()),
        (1, b"", bytearray(b"v"), ()),
        (1, b"", b"", None),
        (1, b"", b"", [["h", b""]]),
        (1, b"", b"", [("h",)]),
        (1, b"", b"", [(b"h", b"")]),
        (1, b"", b"", [("h", "v")]),
    ]
    for row in bad:
        with pytest.raises(TypeError):
            builder.append(*row)  # type: ignore[arg-type]
    assert (builder.count, builder.size_bytes) == (0, 61)
    assert builder.append(INT64_MAX, b"k", b"v") == 0
    assert builder.append(-1, b"k", b"v") == 1
    assert [r.timestamp for r in codec.decode(builder.build())] == [INT64_MAX, -1]


def test_a_timestamp_delta_that_does_not_fit_is_refused(codec: RecordCodec) -> None:
    """From no timestamp (-1) to the last representable one is one more than 63 bits hold."""
    builder = codec.builder(max_bytes=1000)
    builder.append(-1, b"k", b"v")
    with pytest.raises(ValueError, match="too far"):
        builder.append(INT64_MAX, b"k", b"v")
    assert builder.append(INT64_MAX - 1, b"k", b"v") == 1
    assert [r.timestamp for r in codec.decode(builder.build())] == [-1, INT64_MAX - 1]


def test_build_closes_the_batch(codec: RecordCodec) -> None:
    """Empty batches cannot be built; after build the bytes stay the same and nothing can be added."""
    builder = codec.builder(max_bytes=1000)
    with pytest.raises(ValueError, match="at least one"):
        builder.build()
    builder.append(1, b"k", b"v")
    first = builder.build()
    with pytest.raises(ValueError, match="already built"):
        builder.append(1, b"k", b"v")
    assert builder.build() == first
    assert builder.count == 1


@pytest.mark.parametrize("compression", list(Compression))
def test_finish_equals_build(codec: RecordCodec, compression: Compression) -> None:
    """The same bytes, read-only, for small and large batches; then the builder is closed."""
    for count in (1, 20, 3000):
        built, finished = (codec.builder(max_bytes=1 << 20, compression=compression) for _ in range(2))
        for number in range(count):
            for builder in (built, finished):
                builder.append(number, b"%d" % number, b"value" * 20)
        data = memoryview(finished.finish())
        assert data.readonly
        assert data == built.build()
        with pytest.raises(ValueError, match="already built"):
            finished.append(1, b"k", b"v")
    with pytest.raises(ValueError, match="at least one"):
        codec.builder(max_bytes=1000, compression=compression).finish()


def test_finished_bytes_stay_while_others_are_built(codec: RecordCodec) -> None:
    """Memory is used again only when no buffer of the bytes is left."""

    def batch(number: int) -> memoryview:
        builder = codec.builder(max_bytes=1 << 20)
        for _ in range(200 + number):
            builder.append(1, None, b"%d" % number * 100)
        return memoryview(builder.finish())

    held = {}
    for number in range(100):
        data = batch(number)
        if number % 3 == 0:
            held[number] = data
    for number, data in held.items():
        records = codec.decode(data)
        assert {record.value for record in records} == {b"%d" % number * 100}
        assert len(records) == 200 + number


# --- records ------------------------------------------------------------------------------------------


def test_records_compare_print_and_pickle(codec: RecordCodec) -> None:
    """A record is an immutable value: equal and hashed by content, picklable; `replace` makes another."""
    builder = codec.builder(max_bytes=1000)
    builder.append(5, b"k", b"v", [("h", None)])
    data = builder.build()
    (one,), (other,) = codec.decode(data, topic="t"), codec.decode(data, topic="t")
    assert one == other
    assert pickle.loads(pickle.dumps(one)) == one
    assert repr(one) == (
        "Record(topic='t', partition=-1, offset=0, timestamp=5, timestamp_type=0, key=b'k', "
        "value=b'v', headers=(('h', None),), leader_epoch=-1)"
    )
    assert hash(one) == hash(other)
    for name in ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers",
                 "leader_epoch", "other"):  # fmt: skip
        with pytest.raises(AttributeError, match=f"immutable: record.replace.{name}="):
            setattr(one, name, 1)
        with pytest.raises(AttributeError):
            delattr(one, name)
    assert one == other
    changed: Any = one.replace(value={"json": 1}, key=None, offset=3)
    assert (changed.value, changed.key, changed.topic, changed.offset) == ({"json": 1}, None, "t", 3)
    assert (one, type(changed)) == (other, type(one))
    with pytest.raises(TypeError):
        hash(changed)
    with pytest.raises(TypeError):
        one.replace(colour=1)
    assert one != "a string"
    assert type(one)("t", 0, 1, 2, 0, b"k", None) == type(one)(
        topic="t",
        partition=0,
        offset=1,
        timestamp=2,
        timestamp_type=0,
        key=b"k",
        value=None,
        headers=(),
        leader_epoch=-1,
    )


def test_offsets_and_epoch_are_those_of_the_server(codec: RecordCodec) -> None:
    """The first 17 bytes are replaced, the rest is unchanged, and every record has its offset."""
    builder = codec.builder(max_bytes=1000)
    for _ in range(3):
        builder.append(5, b"k", b"v")
    data = builder.build()
    stored = assigned_prefix(1 << 40, len(data) - 12, 9) + data[17:]
    assert codec.check(stored).base_offset == 1 << 40
    assert [(r.offset - (1 << 40), r.leader_epoch) for r in codec.decode(stored)] == [(0, 9), (1, 9), (2, 9)]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_kind_of_buffer_is_read(codec: RecordCodec, kind: type) -> None:
    """Frames come as memoryviews, files as bytes or bytearrays; records keep nothing of them."""
    builder = codec.builder(max_bytes=1000)
    builder.append(5, b"k", b"v", [("h", b"x")])
    data = kind(bytearray(builder.build()))
    codec.check(data)
    (record,) = codec.decode(data)
    assert (type(record.key), type(record.value), record.headers) == (bytes, bytes, (("h", b"x"),))


# --- what a producer may send, and what lies in a log -------------------------------------------------


def test_compacted_batches_decode_but_do_not_pass_as_new(codec: RecordCodec) -> None:
    """The cleaner leaves gaps, or no record at all; a producer may send neither."""
    gaps = by_hand.batch(by_hand.record(1) + by_hand.record(4), 2, last_delta=9, base_offset=100)
    assert [r.offset for r in codec.decode(gaps)] == [101, 104]
    assert codec.check(gaps, is_dense=False).last_offset == 109
    empty = by_hand.batch(b"", 0, last_delta=9, attributes=1)
    assert codec.decode(empty) == []
    assert codec.inspect(empty, is_dense=False)[1:] == (-1, -1, -1)
    for data in (gaps, empty):
        with pytest.raises(errors.InvalidRecordError):
            codec.check(data)


def test_inspect_finds_the_true_timestamps(codec: RecordCodec) -> None:
    """Some clients leave the max timestamp field wrong; the log must be able to notice."""
    payload = by_hand.record(0, 0) + by_hand.record(1, 700) + by_hand.record(2, -30)
    facts = codec.inspect(by_hand.batch(payload, 3, base_timestamp=1000, max_timestamp=-1))
    assert (facts.header.max_timestamp, facts.min_timestamp, facts.max_timestamp) == (-1, 970, 1700)


def test_negative_lengths_other_than_minus_one_are_null_too(codec: RecordCodec) -> None:
    """As in Kafka's reader, any negative length of a key or value is null."""
    body = b"\x00" + by_hand.varint(0) * 2 + by_hand.varint(-7) + by_hand.varint(-(2**31)) + b"\x00"
    (record,) = codec.decode(by_hand.batch(by_hand.varint(len(body)) + body))
    assert (record.key, record.value) == (None, None)


# --- damage -------------------------------------------------------------------------------------------

GOOD = by_hand.record()
HUGE = by_hand.varint(2**31 - 1)

CORRUPT = {
    "nothing": b"",
    "no whole header": by_hand.batch(GOOD)[:60],
    "cut short": by_hand.batch(GOOD)[:-1],
    "bytes behind": by_hand.batch(GOOD) + b"\x00",
    "length 0": by_hand.batch(GOOD, length=0),
    "length -1": by_hand.batch(GOOD, length=-1),
    "length below the header": by_hand.batch(GOOD, length=48),
    "length above the bytes": by_hand.batch(GOOD, length=10_000),
    "length 2^31-1": by_hand.batch(GOOD, length=2**31 - 1),
    "magic 0": by_hand.batch(GOOD, magic=0),
    "magic 1": by_hand.batch(GOOD, magic=1),
    "magic 3": by_hand.batch(GOOD, magic=3),
    "bad CRC": by_hand.batch(GOOD, crc=1),
    "two batches": by_hand.batch(GOOD) * 2,
}

INVALID = {
    "count 0": by_hand.batch(b"", 0, last_delta=0),
    "count -1": by_hand.batch(GOOD, -1, last_delta=0),
    "count 2^31-1": by_hand.batch(GOOD, 2**31 - 1),
    "count above the records": by_hand.batch(GOOD, 2),
    "count above the records that could fit": by_hand.batch(GOOD * 3, 5),
    "count below the records": by_hand.batch(by_hand.record(0) + by_hand.record(1), 1),
    "count 0 with bytes": by_hand.batch(GOOD, 0, last_delta=0),
    "last offset delta above": by_hand.batch(GOOD, 1, last_delta=1),
    "last offset delta below": by_hand.batch(by_hand.record(0) + by_hand.record(1), 2, last_delta=0),
    "last offset delta negative": by_hand.batch(GOOD, 1, last_delta=-1),
    "delta repeated": by_hand.batch(by_hand.record(0) * 2, 2),
    "delta backwards": by_hand.batch(by_hand.record(1) + by_hand.record(0), 2),
    "delta negative": by_hand.batch(by_hand.record(-1)),
    "delta above the last": by_hand.batch(by_hand.record(1)),
    "offset past 63 bits": by_hand.batch(by_hand.record(0) + by_hand.record(1), 2, base_offset=INT64_MAX),
    "timestamp past 63 bits": by_hand.batch(by_hand.record(0, INT64_MAX), base_timestamp=1),
    "timestamp below 63 bits": by_hand.batch(by_hand.record(0, -(2**63)), base_timestamp=-1),
    "record length negative": by_hand.batch(by_hand.record(length=-1)),
    "record length 0": by_hand.batch(b"\x00" * 7),
    "record length short": by_hand.batch(by_hand.record(length=len(GOOD) - 2)),
    "record length long": by_hand.batch(by_hand.record(length=len(GOOD))),
    "record length 2^31-1": by_hand.batch(HUGE + GOOD),
    "bytes behind the headers": by_hand.batch(by_hand.record(tail=b"\x00")),
    "bytes behind the records": by_hand.batch(GOOD + b"\x00"),
    "varint of six bytes": by_hand.batch(b"\x8e\x80\x80\x80\x80\x00" + GOOD[1:]),
    "varint of 33 bits": by_hand.batch(b"\x8e\x80\x80\x80\x10" + GOOD[1:]),
    "varlong of 65 bits": by_hand.batch(by_hand.varint(17) + b"\x00" + b"\xff" * 9 + b"\x02" + GOOD[3:]),
    "varint without end": by_hand.batch(b"\xff" * 7),
    "key length 2^31-1": by_hand.batch(by_hand.varint(11) + b"\x00\x00\x00" + HUGE + b"v\x00\x00"),
    "header count -1": by_hand.batch(by_hand.record(headers=by_hand.varint(-1))),
    "header count 2^31-1": by_hand.batch(by_hand.record(headers=HUGE)),
    "header count above the bytes": by_hand.batch(by_hand.record(headers=by_hand.varint(2) + b"\x02h\x01")),
    "header key null": by_hand.batch(by_hand.record(headers=by_hand.varint(1) + b"\x01\x01")),
    "header key not UTF-8": by_hand.batch(by_hand.record(headers=by_hand.varint(1) + b"\x02\xff\x01")),
    "header key a surrogate": by_hand.batch(
        by_hand.record(headers=by_hand.varint(1) + b"\x06\xed\xa0\x80\x01")
    ),
    "header key past the end": by_hand.batch(by_hand.record(headers=by_hand.varint(1) + b"\x7e\x01")),
    "header value past the end": by_hand.batch(by_hand.record(headers=by_hand.varint(1) + b"\x02h\x7e")),
}
# What only producers may not send; in a log the cleaner may have left it.
ONLY_NOT_DENSE = {"count 0", "last offset delta above"}


def error_of(action: object, *args: object) -> type | None:
    """The class of what calling `action` raises, None if it returns."""
    try:
        action(*args)  # type: ignore[operator]
    except errors.HeadraceError as error:
        return type(error)
    return None


@pytest.mark.parametrize("name", CORRUPT)
def test_corrupt_batches_are_refused(codec: RecordCodec, name: str) -> None:
    """Length, magic and CRC faults are the wire's or the disk's: a retry may help."""
    assert error_of(codec.check, CORRUPT[name]) is errors.CorruptMessageError
    assert error_of(codec.decode, CORRUPT[name]) is errors.CorruptMessageError


@pytest.mark.parametrize("name", INVALID)
def test_invalid_records_are_refused(codec: RecordCodec, name: str) -> None:
    """The CRC is right, so the writer meant it: counts, deltas, varints and headers must add up."""
    assert error_of(codec.check, INVALID[name]) is errors.InvalidRecordError
    expected = None if name in ONLY_NOT_DENSE else errors.InvalidRecordError
    assert error_of(codec.decode, INVALID[name]) is expected


@pytest.mark.parametrize("codec_id", [5, 6, 7])
def test_codec_ids_that_name_nothing(codec: RecordCodec, codec_id: int) -> None:
    """Five, six and seven fit in the bits but are no codec."""
    data = by_hand.batch(GOOD, attributes=codec_id)
    assert error_of(codec.check, data) is errors.UnsupportedCompressionTypeError
    assert error_of(codec.decode, data) is errors.UnsupportedCompressionTypeError


def test_the_crc_check_of_decode_can_be_left_out(codec: RecordCodec) -> None:
    """check.crcs=false reads what check refuses."""
    data = by_hand.batch(GOOD, crc=1)
    assert len(codec.decode(data, check_crc=False)) == 1


def test_a_batch_may_not_grow_past_its_bound(codec: RecordCodec) -> None:
    """The cap holds for decode, check and inspect, and is inclusive."""
    builder = codec.builder(max_bytes=1 << 20, compression=Compression.GZIP)
    builder.append(1, None, b"x" * 10_000)
    data, size_bytes = builder.build(), builder.size_bytes - 61
    for action in (codec.decode, codec.check, codec.inspect):
        action(data, max_decompressed_bytes=size_bytes)  # type: ignore[operator]
        with pytest.raises(errors.InvalidRecordError, match="decompress"):
            action(data, max_decompressed_bytes=size_bytes - 1)  # type: ignore[operator]
