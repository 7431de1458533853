"""Child processes of the harness: each wait for one has a timeout, and none outlives the harness."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING, Any, Protocol, Self

from ..harness import ChildError
from .kafka_io import pinned

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ..harness import Process

    Spawn = Callable[[list[str], IO[bytes], Mapping[str, str]], "Spawned"]

STOP_TIMEOUT_S = 20.0
WORKER_STOP_TIMEOUT_S = 2.0


class Spawned(Protocol):
    """What a child needs of `subprocess.Popen`."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    poll: Callable[[], int | None]
    wait: Callable[[float | None], int]
    terminate: Callable[[], None]
    kill: Callable[[], None]


def spawn(command: list[str], errors: IO[bytes], environment: Mapping[str, str]) -> Spawned:
    """A process of `command` with pipes for stdin and stdout; its stderr goes to the file `errors`."""
    pipe = subprocess.PIPE
    process: Any = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, env=environment)
    started: Spawned = process
    return started


class Child:
    """A process that is sent lines on stdin and prints lines on stdout; stderr goes to a file."""

    def __init__(
        self, name: str, command: list[str], errors: Path, cores: Iterable[int] | None, spawn: Spawn = spawn
    ) -> None:
        self.name, self._errors, self._buffer = name, errors, b""
        with errors.open("wb") as stderr, pinned(cores):
            self.process = spawn(command, stderr, _environment())
        self.pid = self.process.pid

    def line(self, timeout_s: float) -> str:
        """The next line that it prints. Errors: ChildError."""
        found = next_line([self], timeout_s)
        if found is None:
            raise ChildError(f"{self.name} printed nothing within {timeout_s:.0f} s{self._stderr()}")
        return found[1]

    def buffered_line(self) -> str | None:
        """A line that has been read already."""
        if b"\n" not in self._buffer:
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def fileno(self) -> int:
        """Of its stdout, for `select`."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def read(self) -> None:
        """Read what it has printed. Errors: ChildError when it has ended."""
        data = os.read(self.fileno(), 1 << 16)
        if not data:
            code = self.process.wait(STOP_TIMEOUT_S)
            raise ChildError(f"{self.name} ended with exit code {code}{self._stderr()}")
        self._buffer += data

    def send(self, line: str) -> None:
        """Errors: ChildError when it has ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise ChildError(f"{self.name} has ended{self._stderr()}") from None

    def end(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """SIGTERM, then SIGKILL after `timeout_s`; may be called again."""
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(None)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _stderr(self) -> str:
        text = self._errors.read_text(errors="replace")[-2000:].strip()
        return f":\n{text}" if text else ""


def next_line(children: Sequence[Child], timeout_s: float) -> tuple[int, str] | None:
    """The next line of any child, with its index; None when none came in time. Errors: ChildError."""
    deadline = time.monotonic() + timeout_s
    while True:
        for index, child in enumerate(children):
            if (line := child.buffered_line()) is not None:
                return index, line
        ready, _, _ = select.select(children, [], [], max(deadline - time.monotonic(), 0.0))
        if not ready:
            return None
        for child in ready:
            child.read()


class Children:
    """All child processes of a run, started by `spawn`; as a context it ends those that are left."""

    def __init__(self, scratch: Path, spawn: Spawn = spawn) -> None:
        self._scratch, self._count, self._spawn = scratch, 0, spawn
        self._alive: list[Child] = []

    def start(self, name: str, module: str, *arguments: str, cores: Iterable[int] | None) -> Child:
        """Run `python -m headrace.benchmarks.<module> arguments` on `cores`."""
        command = [sys.executable, "-m", f"headrace.benchmarks.{module}", *arguments]
        return self.run(name, command, cores=cores)

    def run(self, name: str, command: list[str], *, cores: Iterable[int] | None) -> Child:
        """Any command that prints lines, on `cores`."""
        self._count += 1
        child = Child(name, command, self._scratch / f"{name}-{self._count}.err", cores, self._spawn)
        self._alive.append(child)
        return child

    def end(self, child: Child, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End one of them."""
        child.end(timeout_s)
        if child in self._alive:
            self._alive.remove(child)

    @contextlib.contextmanager
    def running(self, child: Child) -> Iterator[Child]:
        """The child, ended at the end."""
        try:
            yield child
        finally:
            self.end(child)

    def next_line(self, processes: Collection[Process], timeout_s: float) -> tuple[int, str] | None:
        """The next line of some of them, as `next_line`. Errors: ChildError."""
        found = {child.pid: child for child in self._alive}
        return next_line([found[process.pid] for process in processes], timeout_s)

    def work(
        self,
        orders: Iterable[Mapping[str, Any]],
        *,
        cores: Iterable[int] | None,
        timeout_s: float,
        when_ready: Callable[[], None] | None = None,
    ) -> list[dict[str, Any]]:
        """Run a worker for each order; all start measuring together, after `when_ready`. Their reports.

        Errors: ChildError; then all of them are ended.
        """
        deadline = time.monotonic() + timeout_s
        workers: list[Child] = []

        def line(worker: Child) -> str:
            return worker.line(max(deadline - time.monotonic(), 0.1))

        try:
            for order in orders:
                workers.append(self.start(str(order["loop"]), "worker", json.dumps(order), cores=cores))
            for worker in workers:
                while line(worker) != "ready":
                    pass
            if when_ready is not None:
                when_ready()
            for worker in workers:
                worker.send("go")
            return [json.loads(line(worker)) for worker in workers]
        finally:
            for worker in workers:
                self.end(worker, WORKER_STOP_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for child in reversed(self._alive):
            child.end()
        self._alive.clear()


def _environment() -> dict[str, str]:
    # a fixed hash seed: the order of sets, and so run times, are the same in every run
    return {**os.environ, "PYTHONHASHSEED": "0", "RAY_AUTH_MODE": "disabled"}
