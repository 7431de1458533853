"""The map of keys to their last offsets: what goes in comes out, within bounds, never a batch by halves."""

import threading
from contextlib import suppress

import batch_bytes as by_hand
import pytest
from headrace.protocol.errors import CorruptMessageError, InvalidRecordError
from headrace.protocol.records._batch import CompiledCodec
from headrace.protocol.records.batch import PythonCodec
from headrace.protocol.records.codec import OffsetMap, RecordCodec, pick_codec
from headrace.protocol.records.header import Compression
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from stored_batches import stored

SLOT = 24


def map_of(codec: RecordCodec, slots: int = 1000) -> OffsetMap:
    return codec.offset_map(SLOT * slots)


@pytest.mark.parametrize("codec_class", [PythonCodec, CompiledCodec])
def test_the_hash_is_siphash(codec_class: type[PythonCodec | CompiledCodec]) -> None:
    """The first answers of the reference code under the key 00 01 .. 0f, and one that takes a whole word."""
    offsets = codec_class(bytes(range(16))).offset_map(24_000)
    expected = {
        0: "a3817f04ba25a8e66df67214c7550293",
        1: "da87c1d86b99af44347659119b22fc45",
        2: "8177228da4a45dc7fca38bdef60affe4",
        15: "5493e99933b0a8117e08ec0f97cfc3d9",
    }
    assert {length: offsets.hash_of(bytes(range(length))).hex() for length in expected} == expected
    with pytest.raises(ValueError, match="16 bytes"):
        codec_class(b"short")


@given(st.binary(max_size=300), st.binary(min_size=16, max_size=16))
def test_both_hash_alike(key: bytes, secret: bytes) -> None:
    """Any key under any secret; and another secret gives another hash."""
    one, other = (made(secret).offset_map(24_000).hash_of(key) for made in (PythonCodec, CompiledCodec))
    assert one == other
    assert pick_codec("compiled").offset_map(24_000).hash_of(key) != other


@pytest.mark.parametrize("compression", list(Compression))
def test_the_last_offset_of_each_key(codec: RecordCodec, compression: Compression) -> None:
    """Later records win, null keys are passed over, an empty key is a key like others."""
    offsets = map_of(codec)
    assert (len(offsets), offsets.latest_offset, offsets.get(b"a")) == (0, -1, -1)
    rows = [(7, b"a", b"1"), (8, b"b", b"1"), (9, None, b"1"), (10, b"", None), (12, b"a", None)]
    assert offsets.add_batch(stored(rows, base_offset=5, last_offset=14, compression=compression))
    assert [offsets.get(key) for key in (b"a", b"b", b"", b"c")] == [12, 8, 10, -1]
    assert (len(offsets), offsets.latest_offset) == (3, 14)
    assert offsets.add_batch(stored([(20, b"b", b"2")]))
    assert (offsets.get(b"b"), len(offsets), offsets.latest_offset) == (20, 3, 20)
    offsets.clear()
    assert (len(offsets), offsets.latest_offset, offsets.get(b"b")) == (0, -1, -1)


def test_the_start_lies_within_a_batch(codec: RecordCodec) -> None:
    """Records below the start are not put, and a batch wholly below it leaves the latest offset alone."""
    offsets = map_of(codec)
    assert offsets.add_batch(stored([(1, b"a", b"1"), (2, b"b", b"1")], last_offset=3), 4)
    assert (len(offsets), offsets.latest_offset) == (0, -1)
    assert offsets.add_batch(stored([(4, b"a", b"1"), (5, b"b", b"1")], last_offset=6), 5)
    assert (offsets.get(b"a"), offsets.get(b"b"), offsets.latest_offset) == (-1, 5, 6)
    with pytest.raises(ValueError, match="-1"):
        offsets.add_batch(stored([(9, b"a", b"1")]), -1)


def test_batches_without_keys(codec: RecordCodec) -> None:
    """Control batches and batches without records only carry the latest offset on; so does `advance`."""
    offsets = map_of(codec)
    assert offsets.add_batch(by_hand.batch(by_hand.record(), base_offset=4, attributes=0x20))
    assert (len(offsets), offsets.latest_offset) == (0, 4)
    assert offsets.add_batch(by_hand.batch(b"", 0, last_delta=3, base_offset=5))
    assert (len(offsets), offsets.latest_offset) == (0, 8)
    offsets.advance(11)
    offsets.advance(9)
    assert offsets.latest_offset == 11


