"""Frames in and out: small ones copied, large ones as they lie, nothing half sent."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import zmq
from headrace.protocol.transport.context_io import shared_context
from headrace.protocol.transport.multipart_io import held_view, ready_part, send_message
from headrace.protocol.transport.wire import COPY_BELOW_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator


NUMBERS = itertools.count()


@pytest.fixture
def pair() -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
    context = shared_context()
    left, right = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
    name = f"inproc://pair-{next(NUMBERS)}"
    for socket in (left, right):
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, 1)
        socket.setsockopt(zmq.RCVHWM, 1)
    left.bind(name)
    right.connect(name)
    yield left, right
    left.close()
    right.close()


def test_small_parts_are_copied_and_large_ones_are_not() -> None:
    """The copy is the caller's to change at once; a large buffer is the very one that is sent."""
    small, large = bytearray(b"s" * 10), bytearray(b"l" * COPY_BELOW_BYTES)
    copied, shared = ready_part(small), ready_part(large)
    small[:] = large[:10] = b"changed   "
    assert copied == b"s" * 10
    assert isinstance(shared, zmq.Frame)
    assert bytes(shared.buffer[:10]) == b"changed   "
    data = b"as it is"
    assert ready_part(data) is data


def test_parts_in_several_pieces_are_refused() -> None:
    """A strided view would send other bytes than it shows."""
    with pytest.raises(BufferError):
        ready_part(memoryview(bytes(4 * COPY_BELOW_BYTES))[::2])


def test_received_views_outlive_their_frame(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    """Small or large, the bytes stay readable after the frame object is gone."""
    left, right = pair
    for size in (5, COPY_BELOW_BYTES * 3):
        left.send(b"x" * size)
        frame = right.recv(copy=False)
        view = held_view(frame)
        del frame
        assert bytes(view) == b"x" * size


def test_a_message_that_finds_no_room_is_not_sent_at_all(
    pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]],
) -> None:
    """The queue is full: EAGAIN from the first part, and the next message is not mixed up with it."""
    left, right = pair
    sent = 0
    while left.poll(0, zmq.POLLOUT):
        send_message(left, [b"%d" % sent, b"body", b"tail"])
        sent += 1
    with pytest.raises(zmq.Again):
        send_message(left, [b"too much", b"body", b"tail"])
    for number in range(sent):
        assert right.recv_multipart() == [b"%d" % number, b"body", b"tail"]
    with pytest.raises(zmq.Again):
        right.recv(zmq.DONTWAIT)
    assert left.poll(10_000, zmq.POLLOUT)
    send_message(left, [b"next", ready_part(b"y" * COPY_BELOW_BYTES)])
    assert right.recv_multipart() == [b"next", b"y" * COPY_BELOW_BYTES]
