"""The compiled codec is the readable one: same bytes out, same records, same error classes in."""

import inspect
from typing import Any, NamedTuple

import batch_bytes as by_hand
import pytest
from headrace.protocol.errors import CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError
from headrace.protocol.records import settings as limits
from headrace.protocol.records.codec import RecordCodec, pick_codec
from headrace.protocol.records.header import Compression, TimestampType, restamped_batch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

PYTHON, COMPILED = pick_codec("python"), pick_codec("compiled")
ALLOWED = (CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError)
CAP = 1 << 20

nullable = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=20), nullable), max_size=4)
timestamps = st.integers(-1, 2**63 - 1) | st.integers(1_700_000_000_000, 1_700_000_100_000)
rows = st.lists(st.tuples(timestamps, nullable, nullable, headers), min_size=1, max_size=30)


class Outcome(NamedTuple):
    """What a call gave: a value, or the class of its error."""

    value: Any
    error: type | None


def outcome(action: Any, *args: Any, **kwargs: Any) -> Outcome:
    """The result, or the error. Invalid bytes may raise the errors that the codec names and no other."""
    try:
        return Outcome(action(*args, **kwargs), None)
    except ALLOWED as error:
        return Outcome(None, type(error))


def appended(builder: Any, row: Any) -> Outcome:
    """The same for append, which refuses what no batch can hold with a ValueError."""
    try:
        return Outcome(builder.append(*row), None)
    except ValueError:
        return Outcome(None, ValueError)


@st.composite
def builder_settings(draw: st.DrawFn) -> dict[str, Any]:
    """Any legal settings of a builder."""
    has_producer = draw(st.booleans())
    compression = draw(st.sampled_from(list(Compression)))
    levels = {Compression.GZIP: (1, 9), Compression.LZ4: (1, 17), Compression.ZSTD: (-20, 5)}
    level = draw(st.none() | st.integers(*levels[compression])) if compression in levels else None
    return {
        "max_bytes": draw(st.integers(1, 8000)),
        "compression": compression,
        "level": level,
        "timestamp_type": draw(st.sampled_from(list(TimestampType))),
        "producer_id": draw(st.integers(0, 2**63 - 1)) if has_producer else -1,
        "producer_epoch": draw(st.integers(0, 2**15 - 1)) if has_producer else -1,
        "base_sequence": draw(st.integers(0, 2**31 - 1)) if has_producer else -1,
        "is_transactional": has_producer and draw(st.booleans()),
        "is_control": draw(st.booleans()),
        "delete_horizon_ms": draw(st.none() | st.integers(0, 2**63 - 1)),
    }


def built(settings: dict[str, Any], some_rows: list[Any]) -> tuple[bytes, bytes]:
    """The batch that each codec builds; asserts on the way that every append gave the same."""
    builders = PYTHON.builder(**settings), COMPILED.builder(**settings)
    for row in some_rows:
        one, other = (appended(builder, row) for builder in builders)
        assert one == other, row
        assert builders[0].size_bytes == builders[1].size_bytes
        assert builders[0].count == builders[1].count
    if not builders[0].count:
        builders[0].append(1, b"k", b"v")
        builders[1].append(1, b"k", b"v")
    return builders[0].build(), builders[1].build()


def assert_read_alike(data: bytes, **kwargs: Any) -> None:
    """Both codecs give the same records, the same facts, or the same error classes."""
    one = outcome(PYTHON.decode, data, topic="t", partition=3, max_decompressed_bytes=CAP, **kwargs)
    other = outcome(COMPILED.decode, data, topic="t", partition=3, max_decompressed_bytes=CAP, **kwargs)
    assert one.error == other.error, data.hex()
    assert repr(one.value) == repr(other.value)
    for is_dense in (True, False):
        facts = outcome(PYTHON.inspect, data, is_dense=is_dense, max_decompressed_bytes=CAP)
        assert facts == outcome(COMPILED.inspect, data, is_dense=is_dense, max_decompressed_bytes=CAP)
        if facts.error is None:  # what passes also decodes
            assert other.error is None
            assert COMPILED.check(data, is_dense=is_dense) == facts.value.header
    if other.error is None and not kwargs:  # and what decodes is at least what may lie in a log
        assert facts.error is None


