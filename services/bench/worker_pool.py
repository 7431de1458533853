"""Worker processes of a benchmark: they start measuring at the same moment and end with the command.

Workers are forks of the fork server of `multiprocessing`, which imports once what all of them need.
Each worker has one pipe to the parent. It sends ("ready", number), then ("done", result) or ("failed",
error); it receives ("go", start time). If the parent process ends, the pipe closes and the worker exits.
Counts for the progress line are in shared memory with one writer per number, so that no messages are sent
during the measurement.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.errors import HeadraceError
from .pacing_io import now_ns, sleep_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection
    from typing import Self

# Long enough for every worker to receive the start time before it comes.
HEAD_START_NS = 50_000_000
TERMINATE_TIMEOUT_S = 5.0
REPORT_EVERY_S = 1.0
_BLOCKED = {signal.SIGINT, signal.SIGHUP}
_PRELOADED = [f"{__package__}.send_work", f"{__package__}.read_work", "headrace.clients.sync.cluster_io"]
_RECORDS, _BYTES, _FAILED, _WIDTH = 0, 1, 2, 3


class WorkerLostError(HeadraceError):
    """A worker process ended without a result."""


class Task(Protocol):
    """The work of one worker process; sent to it by pickle."""

    def run(self, link: WorkerLink) -> Any:
        """Prepare, call `link.start()`, do the work, and return the measurements."""


class WorkerLink:
    """A worker's connection to the parent process."""

    def __init__(self, pipe: Connection, board: Any, slot: int, group: range) -> None:
        self._pipe, self._board, self._at = pipe, board, slot * _WIDTH
        self._group = [number * _WIDTH for number in group]
        self._go = threading.Event()
        self._start_ns = 0

    def start(self, prepared: int = 0) -> int:
        """Report that the worker is ready, with a number for the parent, and wait until all workers are.

        Returns the common start time in monotonic ns.
        """
        self._pipe.send(("ready", prepared))
        self._go.wait()
        sleep_until(self._start_ns)
        return self._start_ns

    def progress(self, records: int, size_bytes: int, failed: int = 0) -> None:
        """Publish this worker's totals so far."""
        board, at = self._board, self._at
        board[at + _RECORDS], board[at + _BYTES], board[at + _FAILED] = records, size_bytes, failed

    def group_records(self) -> int:
        """The records of all workers of this worker's group."""
        board = self._board
        return sum([board[at] for at in self._group])

    def goal(self) -> int | None:
        """The number of records that the readers have to reach together; None while it is unknown."""
        goal = self._board[-1]
        return None if goal < 0 else goal

    def listen(self) -> None:
        """Receive messages of the parent, on a thread of its own; exit when the pipe closes."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._start_ns = self._pipe.recv()[1]
                self._go.set()
        os._exit(1)

    def send(self, *message: Any) -> None:
        """Send a message to the parent; ignored if it has ended."""
        with contextlib.suppress(OSError):
            self._pipe.send(message)


class Totals:
    """The running counts of a group of workers."""

    def __init__(self, board: Any, group: range) -> None:
        self._board, self._group = board, group

    def read(self) -> tuple[int, int, int]:
        """Records, bytes and failed records."""
        rows = [self._board[slot * _WIDTH : (slot + 1) * _WIDTH] for slot in self._group]
        records, size_bytes, failed = (sum(column) for column in zip(*rows, strict=True))
        return records, size_bytes, failed


class WorkerPool:
    """The worker processes of all task groups; a context manager that ends them all."""

    def __init__(self, *groups: Sequence[Task]) -> None:
        self.groups: list[range] = []
        first = 0
        for group in groups:
            self.groups.append(range(first, first + len(group)))
            first += len(group)
        self._tasks = [task for group in groups for task in group]
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOADED)
        self._board: Any = self._context.RawArray("q", first * _WIDTH + 1)
        self._board[-1] = -1
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []
        self.results: list[Any] = [None] * first
        self.prepared = [0] * first
        self.start_ns = 0

    def totals(self, group: int) -> Totals:
        return Totals(self._board, self.groups[group])

    def set_goal(self, records: int) -> None:
        """Publish the number of records that the readers have to reach together."""
        self._board[-1] = records

    def start(self, on_second: Callable[[], None]) -> None:
        """Start all workers, wait until all are ready, and send the start time. Errors: those of a worker."""
        for group in self.groups:  # in turn: a later group starts behind the preparations of an earlier one
            self._start_group(group)
            self._gather("ready", group, on_second)
        self.start_ns = now_ns() + HEAD_START_NS
        for slot, pipe in enumerate(self._pipes):
            try:
                pipe.send(("go", self.start_ns))
            except OSError:
                self._lost(slot)

    def finish(self, group: int, on_second: Callable[[], None]) -> list[Any]:
        """The results of one group. Errors: those of any worker."""
        self._gather("done", self.groups[group], on_second)
        return [self.results[slot] for slot in self.groups[group]]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End workers that still run, after an error or an interrupt."""
        for process in self._processes:
            process.join(0 if any(result is None for result in self.results) else TERMINATE_TIMEOUT_S)
            if process.is_alive():
                process.terminate()
        for process in self._processes:
            process.join(TERMINATE_TIMEOUT_S)
            if process.is_alive():
                process.kill()
                process.join()
        for pipe in self._pipes:
            pipe.close()

    def _start_group(self, group: range) -> None:
        # SIGINT is blocked while they start and, by inheritance, in the fork server and its workers: Ctrl-C
        # is for the parent alone, which ends its workers itself.
        old = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
        try:
            for slot in group:
                mine, theirs = self._context.Pipe()
                self._pipes.append(mine)
                process = self._context.Process(
                    target=_work, args=(self._tasks[slot], theirs, self._board, slot, group), daemon=True
                )
                process.start()
                self._processes.append(process)
                theirs.close()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old)

    def _gather(self, awaited: str, group: range, on_second: Callable[[], None]) -> None:
        missing = {slot for slot in group if awaited == "ready" or self.results[slot] is None}
        open_pipes = {pipe: slot for slot, pipe in enumerate(self._pipes) if self.results[slot] is None}
        next_ns = now_ns() + int(REPORT_EVERY_S * 1e9)
        while missing:
            left_s = (next_ns - now_ns()) / 1e9
            for pipe in wait(list(open_pipes), max(left_s, 0)):
                slot = open_pipes[pipe]  # type: ignore[index]
                kind, *content = self._receive(slot)
                if kind == "failed":
                    raise content[0]
                if kind == "ready":
                    self.prepared[slot] = content[0]
                if kind == "done":
                    self.results[slot] = content[0]
                    del open_pipes[pipe]  # type: ignore[arg-type]
                if kind == awaited:
                    missing.discard(slot)
            if now_ns() >= next_ns:
                next_ns += int(REPORT_EVERY_S * 1e9)
                on_second()

    def _receive(self, slot: int) -> Any:
        try:
            return self._pipes[slot].recv()
        except (EOFError, OSError):
            return self._lost(slot)

    def _lost(self, slot: int) -> Any:
        process = self._processes[slot]
        process.join(TERMINATE_TIMEOUT_S)
        raise WorkerLostError(f"worker process {slot} ended without a result (exit code {process.exitcode})")


def _work(task: Task, pipe: Connection, board: Any, slot: int, group: range) -> None:
    """The main function of a worker process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)  # of a fork server that was there before, too
    link = WorkerLink(pipe, board, slot, group)
    threading.Thread(target=link.listen, name="headrace-bench-parent", daemon=True).start()
    try:
        result = task.run(link)
    except Exception as error:  # noqa: BLE001 - sent to the parent, which raises it
        link.send("failed", _portable(error))
    else:
        link.send("done", result)


def _portable(error: Exception) -> Exception:
    """The error itself if it can be pickled, else a HeadraceError with its text."""
    if isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    try:
        copy: Exception = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - any error of the exception's own __reduce__
        copy = HeadraceError(f"{type(error).__name__}: {error}")
    return copy if isinstance(copy, (HeadraceError, OSError, ValueError)) else HeadraceError(repr(error))
