"""Read buffers are reused, but never while they are in use."""

import errno
from types import SimpleNamespace

import pytest
from headrace.runtime.files import page_buffers_io
from headrace.runtime.files.page_buffers_io import PageBuffers

SIZE = 100_000


def test_buffer_in_use_is_not_reused() -> None:
    """Views, slices of them and read-only views count; the last one frees the buffer."""
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


def test_pool_is_bounded() -> None:
    """More memory is allocated and freed."""
    buffers = PageBuffers(2 * 131_072)
    views = [buffers.take(SIZE) for _ in range(10)]
    assert sum(map(len, buffers._pools.values())) == 2
    for number, view in enumerate(views):
        view[:1] = bytes([number])
    assert [view[0] for view in views] == list(range(10))


def test_small_reads_are_not_pooled() -> None:
    """They use ordinary allocations."""
    buffers = PageBuffers()
    assert len(buffers.take(10)) == 10
    assert buffers.take(0).nbytes == 0
    assert not buffers._pools


def test_read_without_free_mappings_is_no_disk_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process has a limited number of them."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOMEM, "no room for another mapping")

    monkeypatch.setattr(page_buffers_io, "mmap", SimpleNamespace(mmap=full))
    buffers = PageBuffers()
    view = buffers.take(SIZE)
    view[:4] = b"read"
    assert (len(view), bytes(view[:4])) == (SIZE, b"read")
    assert not any(buffers._pools.values())
