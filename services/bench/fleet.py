"""Worker processes of a benchmark: all start measuring at one moment, none outlives the command.

Each worker has one pipe to the parent. It sends ("ready", number), then ("done", result) or ("failed",
error); it gets ("go", start time). When the parent is gone the pipe ends, and the worker ends at once. Counts
for the progress line lie in shared memory, one writer per number, so that nothing is sent meanwhile.
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

# Enough for all workers to hear of it before it comes.
HEAD_START_NS = 50_000_000
TERMINATE_TIMEOUT_S = 5.0
REPORT_EVERY_S = 1.0
_BLOCKED = {signal.SIGINT, signal.SIGHUP}
_RECORDS, _BYTES, _FAILED, _WIDTH = 0, 1, 2, 3


class WorkerLostError(HeadraceError):
    """A worker process ended without a word."""


class Task(Protocol):
    """One worker's work; it travels to the worker by pickle."""

    def run(self, link: Link) -> Any:
        """Prepare, `link.start()`, do it, and return what was measured."""


class Link:
    """A worker's end."""

    def __init__(self, pipe: Connection, board: Any, slot: int, group: range) -> None:
        self._pipe, self._board, self._at = pipe, board, slot * _WIDTH
        self._group = [number * _WIDTH for number in group]
        self._go = threading.Event()
        self._start_ns = 0

    def start(self, prepared: int = 0) -> int:
        """Tell that all is prepared, and a number for the parent; wait until all others are.

        The common start time in monotonic ns.
        """
        self._pipe.send(("ready", prepared))
        self._go.wait()
        sleep_until(self._start_ns)
        return self._start_ns

    def progress(self, records: int, size_bytes: int, failed: int = 0) -> None:
        """This worker's totals so far."""
        board, at = self._board, self._at
        board[at + _RECORDS], board[at + _BYTES], board[at + _FAILED] = records, size_bytes, failed

    def group_records(self) -> int:
        """The records of all workers of this one's kind."""
        board = self._board
        return sum([board[at] for at in self._group])

    def goal(self) -> int | None:
        """How many records the readers are to reach together; None while that is not known."""
        goal = self._board[-1]
        return None if goal < 0 else goal

    def listen(self) -> None:
        """Runs on a thread of its own: what the parent says, and that it is gone."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._start_ns = self._pipe.recv()[1]
                self._go.set()
        os._exit(1)

    def send(self, *message: Any) -> None:
        """To the parent; it may be gone."""
        with contextlib.suppress(OSError):
            self._pipe.send(message)


class Totals:
    """What a group of workers has counted so far."""

    def __init__(self, board: Any, group: range) -> None:
        self._board, self._group = board, group

    def read(self) -> tuple[int, int, int]:
        """(records, bytes, failed)."""
        rows = [self._board[slot * _WIDTH : (slot + 1) * _WIDTH] for slot in self._group]
        records, size_bytes, failed = (sum(column) for column in zip(*rows, strict=True))
        return records, size_bytes, failed


class Fleet:
    """The worker processes for groups of tasks; a context manager that leaves none behind."""

    def __init__(self, *groups: Sequence[Task]) -> None:
        self.groups: list[range] = []
        first = 0
        for group in groups:
            self.groups.append(range(first, first + len(group)))
            first += len(group)
        self._tasks = [task for group in groups for task in group]
        spawn = multiprocessing.get_context("spawn")
        self._board: Any = spawn.RawArray("q", first * _WIDTH + 1)
        self._board[-1] = -1
        self._spawn = spawn
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []
        self.results: list[Any] = [None] * first
        self.prepared = [0] * first
        self.start_ns = 0

    def totals(self, group: int) -> Totals:
        """The running counts of one group."""
        return Totals(self._board, self.groups[group])

    def set_goal(self, records: int) -> None:
        """Tell the readers how many records they are to reach together."""
        self._board[-1] = records

    def start(self, on_second: Callable[[], None]) -> None:
        """Start all, wait until all are prepared, and let them go. Errors: those of a worker."""
        for group in self.groups:  # in turn: what the first did to prepare lies behind the second
            self._start_group(group)
            self._gather("ready", group, on_second)
        self.start_ns = now_ns() + HEAD_START_NS
        for slot, pipe in enumerate(self._pipes):
            try:
                pipe.send(("go", self.start_ns))
            except OSError:
                self._lost(slot)

    def finish(self, group: int, on_second: Callable[[], None]) -> list[Any]:
        """Wait for the results of a group. Errors: those of any worker."""
        self._gather("done", self.groups[group], on_second)
        return [self.results[slot] for slot in self.groups[group]]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever still runs is ended: after an error or an interrupt nobody waits for it."""
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
        # Blocked while they start, and by inheritance in them for ever: Ctrl-C is for the parent alone,
        # which ends its workers itself.
        old = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
        try:
            for slot in group:
                mine, theirs = self._spawn.Pipe()
                self._pipes.append(mine)
                process = self._spawn.Process(
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
        raise WorkerLostError(
            f"worker process {slot} ended in the middle of its work (exit code {process.exitcode})"
        )


def _work(task: Task, pipe: Connection, board: Any, slot: int, group: range) -> None:
    """The main function of a worker process."""
    link = Link(pipe, board, slot, group)
    threading.Thread(target=link.listen, name="headrace-bench-parent", daemon=True).start()
    try:
        result = task.run(link)
    except Exception as error:  # noqa: BLE001 - told to the parent, which ends with it
        link.send("failed", _portable(error))
    else:
        link.send("done", result)


def _portable(error: Exception) -> Exception:
    """The error itself where it survives the trip, else one with its text."""
    if isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    try:
        copy: Exception = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - whatever its own reduction raises
        copy = HeadraceError(f"{type(error).__name__}: {error}")
    return copy if isinstance(copy, (HeadraceError, OSError, ValueError)) else HeadraceError(repr(error))
