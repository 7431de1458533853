"""Processes that the harness starts: each has a time bound and none outlives the harness."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Self

from .kafka_io import pinned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

STOP_TIMEOUT_S = 20.0


class ChildError(RuntimeError):
    """A process failed, said nothing in time, or ended early; the text holds the end of what it printed."""


class LostDataError(RuntimeError):
    """A reader did not find what was acknowledged, or found more."""


class Child:
    """One process that talks in lines: ours over stdin, its own over stdout, its troubles into a file."""

    def __init__(self, name: str, command: list[str], errors: Path, cores: Iterable[int] | None) -> None:
        self.name, self._errors, self._buffer = name, errors, b""
        with errors.open("wb") as stderr, pinned(cores):
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=_environment()
            )
        self.pid = self.process.pid

    def line(self, timeout_s: float) -> str:
        """The next line it prints. Errors: ChildError."""
        ends_at = time.monotonic() + timeout_s
        assert self.process.stdout is not None
        fd = self.process.stdout.fileno()
        while b"\n" not in self._buffer:
            left_s = ends_at - time.monotonic()
            if left_s <= 0 or not select.select([fd], [], [], left_s)[0]:
                raise ChildError(f"{self.name} said nothing within {timeout_s:.0f} s{self._troubles()}")
            data = os.read(fd, 1 << 16)
            if not data:
                self.process.wait(STOP_TIMEOUT_S)
                raise ChildError(f"{self.name} ended with {self.process.returncode}{self._troubles()}")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def tell(self, line: str) -> None:
        """Send it a line. Errors: ChildError when it is gone."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise ChildError(f"{self.name} is gone{self._troubles()}") from None

    def end(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Ask it to end, and kill it when it does not; safe to call again."""
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def kill(self) -> None:
        """End it now."""
        self.process.kill()
        self.end()

    def _troubles(self) -> str:
        text = self._errors.read_text(errors="replace")[-2000:].strip()
        return f":\n{text}" if text else ""


class Children:
    """All processes of one run of the harness; as a context it ends those that are left."""

    def __init__(self, scratch: Path) -> None:
        self._scratch, self._count = scratch, 0
        self._alive: list[Child] = []

    def start(self, name: str, module: str, *arguments: str, cores: Iterable[int] | None) -> Child:
        """Run `python -m headrace.benchmarks.<module> arguments` on some cores."""
        command = [sys.executable, "-m", f"headrace.benchmarks.{module}", *arguments]
        return self.run(name, command, cores=cores)

    def run(self, name: str, command: list[str], *, cores: Iterable[int] | None) -> Child:
        """Any command that talks in lines, on some cores."""
        self._count += 1
        child = Child(name, command, self._scratch / f"{name}-{self._count}.err", cores)
        self._alive.append(child)
        return child

    def end(self, child: Child) -> None:
        """End one of them."""
        child.end()
        if child in self._alive:
            self._alive.remove(child)

    def work(
        self,
        specs: list[Mapping[str, Any]],
        *,
        cores: Iterable[int] | None,
        timeout_s: float,
        when_ready: Callable[[], None] | None = None,
    ) -> list[dict[str, Any]]:
        """Run client processes, all of them started, then (after `when_ready`) let go together; what each
        reports.

        Errors: ChildError; then all of them are killed.
        """
        ends_at = time.monotonic() + timeout_s
        workers = []
        try:
            for spec in specs:
                workers.append(self.start(str(spec["loop"]), "worker", json.dumps(spec), cores=cores))
            for worker in workers:
                while worker.line(max(ends_at - time.monotonic(), 0.1)) != "ready":
                    pass
            if when_ready is not None:
                when_ready()
            for worker in workers:
                worker.tell("go")
            return [json.loads(worker.line(max(ends_at - time.monotonic(), 0.1))) for worker in workers]
        finally:
            for worker in workers:
                worker.end(2.0)
                self._alive.remove(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for child in reversed(self._alive):
            child.end()
        self._alive.clear()


def _environment() -> dict[str, str]:
    # a hash seed: dict and set order, and so run times, are those of the run before
    return {**os.environ, "PYTHONHASHSEED": "0", "RAY_AUTH_MODE": "disabled"}
