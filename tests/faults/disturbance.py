"""Processes that load the machine on which servers run; each ends by itself.

`with Disturbance(["cpu", "fsync"], directory, 120): ...` starts such processes and ends them.
`disturbance.py KIND SECONDS DIRECTORY` is one such process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

MIB = 1 << 20
WAIT_S = 60
# Size of the file that a writer overwrites again and again.
DIRTY_FILE_BYTES = 1 << 30
# This much memory stays available: pages are reclaimed, and the OOM killer stays idle.
MEMORY_LEFT_BYTES = 1_500 * MIB
CHURN_FILE_BYTES = 2 << 30
START = "import ssl, sqlite3, asyncio, http.server, xml.dom.minidom, numpy, pyarrow, pandas, ray"
RAY = """
import sys, tempfile, ray
ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", _temp_dir=sys.argv[1])
@ray.remote(num_cpus=0)
class Actor:
    def ready(self): return 1
actors = [Actor.remote() for _ in range(4)]
ray.get([actor.ready.remote() for actor in actors])
ray.shutdown()
"""


def _cpu(_directory: Path, ends_at: float) -> None:
    """Computes without a pause."""
    while time.monotonic() < ends_at:
        sum(range(100_000))


def _fsync(directory: Path, ends_at: float) -> None:
    """Many small synced appends and atomic replacements of files, as by a database."""
    path = directory / f"fsync-{os.getpid()}"
    with path.open("wb") as file:
        for number in count():
            if time.monotonic() >= ends_at:
                break
            file.write(b"x" * 4096)
            file.flush()
            os.fdatasync(file.fileno())
            if number % 10 == 0:
                other = path.with_suffix(".new")
                other.write_bytes(b"x" * 65_536)
                other.rename(path.with_suffix(".old"))
                number_of_folder = os.open(directory, os.O_RDONLY)
                os.fsync(number_of_folder)
                os.close(number_of_folder)
            if number % 1_000 == 999:
                file.seek(0)


def _dirty(directory: Path, ends_at: float) -> None:
    """Large writes as fast as the page cache takes them, seldom synced, as by a build or a copy."""
    with (directory / f"dirty-{os.getpid()}").open("wb", buffering=0) as file:
        piece = os.urandom(4 * MIB)
        written = 0
        while time.monotonic() < ends_at:
            file.write(piece)
            written += len(piece)
            if written % (256 * MIB) == 0:
                os.fsync(file.fileno())
            if written % DIRTY_FILE_BYTES == 0:
                file.seek(0)


def _memory(directory: Path, ends_at: float) -> None:
    """Allocates most of the memory, then reads and writes more file pages than fit into the rest."""
    held = []
    while _available_bytes() > MEMORY_LEFT_BYTES and time.monotonic() < ends_at:
        held.append(bytearray(b"x" * (64 * MIB)))
    path = directory / f"churn-{os.getpid()}"
    with path.open("wb") as file:
        for _ in range(CHURN_FILE_BYTES // (4 * MIB)):
            file.write(os.urandom(4 * MIB))
    while time.monotonic() < ends_at:
        with path.open("rb", buffering=0) as file:
            while file.read(4 * MIB) and time.monotonic() < ends_at:
                pass


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no MemAvailable")


def _starts(_directory: Path, ends_at: float) -> None:
    """Starts Python processes with many imports, one after the other."""
    while time.monotonic() < ends_at:
        subprocess.run([sys.executable, "-c", START], check=False, stderr=subprocess.DEVNULL)


def _ray(_directory: Path, ends_at: float) -> None:
    """Starts Ray clusters with four actors, one after the other."""
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_raylet_start_wait_time_s": "120"}
    while time.monotonic() < ends_at:
        folder = tempfile.mkdtemp(prefix="rd", dir="/tmp")
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "-c", RAY, folder],
                check=False,
                stderr=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
                timeout=max(1.0, ends_at - time.monotonic() + 20),
            )
        shutil.rmtree(folder, ignore_errors=True)


KINDS: dict[str, tuple[int, Callable[[Path, float], None]]] = {  # kind: (number of processes, their work)
    "cpu": (3 * (os.cpu_count() or 1), _cpu),
    "fsync": (6, _fsync),
    "dirty": (2, _dirty),
    "memory": (1, _memory),
    "starts": (8, _starts),
    "ray": (2, _ray),
}


class Disturbance:
    """Processes that load the machine for at most `seconds`; their files are removed at the end."""

    def __init__(self, kinds: Sequence[str], directory: Path, seconds: float) -> None:
        self._kinds, self._seconds = kinds, seconds
        self._directory = directory / "disturbance"
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Disturbance:
        self._directory.mkdir(parents=True)
        for kind in self._kinds:
            for _ in range(KINDS[kind][0]):
                command = [sys.executable, __file__, kind, str(self._seconds), str(self._directory)]
                self._processes.append(subprocess.Popen(command))
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(WAIT_S)
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def is_running(self) -> bool:
        """Whether all its processes still run."""
        return all(process.poll() is None for process in self._processes)


def main(kind: str, seconds: str, directory: str) -> Any:
    """One process of a disturbance."""
    KINDS[kind][1](Path(directory), time.monotonic() + float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