def test_a_full_map_takes_whole_batches_or_nothing(codec: RecordCodec) -> None:
    """Ten slots hold nine keys; what might not fit is refused and leaves no trace, known keys included."""
    offsets = map_of(codec, 10)
    assert (offsets.capacity, offsets.memory_bytes) == (9, 240)
    assert offsets.add_batch(stored([(number, b"%d" % number, b"v") for number in range(7)]))
    assert not offsets.add_batch(stored([(10, b"0", b"v"), (11, b"x", b"v"), (12, b"y", b"v")]))
    assert (len(offsets), offsets.latest_offset, offsets.get(b"0"), offsets.get(b"x")) == (7, 6, 0, -1)
    assert offsets.add_batch(stored([(10, b"x", b"v"), (11, b"y", b"v"), (12, None, b"v")]))
    assert (len(offsets), offsets.latest_offset) == (9, 12)
    assert [offsets.get(b"%d" % number) for number in range(7)] == list(range(7))


def test_an_empty_map_takes_part_of_a_larger_batch(codec: RecordCodec) -> None:
    """Otherwise no pass could clean such a batch. A repeated key needs one slot."""
    offsets = map_of(codec, 10)
    rows = [(20 + number, b"%d" % (number % 9), b"v") for number in range(18)]
    assert offsets.add_batch(stored(rows))
    assert (len(offsets), offsets.latest_offset) == (9, 37)
    offsets.clear()
    rows = [(20 + 2 * number, b"%d" % number, b"v") for number in range(12)]
    assert not offsets.add_batch(stored(rows))
    assert (len(offsets), offsets.latest_offset) == (9, 37)
    assert [offsets.get(key) for _, key, _ in rows] == [*range(20, 38, 2), -1, -1, -1]


def test_a_damaged_batch_leaves_the_map_as_it_was(codec: RecordCodec) -> None:
    """The last record is wrong; those before it are not put either."""
    offsets = map_of(codec)
    payload = by_hand.record(0) + by_hand.record(1, key=b"z") + by_hand.record(9)
    with pytest.raises(InvalidRecordError):
        offsets.add_batch(by_hand.batch(payload, 3))
    good = bytearray(stored([(0, b"k", b"v")]))
    good[-2] ^= 1  # of the value
    with pytest.raises(CorruptMessageError):
        offsets.add_batch(good)
    assert (len(offsets), offsets.latest_offset) == (0, -1)
    with pytest.raises(InvalidRecordError):
        offsets.add_batch(by_hand.batch(b"", 0, last_delta=5, base_offset=2**63 - 3))
    assert offsets.add_batch(good, check_crc=False)


def test_a_run_of_batches(codec: RecordCodec) -> None:
    """Batch after batch as one at a time, compressed or not, up to where the data is cut short."""
    run = [
        stored([(number, b"%d" % (number % 5), b"v"), (number + 1, None, b"v")], compression=compression)
        for number, compression in zip(range(0, 20, 2), list(Compression) * 2, strict=True)
    ]
    offsets, alone = map_of(codec), map_of(codec)
    data = b"".join(run)
    assert offsets.add_run(data, 0) == (len(data), 20)
    assert all(alone.add_batch(each) for each in run)
    assert (len(offsets), offsets.latest_offset) == (len(alone), alone.latest_offset) == (5, 19)
    assert [offsets.get(b"%d" % key) for key in range(5)] == [alone.get(b"%d" % key) for key in range(5)]
    offsets.clear()
    at = len(run[0])
    assert offsets.add_run(memoryview(data)[:-1], at, 5) == (len(data) - len(run[-1]), 16)
    assert (len(offsets), offsets.latest_offset, offsets.get(b"4")) == (5, 17, 14)
    assert offsets.add_run(data, len(data)) == (len(data), 0)
    for wrong in ((data, -1, 0), (data, len(data) + 1, 0), (data, 0, -1)):
        with pytest.raises(ValueError, match="offset map"):
            offsets.add_run(*wrong)


