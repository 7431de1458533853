"""Both codecs skip the same stored batches: all that are sound, and not one more."""

import hypothesis.strategies as st
import pytest
from headrace.protocol.records.codec import RecordCodec, pick_codec
from headrace.protocol.records.header import CRC_POSITION, assigned_prefix, read_batch_header
from hypothesis import given, settings
from log_rig import batch

CODECS = [pick_codec(None), pick_codec("python")]


def run_of(counts: list[int], *, first: int = 0, epoch: int = 3) -> tuple[bytes, list[tuple[int, int]]]:
    """Stored batches of that many records, and (index, offset) after each."""
    data, offset, ends = b"", first, [(0, first)]
    for count in counts:
        one = batch(count, size=count * 3)
        header = read_batch_header(one)
        data += assigned_prefix(offset, header.batch_length, epoch) + one[CRC_POSITION:]
        offset += count
        ends.append((len(data), offset))
    return data, ends


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_walk_stops_at_ends_limits_epochs_and_gaps(codec: RecordCodec) -> None:
    """At the end, at the limit in bytes or offsets, at another epoch, at a gap."""
    data, ends = run_of([1, 5, 2, 9], first=100)
    assert codec.walk(data, 0, len(data), 100, 200, 3) == ends[4]
    assert codec.walk(memoryview(data), ends[1][0], len(data), 101, 200, 3) == ends[4]
    assert codec.walk(data, 0, len(data) - 1, 100, 200, 3) == ends[3]
    assert codec.walk(data, 0, len(data), 100, 108, 3) == ends[3]
    assert codec.walk(data, 0, len(data), 100, 107, 3) == ends[2]
    assert codec.walk(data, 0, len(data), 100, 100, 3) == ends[0]
    assert codec.walk(data, 0, len(data), 100, 200, 4) == ends[0]
    assert codec.walk(data, 0, len(data), 99, 200, 3) == (0, 99)
    assert codec.walk(data, 0, 10, 100, 200, 3) == ends[0]
    assert codec.walk(b"", 0, 0, 100, 200, 3) == ends[0]
    for at, end in ((-1, 3), (3, 2), (0, len(data) + 1), (len(data) + 1, len(data) + 1)):
        with pytest.raises(ValueError, match="bytes"):
            codec.walk(data, at, end, 100, 200, 3)


@settings(max_examples=60)
@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    where=st.floats(0, 1, exclude_max=True),
    bit=st.integers(0, 7),
    end=st.floats(0, 1),
    upto=st.integers(0, 20),
)
def test_a_flipped_bit_stops_both_at_the_same_batch(
    counts: list[int], where: float, bit: int, end: float, upto: int
) -> None:
    """Whichever bit: both stop before its batch, or earlier for another reason."""
    data, ends = run_of(counts)
    damaged = bytearray(data)
    byte = int(where * len(data))
    damaged[byte] ^= 1 << bit
    last = max(place for place in ends if place[0] <= byte)
    trusting = {codec.walk(damaged, 0, int(end * len(data)), 0, upto, 3, check_crc=False) for codec in CODECS}
    assert len(trusting) == 1, "without the CRC they agree as well"
    found = {codec.walk(damaged, 0, int(end * len(data)), 0, upto, 3) for codec in CODECS}
    assert len(found) == 1
    assert found.pop() <= last


@given(st.binary(max_size=300), st.integers(0, 3), st.integers(0, 2**63 - 1))
def test_noise_is_no_batch(data: bytes, base: int, upto: int) -> None:
    """Any bytes: nothing is skipped, nothing is read outside."""
    for codec in CODECS:
        assert codec.walk(data, 0, len(data), base, upto, 0) == (0, base)


@settings(max_examples=60)
@given(
    gaps=st.lists(st.integers(-2, 3), min_size=1, max_size=6),
    asked=st.integers(-3, 3),
    upto=st.integers(0, 30),
)
def test_walk_skips_allowed_offset_gaps(gaps: list[int], asked: int, upto: int) -> None:
    """Forward only, and never past the limit: both alike, and as a walk by hand."""
    data, bases, offset = b"", [], 10
    for gap in gaps:
        offset = max(offset + gap, 0)
        data += run_of([2], first=offset)[0]
        bases.append(offset)
        offset += 2
    size = len(data) // len(gaps)
    at, expected = 0, bases[0] - max(asked, 0)
    for base in bases:
        if base < expected or base + 2 > upto:
            break
        at, expected = at + size, base + 2
    start = bases[0] - max(asked, 0)
    for codec in CODECS:
        assert codec.walk(data, 0, len(data), start, upto, 3, is_dense=False) == (at, expected)