@given(builder_settings(), rows)
@hypothesis_settings(max_examples=300)
def test_both_build_the_same_bytes_and_read_them_back(settings: dict[str, Any], some_rows: list[Any]) -> None:
    """Any records under any settings: byte for byte the same batch, record for record the same reading."""
    one, other = built(settings, some_rows)
    assert one == other
    assert_read_alike(one)


@given(builder_settings(), rows)
@hypothesis_settings(max_examples=100)
def test_round_trip(settings: dict[str, Any], some_rows: list[Any]) -> None:
    """An oracle of plain tuples: decode is the inverse of append."""
    settings |= {"max_bytes": 2**31 - 1, "timestamp_type": TimestampType.CREATE_TIME}
    builder = COMPILED.builder(**settings)
    kept = [row for row in some_rows if appended(builder, row).error is None]
    if not kept:
        return
    records = COMPILED.decode(builder.build())
    assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in records] == kept
    assert [r.offset for r in records] == list(range(len(kept)))


def sample(compression: Compression) -> bytes:
    """A small batch with every kind of field."""
    builder = COMPILED.builder(max_bytes=10_000, compression=compression)
    builder.append(1_700_000_000_000, b"key", b"value", [("h", b"1"), ("é", None)])
    builder.append(1_700_000_000_001, None, b"v" * 70)
    builder.append(1_699_999_999_000, b"", None, [("x", b"")])
    return builder.build()


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("is_sealed", [False, True])
def test_truncated_at_every_byte(compression: Compression, is_sealed: bool) -> None:
    """Cut short on the wire, or cut short and sealed again with a right length and CRC."""
    data = sample(compression)
    for length in range(len(data)):
        cut = data[:length]
        if is_sealed and length >= 61:
            cut = by_hand.sealed(cut)
        assert outcome(COMPILED.check, cut).error in ALLOWED
        assert_read_alike(cut)


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("is_sealed", [False, True])
def test_every_bit_flipped(compression: Compression, is_sealed: bool) -> None:
    """Each bit in turn; without a seal the CRC catches all that it covers."""
    data = sample(compression)
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            damaged = by_hand.sealed(bytes(flipped)) if is_sealed else bytes(flipped)
            if not is_sealed and position >= 16:
                assert outcome(COMPILED.check, damaged).error is CorruptMessageError
            assert_read_alike(damaged)
            if not is_sealed:
                assert_read_alike(damaged, check_crc=False)


field = st.integers(-3, 40) | st.sampled_from([-(2**31), 2**31 - 1, 2**31, 2**32, 2**63 - 1, -(2**63), 2**63])


@st.composite
def crooked_records(draw: st.DrawFn) -> bytes:
    """Records with arbitrary lengths, deltas and counts."""
    out = b""
    for index in range(draw(st.integers(0, 4))):
        delta = draw(st.just(index) | field)
        key = by_hand.nullable(draw(nullable)) if draw(st.booleans()) else by_hand.varint(draw(field))
        value = by_hand.nullable(draw(nullable)) if draw(st.booleans()) else by_hand.varint(draw(field))
        pairs = draw(st.lists(st.tuples(nullable, nullable), max_size=3))
        count = draw(st.just(len(pairs)) | field)
        body = b"\x00" + by_hand.varint(draw(field)) + by_hand.varint(delta) + key + value
        body += by_hand.varint(count) + b"".join(by_hand.nullable(a) + by_hand.nullable(b) for a, b in pairs)
        body += draw(st.just(b"") | st.binary(max_size=3))
        out += by_hand.varint(draw(st.just(len(body)) | field)) + body
    return out + draw(st.just(b"") | st.binary(max_size=20))


@given(
    crooked_records(),
    st.integers(0, 5) | st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 5) | st.integers(-(2**31), 2**31 - 1),
    st.sampled_from([0, 0, 0, 8, 16, 32, 64, 127, 128, -1, 2**15 - 1]),
    st.sampled_from([0, 1, 2**63 - 1, -(2**63), -1]),
    st.sampled_from([0, 1000, 2**63 - 1, -(2**63), -1]),
)
@hypothesis_settings(max_examples=600)
def test_both_codecs_reject_inconsistent_batches(
    payload: bytes, count: int, last_delta: int, attributes: int, base_offset: int, base_timestamp: int
) -> None:
    """A writer that seals anything: both codecs refuse the same things, and read the same rest."""
    data = by_hand.batch(
        payload,
        count,
        last_delta=last_delta,
        attributes=attributes,
        base_offset=base_offset,
        base_timestamp=base_timestamp,
    )
    assert_read_alike(data)


