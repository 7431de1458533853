"""What the C library does with the memory of frames and values that came and went.

A fetch brings megabytes, and as many are freed when the user has seen them; so does a produce request. By
default glibc hands freed memory back to the kernel as soon as a few megabytes lie together, and each page of
the next message is found and cleared anew: a third of the time of reading large records.
"""

from __future__ import annotations

import ctypes

# The largest block whose release glibc learns from, less its own header and a page of rounding.
_LESSON_BYTES = (32 << 20) - 65_536


def keep_freed_memory() -> None:
    """Let glibc keep up to 64 MB of freed memory in each of its heaps for the next messages.

    It raises its own thresholds when a large block is freed, so one is made and let go; its pages are never
    touched. Who set MALLOC_TRIM_THRESHOLD_ and the like has switched this learning off; other C libraries
    do nothing.
    """
    bytes(_LESSON_BYTES)


def give_memory_back() -> None:
    """Return the free memory of this process to the kernel, as after a start that needed much."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc
        trim(0)
