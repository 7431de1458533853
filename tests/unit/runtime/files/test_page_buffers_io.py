"""Memory for reads is used again, but never while somebody holds it."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import TYPE_CHECKING

from headrace.runtime.files import page_buffers_io
from headrace.runtime.files.page_buffers_io import PageBuffers

if TYPE_CHECKING:
    import pytest

SIZE = 100_000


def test_what_is_held_is_not_given_out_again() -> None:
    """Views, slices of them and read-only ones count; the last one gone frees the memory."""
    buffers = PageBuffers()
    first = buffers.take(SIZE)
    first[:4] = b"mine"
    kept = first.toreadonly()[:4]
    del first
    second = buffers.take(SIZE)
    second[:4] = b"else"
    assert kept == b"mine"
    del kept
    assert buffers.take(SIZE)[:4] == b"mine", "the same memory again"
    assert len(second) == SIZE


def test_the_pool_is_bounded_and_more_is_still_given() -> None:
    """Beyond the bound memory is made and freed."""
    buffers = PageBuffers(2 * 131_072)
    views = [buffers.take(SIZE) for _ in range(10)]
    assert sum(map(len, buffers._pools.values())) == 2
    for number, view in enumerate(views):
        view[:1] = bytes([number])
    assert [view[0] for view in views] == list(range(10))


def test_small_reads_have_memory_of_their_own() -> None:
    """Nothing of them is kept."""
    buffers = PageBuffers()
    assert len(buffers.take(10)) == 10
    assert buffers.take(0).nbytes == 0
    assert not buffers._pools


def test_a_system_without_room_for_mappings_still_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process has a limited number of them; to have none left is no fault of a disk, and ends no node."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOMEM, "no room for another mapping")

    monkeypatch.setattr(page_buffers_io, "mmap", SimpleNamespace(mmap=full))
    buffers = PageBuffers()
    view = buffers.take(SIZE)
    view[:4] = b"read"
    assert (len(view), bytes(view[:4])) == (SIZE, b"read")
    assert not any(buffers._pools.values())
