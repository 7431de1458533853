"""The machine and its processes: CPU, memory and steal from /proc, affinity, page cache, versions."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .harness import Usage
from .servers import kafka_io

if TYPE_CHECKING:
    from collections.abc import Iterable

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_STEAL = 7  # column of steal in the first line of /proc/stat
TOUCH_BLOCK = bytes(1 << 22)
PACKAGES = ("confluent-kafka", "pyarrow", "pyzmq", "msgspec", "uvloop", "ray", "numpy")


def cpu_seconds(pid: int) -> float:
    """User and system seconds of all threads of a process. Errors: OSError when it has ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def read_from_disk(pid: int) -> int:
    """Bytes that the disk has read for a process so far. Errors: OSError when it has ended."""
    found = re.search(r"^read_bytes: (\d+)", Path(f"/proc/{pid}/io").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def sample(pid: int) -> Usage:
    """Current usage of a process. Errors: OSError when it has ended."""
    status = Path(f"/proc/{pid}/status").read_text()

    def kib(name: str) -> int:
        found = re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE)
        return int(found[1]) * 1024 if found else 0

    threads = re.search(r"^Threads:\s+(\d+)", status, re.MULTILINE)
    fds = len(os.listdir(f"/proc/{pid}/fd"))
    return Usage(cpu_seconds(pid), kib("VmRSS"), kib("VmHWM"), fds, int(threads[1]) if threads else 0)


def sample_all(pids: Iterable[int]) -> Usage:
    """The sum of the current usage of several processes. Errors: OSError when one has ended."""
    return Usage(*(sum(column) for column in zip(*map(sample, pids), strict=True)))


def cpu_columns() -> list[int]:
    """Ticks of all CPUs by state: the first line of /proc/stat."""
    return [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]


def steal_share(before: list[int], after: list[int]) -> float:
    """The share of CPU time, 0..1, that the hypervisor took between two `cpu_columns`."""
    total = sum(after[:8]) - sum(before[:8])
    return (after[_STEAL] - before[_STEAL]) / total if total > 0 else 0.0


def load_average() -> float:
    """One-minute load average."""
    return os.getloadavg()[0]


def set_affinity(pid: int, cores: set[int]) -> None:
    """Pin every thread of a process to `cores`."""
    for name in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(ProcessLookupError):  # the thread has ended
            os.sched_setaffinity(int(name), cores)


def split_cores() -> tuple[list[int], list[int]]:
    """(servers, clients): halves of the cores that this process may use."""
    cores = sorted(os.sched_getaffinity(0))
    half = max(len(cores) // 2, 1)
    return cores[:half], cores[half:] or cores


def drop_page_cache(folder: Path, topic: str) -> None:
    """Write the log files of a topic to disk and drop their pages from the page cache."""
    for path in folder.glob(f"{topic}-*/*.log"):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def touch_memory(folder: Path, size: int) -> float:
    """Write and delete a file of `size` bytes, so that later page cache pages were touched before; seconds.

    The first touch of a page costs up to ten times as much on a virtual machine.
    """
    path, started = folder / "touch", time.monotonic()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        for offset in range(0, size, len(TOUCH_BLOCK)):
            os.pwrite(fd, TOUCH_BLOCK, offset)
    finally:
        os.close(fd)
        path.unlink()
    return time.monotonic() - started


def facts() -> dict[str, Any]:
    """Hardware, kernel and versions as JSON; nothing that identifies the machine or its user."""
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    swap = re.search(r"SwapTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    servers, clients = split_cores()
    return {
        "cpu": model[1].strip() if model else platform.machine(),
        "cores": os.cpu_count(),
        "server_cores": servers,
        "client_cores": clients,
        "memory_gib": round(int(memory[1]) / 2**20, 1) if memory else None,
        "swap_gib": round(int(swap[1]) / 2**20, 1) if swap else None,
        "kernel": platform.release(),
        "governor": _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "unknown",
        "transparent_hugepages": _text("/sys/kernel/mm/transparent_hugepage/enabled") or "unknown",
        "python": platform.python_version(),
        "java": _java(),
        "kafka": kafka_io.VERSION,
        "packages": {name: _version(name) for name in PACKAGES},
        "time": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "commit": _commit(),
    }


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _java() -> str | None:
    try:
        done = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=20, check=False)
    except OSError:
        return None
    found = re.search(r'version "([^"]+)"', done.stderr)
    return found[1] if found else None


def _commit() -> str | None:
    """With "-dirty" if the code has changed since; docs/ does not count, an earlier part writes it."""
    root = Path(__file__).parents[1]
    found = _git(root, "describe", "--always")
    changed = found and _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs")
    return f"{found}-dirty" if changed else found


def _git(root: Path, *command: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *command], capture_output=True, text=True, timeout=20, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() or None
