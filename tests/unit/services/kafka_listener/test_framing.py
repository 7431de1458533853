"""Frames from bytes in any pieces, and frames that are refused before they take memory."""

import struct

import pytest
from headrace.protocol.errors import InvalidRequestError
from headrace.services.kafka_listener.framing import FIRST_BYTES, FrameReader, read_header
from headrace.storage_node.configs.node_config import NodeConfig
from hypothesis import given, settings
from hypothesis import strategies as st


def feed(reader: FrameReader, data: bytes, pieces: list[int]) -> list[bytes]:
    """The frames read when `data` arrives in `pieces`, repeatedly."""
    found, at, turn = [], 0, 0
    while at < len(data):
        room = reader.room()
        size = min(len(room), len(data) - at, pieces[turn % len(pieces)])
        room[:size] = data[at : at + size]
        del room
        at, turn = at + size, turn + 1
        found += [bytes(frame) for frame in reader.received(size)]
    return found


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


@settings(max_examples=150)
@given(
    st.lists(st.binary(min_size=10, max_size=600), max_size=6),
    st.lists(st.integers(1, 300), min_size=1, max_size=6),
)
def test_frames_are_read_in_any_pieces(frames: list[bytes], pieces: list[int]) -> None:
    """Two connections share one buffer."""
    shared = bytearray(256)
    one, other = FrameReader(shared, 1_000), FrameReader(shared, 1_000)
    assert feed(other, framed(b"x" * 50)[:30], [30]) == []
    assert feed(one, framed(*frames), pieces) == frames
    assert not one.is_partial
    assert feed(other, framed(b"x" * 50)[30:], [7]) == [b"x" * 50]


def test_memory_of_a_large_frame_grows_with_its_bytes() -> None:
    """It at most doubles; a length of 100 MB alone takes little."""
    reader = FrameReader(bytearray(64 * 1024), 1 << 30)
    size = 100_000_000
    feed(reader, struct.pack(">i", size), [4])
    assert reader.held_bytes <= FIRST_BYTES
    feed(reader, bytes(1_000_000), [50_000])
    assert reader.held_bytes <= 2_000_000
    assert feed(reader, bytes(size - 1_000_000), [1 << 22]) == [bytes(size)]
    assert reader.held_bytes == 0


def test_all_connections_can_hold_a_partial_frame() -> None:
    """A few bytes of a large frame from each take hardly more than queued.max.request.bytes."""
    config = NodeConfig.of({"log.dirs": "/nowhere"})
    assert FIRST_BYTES * config.max_connections < 1.3 * config.queued_max_request_bytes


@pytest.mark.parametrize("size", [-1, 0, 9, 1_001, 2**31 - 1, -(2**31)])
def test_invalid_lengths_are_refused(size: int) -> None:
    """Too short for a header, too long, negative: before memory is allocated."""
    reader = FrameReader(bytearray(256), 1_000)
    with pytest.raises(InvalidRequestError):
        feed(reader, struct.pack(">i", size) + bytes(20), [24])
    assert reader.held_bytes == 0


def test_whole_frames_before_an_invalid_one_are_returned() -> None:
    """They were sent before the stream became invalid."""
    reader = FrameReader(bytearray(256), 100)
    found = []
    room = reader.room()
    data = framed(b"a" * 10, b"b" * 20) + struct.pack(">i", 5_000)
    room[: len(data)] = data
    with pytest.raises(InvalidRequestError):
        found += [bytes(frame) for frame in reader.received(len(data)) if found.append(bytes(frame)) is None]
    assert found == [b"a" * 10, b"b" * 20]


def test_request_headers() -> None:
    """A null client id is empty; one beyond the frame is refused."""
    head = struct.pack(">hhih", 18, 3, -5, 2) + b"hi"
    assert read_header(memoryview(head + b"\0")) == (18, 3, -5, "hi", 12)
    assert read_header(memoryview(struct.pack(">hhih", 1, 2, 3, -1))) == (1, 2, 3, "", 10)
    for bad in (struct.pack(">hhih", 1, 2, 3, 5) + b"1234", struct.pack(">hhih", 1, 2, 3, 2) + b"\xff\xfe"):
        with pytest.raises(InvalidRequestError):
            read_header(memoryview(bad))
