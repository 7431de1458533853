"""Bytes in flight are counted until no buffer of them is left."""

import threading

import pytest
from headrace.protocol.transport.pending import PendingBytes


def test_a_view_counts_for_as_long_as_it_lives() -> None:
    """Two owners, three views: each total goes down with its own view."""
    pending = PendingBytes()
    first, second = pending.track(b"a", b"x" * 10), pending.track(b"a", bytearray(5))
    third = pending.track(b"b", memoryview(b"y" * 3))
    assert (pending.total(), pending.of(b"a"), pending.of(b"b")) == (18, 15, 3)
    del first
    assert (pending.total(), pending.of(b"a")) == (8, 5)
    del second, third
    assert (pending.total(), pending.of(b"a"), pending.of(b"b")) == (0, 0, 0)


def test_views_of_the_same_bytes_count_separately() -> None:
    """The same cached batch goes to 100 readers: 100 times its size, and back to zero."""
    pending, batch = PendingBytes(), b"z" * 1000
    views = [pending.track(b"a", batch) for _ in range(100)]
    assert pending.total() == 100_000
    del views[:40]
    assert pending.total() == 60_000
    views.clear()
    assert pending.total() == 0


def test_views_may_end_on_another_thread() -> None:
    """The ZeroMQ binding lets go of its views on a thread of its own: no byte is lost from the account."""
    pending = PendingBytes()
    views = [pending.track(bytes([number % 7]), b"x" * number) for number in range(1, 2000)]
    thread = threading.Thread(target=views.clear)
    thread.start()
    while thread.is_alive():
        assert pending.total() >= 0
    thread.join()
    assert pending.total() == 0
    assert all(pending.of(bytes([owner])) == 0 for owner in range(7))


def test_bytes_in_several_pieces_are_refused() -> None:
    """Every second byte of a buffer cannot be sent as it lies."""
    pending = PendingBytes()
    with pytest.raises(BufferError):
        pending.track(b"a", memoryview(b"abcdef")[::2])
    assert pending.total() == 0