@pytest.mark.parametrize(
    "other",
    [
        by_hand.batch(by_hand.record(), base_offset=5, attributes=0x20),
        by_hand.batch(by_hand.record(), base_offset=5, attributes=0x10),
        by_hand.batch(b"", 0, last_delta=0, base_offset=5),
        by_hand.batch(by_hand.record(), base_offset=5, magic=1),
        by_hand.batch(by_hand.record(), base_offset=5, length=3),
        by_hand.batch(by_hand.record(), base_offset=5, length=-(2**31)),
        by_hand.batch(by_hand.record(), base_offset=5, crc=1),
        by_hand.batch(by_hand.record(), base_offset=5, attributes=5),
        by_hand.batch(by_hand.record(), base_offset=5, attributes=2),
        by_hand.batch(by_hand.record() + by_hand.record(), 2, base_offset=5),
        by_hand.batch(by_hand.record(), base_offset=-5),
        b"".join([stored([(5, b"1", b"v"), (6, b"2", b"v"), (7, b"3", b"v")])]),
    ],
)
def test_a_run_stops_before_a_batch_to_inspect(codec: RecordCodec, other: bytes) -> None:
    """A transactional, control, empty, damaged or too large batch: none of its keys is added."""
    first, last = stored([(4, b"k", b"v")]), stored([(9, b"l", b"v")])
    offsets = map_of(codec, 4)  # three keys
    assert offsets.add_run(first + other + last, 0) == (len(first), 1)
    assert (len(offsets), offsets.latest_offset, offsets.get(b"l")) == (1, 4, -1)
    assert offsets.add_run(first + other + last, len(first) + len(other)) == (len(first + other + last), 1)
    offsets.clear()
    large = stored([(number, b"%d" % number, b"v") for number in range(4)])
    assert offsets.add_run(large, 0) == (0, 0)
    assert (len(offsets), offsets.latest_offset) == (0, -1)


def test_calls_from_two_threads_meet_in_an_error_or_not_at_all() -> None:
    """Each batch is in the map as a whole, or its call was refused."""
    offsets = map_of(pick_codec("compiled"), 1 << 16)
    taken: list[set[int]] = [set(), set()]

    def add(number: int) -> None:
        for index in range(100):
            base = (2 * index + number) * 100
            rows = [(base + each, b"%d" % (base + each), b"v" * 1000) for each in range(100)]
            with suppress(ValueError):
                assert offsets.add_batch(stored(rows))
                taken[number].add(base)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(offsets) == 100 * (len(taken[0]) + len(taken[1])) > 0
    for base in taken[0] | taken[1]:
        assert all(offsets.get(b"%d" % offset) == offset for offset in range(base, base + 100))


def test_offsets_at_the_end_of_the_range(codec: RecordCodec) -> None:
    """The largest offset there is, and one below the least."""
    offsets = map_of(codec)
    assert offsets.add_batch(by_hand.batch(by_hand.record(), base_offset=2**63 - 1))
    assert (offsets.get(b"k"), offsets.latest_offset) == (2**63 - 1, 2**63 - 1)
    with pytest.raises(InvalidRecordError):
        offsets.add_batch(by_hand.batch(by_hand.record(), base_offset=-1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory_bytes": 0},
        {"memory_bytes": 24},
        {"memory_bytes": -1},
        {"memory_bytes": 24 << 32},
        {"load_factor": 0.0},
        {"load_factor": 1.0},
        {"load_factor": float("nan")},
    ],
)
def test_invalid_sizes_are_errors(codec: RecordCodec, wrong: dict[str, object]) -> None:
    """No room for a key, too many slots, no load factor."""
    with pytest.raises(ValueError, match=r"offset map|load factor"):
        codec.offset_map(**{"memory_bytes": 24_000, **wrong})  # type: ignore[arg-type]


nullable_keys = st.none() | st.binary(max_size=2) | st.binary(max_size=40)
some_batches = st.lists(st.lists(st.tuples(nullable_keys, st.integers(1, 3)), min_size=1))


@pytest.mark.parametrize("name", ["python", "compiled"])
@given(some_batches, st.sampled_from([3, 10, 100]), st.sampled_from([0.5, 0.9]))
@hypothesis_settings(max_examples=100)
def test_against_a_dictionary(
    name: str, batches: list[list[tuple[bytes | None, int]]], slots: int, load_factor: float
) -> None:
    """Any keys in any slots: the map says what a dictionary says, or that it is full."""
    offsets = pick_codec(name).offset_map(SLOT * slots, load_factor=load_factor)
    expected: dict[bytes, int] = {}
    next_offset = 0
    for batch in batches:
        rows = []
        for key, gap in batch:
            next_offset += gap
            rows.append((next_offset, key, b"v"))
        keyed = [(key, offset) for offset, key, _ in rows if key is not None]
        fits = len(expected) + len(keyed) <= offsets.capacity
        was_empty = not expected
        taken = offsets.add_batch(stored(rows))
        assert taken or not fits
        assert fits or was_empty or not taken
        if taken or was_empty:
            expected |= {key: offset for key, offset in keyed if offset <= offsets.latest_offset}
        assert taken or not was_empty or len(expected) == offsets.capacity
        assert len(offsets) == len(expected)
        assert {key: offsets.get(key) for key, _ in keyed} == {key: expected.get(key, -1) for key, _ in keyed}
    assert {key: offsets.get(key) for key in expected} == expected
