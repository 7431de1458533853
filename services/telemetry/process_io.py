"""Metrics of this process and of the disks of its data, read on a thread of an exporter: a disk that hangs
must not stop the server's loop."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING

from ...runtime.telemetry import process_table as table
from ...runtime.telemetry.node_table import DISK_FREE, DISK_TOTAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...runtime.telemetry.samples import Samples

_PAGE, _TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc/self")


def measure_process(samples: Samples) -> None:
    """CPU time, memory, descriptors, threads and garbage collections."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    samples.set(table.CPU, usage.ru_utime + usage.ru_stime)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    samples.set(table.MAX_FILES, limit)
    for generation, counts in enumerate(gc.get_stats()):
        samples.set(table.GC_COLLECTIONS, counts["collections"], str(generation))
        samples.set(table.GC_COLLECTED, counts["collected"], str(generation))
    with contextlib.suppress(OSError, ValueError, IndexError):  # no /proc
        # Behind the name, which may have any characters. Source: proc(5)
        facts = (_PROC / "stat").read_text().rpartition(")")[2].split()
        samples.set(table.THREADS, int(facts[17]))
        samples.set(table.STARTED, _boot_time_s() + int(facts[19]) / _TICKS)
        samples.set(table.VIRTUAL, int(facts[20]))
        samples.set(table.RESIDENT, int(facts[21]) * _PAGE)
        samples.set(table.OPEN_FILES, len(os.listdir("/proc/self/fd")))


def measure_disks(samples: Samples, directories: Sequence[str]) -> None:
    """Size and free space of the file systems."""
    for directory in directories:
        with contextlib.suppress(OSError):
            found = os.statvfs(directory)
            path = directory.rstrip("/") or "/"
            samples.set(DISK_TOTAL, found.f_blocks * found.f_frsize, path)
            samples.set(DISK_FREE, found.f_bavail * found.f_frsize, path)


def _boot_time_s() -> int:
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1])
    raise ValueError("no boot time")