def test_the_layout_constants_agree() -> None:
    """The compiled module writes header and bounds from constants of its own; one batch shows them equal."""
    assert PYTHON.record_bytes_bound(b"k", None, [("é", b"v")]) == limits.MAX_RECORD_OVERHEAD_BYTES + 1 + (
        limits.MAX_HEADER_OVERHEAD_BYTES + 3
    )
    for row in [(None, None), (b"k", b"v" * 300), (b"", b"", [("é" * 9, None), ("", b"x")])]:
        assert PYTHON.record_bytes_bound(*row) == COMPILED.record_bytes_bound(*row)  # type: ignore[arg-type]


def test_records_of_both_codecs_look_alike() -> None:
    """Same attributes, same repr, same construction; each pickles to its own kind."""
    data = sample(Compression.NONE)
    for one, other in zip(PYTHON.decode(data), COMPILED.decode(data), strict=True):
        assert repr(one) == repr(other)
        names = [name for name in dir(one) if not name.startswith("_")]
        assert names == [name for name in dir(other) if not name.startswith("_")]
        assert not hasattr(one, "__dict__")
        assert not hasattr(other, "__dict__")


@given(builder_settings(), rows, builder_settings())
def test_producer_set_early_or_late_gives_the_same_bytes(
    settings: dict[str, Any], some_rows: list[Any], stamp: dict[str, Any]
) -> None:
    """The producer of a batch may be set when the builder is made, or before the batch is built."""
    names = ("producer_id", "producer_epoch", "base_sequence", "is_transactional")
    batches = []
    for codec in (PYTHON, COMPILED):
        late, early = codec.builder(**settings), codec.builder(**settings | {n: stamp[n] for n in names})
        for row in some_rows:
            assert appended(late, row) == appended(early, row)
        if not late.count:
            return
        late.stamp(*(stamp[name] for name in names))
        batches += [late.build(), early.build()]
        with pytest.raises(ValueError, match="already built"):
            late.stamp(*(stamp[name] for name in names))
    assert len(set(batches)) == 1


@pytest.mark.parametrize("codec", [PYTHON, COMPILED], ids=["python", "compiled"])
@pytest.mark.parametrize(
    "stamp",
    [(-2, 0, 0, False), (1, -1, 0, False), (1, 0, -1, False), (1, 2**15, 0, False), (-1, -1, -1, True)],
)
def test_a_stamp_that_cannot_be_is_refused(codec: Any, stamp: tuple[Any, ...]) -> None:
    """As when the builder is made; the batch is as before."""
    builder = codec.builder(max_bytes=1000)
    builder.append(0, None, b"x")
    with pytest.raises(ValueError, match="producer"):
        builder.stamp(*stamp)
    assert codec.check(builder.build()).producer_id == -1


@given(
    builder_settings(), rows, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1)
)
def test_a_batch_under_another_number_is_as_if_built_so(
    settings: dict[str, Any], some_rows: list[Any], producer_id: int, epoch: int, sequence: int
) -> None:
    """Its bytes, and the old ones are left alone."""
    settings |= {"producer_id": 1, "producer_epoch": 1, "base_sequence": 1}
    number = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    builder, expected = COMPILED.builder(**settings), COMPILED.builder(**settings | number)
    for row in some_rows:
        appended(builder, row)
        appended(expected, row)
    if builder.count:
        data = builder.finish()
        before = bytes(data)
        assert restamped_batch(data, *number.values()) == expected.build()
        assert bytes(data) == before


def test_both_codecs_have_the_methods_of_the_protocol() -> None:
    """Names, parameters and defaults: the stub of the compiled codec declares nothing but the Protocol."""

    def surface(cls: type) -> dict[str, list[Any]]:
        return {
            name: [
                (each.name, each.kind, each.default) for each in inspect.signature(method).parameters.values()
            ]
            for name, method in inspect.getmembers(cls, callable)
            if not name.startswith("_")
        }

    assert surface(type(COMPILED)) == surface(type(PYTHON)) == surface(RecordCodec)
