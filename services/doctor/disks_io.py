"""Reads the file system below a data dir, and measures its fsync."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path

from .facts import DiskFacts

PROBES, PROBE_BYTES, PROBE_TIME_S = 20, 4096, 2.0


def disk_facts(path: str) -> DiskFacts:
    """The facts of one data dir, or of the nearest parent that exists."""
    there = Path(path).expanduser().absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    mount_point, device, kind, options = mount_of(str(there))
    size = os.statvfs(there)
    block = _block_device(device)
    fsync_ms, trouble = _measured(there)
    rotational = _text(block / "queue/rotational") if block else ""
    return DiskFacts(
        path=path,
        mount_point=mount_point,
        device=device,
        kind=kind,
        options=options,
        total_bytes=size.f_blocks * size.f_frsize,
        free_bytes=size.f_bavail * size.f_frsize,
        inodes=size.f_files,
        free_inodes=size.f_favail,
        write_cache=_text(block / "queue/write_cache") if block else "",
        is_rotational=rotational == "1" if rotational else None,
        fsync_ms=fsync_ms,
        trouble=trouble,
    )


def mount_of(path: str) -> tuple[str, str, str, tuple[str, ...]]:
    """Mount point, device, kind and options of the file system that contains the path."""
    real = os.path.realpath(path)
    best = ("", "", "", tuple[str, ...]())
    for line in _text(Path("/proc/self/mounts")).splitlines():
        device, point, kind, options = line.split()[:4]
        point = point.encode().decode("unicode_escape")
        is_above = real == point or real.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(best[0]):  # of several on one point, the last is seen
            best = (point, device, kind, tuple(options.split(",")))
    return best


def _measured(folder: Path) -> tuple[tuple[float, ...], str]:
    """The times in ms of writes with fdatasync, as a log appends; or why nothing could be written."""
    times = list[float]()
    try:
        handle, name = tempfile.mkstemp(prefix=".doctor-", dir=folder)
    except OSError as error:
        return (), f"not writable: {error.strerror}"
    try:
        ends_at = time.monotonic() + PROBE_TIME_S
        for _ in range(PROBES):
            started = time.perf_counter()
            os.write(handle, bytes(PROBE_BYTES))
            os.fdatasync(handle)
            times.append(round((time.perf_counter() - started) * 1000, 3))
            if time.monotonic() > ends_at:
                break
    except OSError as error:
        return tuple(times), f"cannot be synced: {error.strerror}"
    finally:
        os.close(handle)
        with contextlib.suppress(OSError):
            os.unlink(name)
    return tuple(times), ""


def _block_device(device: str) -> Path | None:
    """The folder of a disk in /sys; of its whole disk for a partition."""
    name = os.path.basename(os.path.realpath(device)) if device.startswith("/dev/") else ""
    found = Path("/sys/class/block") / name
    if not name or not found.exists():
        return None
    real = found.resolve()
    return real if (real / "queue").exists() else real.parent if (real.parent / "queue").exists() else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
