"""Buffers for reads from the page cache, reused when they are released.

A fresh megabyte costs more in page faults, or in being zeroed, than the copy into it. There is no
event when a response has been sent: the pool reads the reference count of the memory, which each view raises.
"""

from __future__ import annotations

import mmap
import sys

# Below it an ordinary allocation is as fast.
_POOLED_FROM_BYTES = 64 * 1024
# Bound: memory that the pool keeps; more is allocated and freed.
POOL_BYTES = 32 * 1024 * 1024


def _references() -> int:
    """What getrefcount says of a buffer that only a pool holds, asked as `take` asks: the pool's list, the
    loop variable and, before Python 3.14, the argument; later ones borrow that."""
    for buffer in [mmap.mmap(-1, mmap.PAGESIZE)]:
        return sys.getrefcount(buffer)
    raise AssertionError("the pool is not empty")


_IDLE_REFERENCES = _references()


class PageBuffers:
    """A pool of buffers, one owner thread."""

    def __init__(self, pool_bytes: int = POOL_BYTES) -> None:
        self._left_bytes = pool_bytes
        self._pools: dict[int, list[mmap.mmap]] = {}  # by size, a power of two

    def take(self, size: int) -> memoryview:
        """`size` writable bytes with any content; they are in use until the view and its slices are gone."""
        if size < _POOLED_FROM_BYTES:
            return memoryview(bytearray(size))
        rounded = 1 << (size - 1).bit_length()
        pool = self._pools.setdefault(rounded, [])
        for buffer in pool:
            if sys.getrefcount(buffer) <= _IDLE_REFERENCES:
                return memoryview(buffer)[:size]
        try:
            # never zeroed by us, and pages that are not used take no memory
            fresh = mmap.mmap(-1, rounded)
        except OSError:
            # The system allows no more mappings, which is not a disk failure. Without any memory this raises
            # MemoryError.
            return memoryview(bytearray(size))
        if rounded <= self._left_bytes:
            self._left_bytes -= rounded
            pool.append(fresh)
        return memoryview(fresh)[:size]
