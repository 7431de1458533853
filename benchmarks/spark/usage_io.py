"""What a process and all that it started use while something runs: CPU time, and the most memory."""

from __future__ import annotations

import threading
from typing import Any, Self

import psutil

LOOK_S = 0.02


class Usage:
    """As a context, around what is measured. `cpu_s` of all processes; `python_mb` and `jvm_mb` are the most
    that one Python process besides this one, and one JVM, had resident. What is shared, as libraries and
    Ray's object store, is left out."""

    def __init__(self) -> None:
        self.cpu_s = self.python_mb = self.jvm_mb = 0.0
        self._own = psutil.Process()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="usage", daemon=True)

    def __enter__(self) -> Self:
        self._before = self._cpu()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._thread.join()
        after = self._cpu()
        self.cpu_s = sum(used - self._before.get(pid, 0.0) for pid, used in after.items())

    def told(self) -> dict[str, Any]:
        """For a report."""
        return {"cpu_s": self.cpu_s, "python_mb": self.python_mb, "jvm_mb": self.jvm_mb}

    def _cpu(self) -> dict[int, float]:
        found = {}
        for process in self._all():
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            found[process.pid] = times.user + times.system
        return found

    def _all(self) -> list[psutil.Process]:
        return [self._own, *self._own.children(recursive=True)]

    def _watch(self) -> None:
        while not self._ends.wait(LOOK_S):
            for process in self._own.children(recursive=True):
                try:
                    name, found = process.name(), process.memory_info()
                except psutil.Error:
                    continue
                mb = (found.rss - found.shared) / 1e6
                if name.startswith("java"):
                    self.jvm_mb = max(self.jvm_mb, mb)
                elif name.startswith(("python", "pyspark", "ray::")):
                    self.python_mb = max(self.python_mb, mb)
