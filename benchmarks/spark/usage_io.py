"""CPU time, or peak memory, of this process and its children during a measurement.

In separate runs: sampling the memory takes CPU time on the same cores.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE_S = 0.05
METHOD = "Pss_Anon of each process every 50 ms"
_ANONYMOUS = re.compile(r"^Pss_Anon:\s+(\d+) kB", re.MULTILINE)


class Cpu:
    """As a context: `cpu_s` of all processes."""

    def __init__(self) -> None:
        self.cpu_s = 0.0

    def __enter__(self) -> Self:
        self._before = _cpu_seconds()
        return self

    def __exit__(self, *error: object) -> None:
        self.cpu_s = sum(used - self._before.get(pid, 0.0) for pid, used in _cpu_seconds().items())

    def figures(self) -> dict[str, Any]:
        """For the report."""
        return {"cpu_s": self.cpu_s}


class Memory:
    """As a context: peak memory in MB of 10^6 bytes. `worker_mb` of the largest other Python process,
    `python_mb` of all Python processes, `jvm_mb` of all JVMs, `store_mb` the maximum of `store_bytes`.

    Memory is anonymous: pages that a process wrote, and its share of those that it shares with forks.
    """

    def __init__(self, store_bytes: Callable[[], int] | None = None) -> None:
        self._store_bytes = store_bytes
        self._most = dict.fromkeys(("worker_mb", "python_mb", "jvm_mb", "store_mb"), 0.0)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def figures(self) -> dict[str, Any]:
        """For the report."""
        return dict(self._most)

    def _watch(self) -> None:
        while True:
            for name, value in self._now().items():
                self._most[name] = max(self._most[name], value)
            if self._is_over.wait(SAMPLE_S):
                return

    def _now(self) -> dict[str, float]:
        own, *others = _processes()
        found = dict.fromkeys(self._most, 0.0)
        found["python_mb"] = anonymous_mb(own.pid)
        for process in others:
            try:
                name = process.name()
            except psutil.Error:
                continue
            if name.startswith("java"):
                found["jvm_mb"] += anonymous_mb(process.pid)
            elif name.startswith(("python", "pyspark", "ray::")):
                mb = anonymous_mb(process.pid)
                found["python_mb"] += mb
                found["worker_mb"] = max(found["worker_mb"], mb)
        if self._store_bytes is not None:
            found["store_mb"] = self._store_bytes() / 1e6
        return found


def anonymous_mb(pid: int) -> float:
    """Anonymous memory of a process, with its share of shared pages; 0 when it has ended."""
    try:
        found = _ANONYMOUS.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except OSError:
        return 0.0
    return int(found[1]) * 1024 / 1e6 if found else 0.0


def _processes() -> list[psutil.Process]:
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def _cpu_seconds() -> dict[int, float]:
    found = {}
    for process in _processes():
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        found[process.pid] = times.user + times.system
    return found
