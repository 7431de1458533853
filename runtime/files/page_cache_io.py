"""Which pages of a file are in the page cache, by cachestat(2), since Linux 6.5.

Without cachestat(2) the answer is no: the caller reads as if this module did not exist.
"""

from __future__ import annotations

import ctypes
import mmap
import sys

# The same number on every architecture but Alpha. Source: Linux include/uapi/asm-generic/unistd.h.
_CACHESTAT = 451


class _Range(ctypes.Structure):
    _fields_ = (("start", ctypes.c_uint64), ("size", ctypes.c_uint64))


class _Stat(ctypes.Structure):
    """Numbers of pages."""

    _fields_ = (
        ("cached", ctypes.c_uint64),
        ("dirty", ctypes.c_uint64),
        ("written", ctypes.c_uint64),
        ("evicted", ctypes.c_uint64),
        ("recently_evicted", ctypes.c_uint64),
    )


class PageCache:
    """Not thread-safe. After one failure of the system call it is not used again."""

    def __init__(self) -> None:
        self._range, self._stat = _Range(), _Stat()
        self._arguments = (ctypes.byref(self._range), ctypes.byref(self._stat), 0)
        self.is_able = sys.platform == "linux"
        if self.is_able:  # not refused yet
            self._call = ctypes.CDLL(None, use_errno=True).syscall

    def has(self, descriptor: int, position: int, size: int) -> bool:
        """Whether all pages of these bytes are cached; some may still be on their way from the disk."""
        if not self.is_able or size <= 0:
            return False
        self._range.start, self._range.size = position, size
        if self._call(_CACHESTAT, descriptor, *self._arguments) != 0:
            self.is_able = False
            return False
        pages = (position + size - 1) // mmap.PAGESIZE - position // mmap.PAGESIZE + 1
        return bool(self._stat.cached >= pages)
