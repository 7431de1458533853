"""Settings of the C library's allocator for freed messages.

A fetch allocates megabytes, which are freed when the user has processed them; so does a produce request. By
default glibc returns freed memory to the kernel as soon as a few megabytes are contiguous, and each page of
the next message is faulted in and cleared again: a third of the time of reading large records.
"""

from __future__ import annotations

import ctypes
import functools

# The largest block whose release adapts glibc's thresholds, less its header and a page of rounding.
_LESSON_BYTES = (32 << 20) - 65_536


@functools.cache
def keep_freed_memory() -> None:
    """Let glibc keep up to 64 MB of freed memory in each heap for the next messages.

    glibc raises its thresholds when a large block is freed, so one is allocated and freed, once in a process;
    its pages are never touched (those of a second block would be cleared). With MALLOC_TRIM_THRESHOLD_ or
    similar variables set, glibc does not adapt; with other C libraries this has no effect.
    """
    bytes(_LESSON_BYTES)


def give_memory_back() -> None:
    """Return the free memory of this process to the kernel, for example after a start that needed much."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc
        trim(0)
