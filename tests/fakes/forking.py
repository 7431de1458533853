"""Server processes as forks of a process that has imported headrace: a start without its half second of CPU.

`multiprocessing` keeps that process, the fork server, one per process of tests. Each fork is a process like
any other, in a session of its own: it can be killed, stopped and paused.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from multiprocessing import connection, process, reduction
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What servers and applications import.
PRELOADED = (
    "headrace.controller.controller_io",
    "headrace.coordinators.assembly",
    "headrace.services.cli.main",
    "headrace.services.kafka_listener.assembly",
    "headrace.services.local_io",
    "headrace.storage_node.shell.node_io",
    "headrace.stream.worker.instance_io",
)
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(list(PRELOADED))


class Forked:
    """A running Python program, with the methods of `subprocess.Popen` that tests need.

    `program`: the path of a script, or "-m" and the name of a module; then its arguments. Its standard error
    goes to the file `log`; what it prints to `stdout`, or to the log as well if that is not wanted.
    """

    def __init__(
        self,
        program: Sequence[str],
        *,
        log: IO[Any],
        environment: Mapping[str, str] = os.environ,
        is_read: bool = True,
    ) -> None:
        self.args = list(program)
        reading, writing = os.pipe()
        self.stdout: IO[bytes] = open(reading, "rb")  # noqa: SIM115 - the owner of the process closes it
        with open(writing, "wb") as output:
            numbers = (output.fileno() if is_read else log.fileno(), log.fileno())
            arguments = (self.args, dict(environment), *map(_Handed, numbers))
            self._process = CONTEXT.Process(target=_run, args=arguments)
            self._process.start()
        if not is_read:
            self.stdout.close()
        # multiprocessing would ask for the exit code beside this object, and whoever asks second gets 255
        process._children.discard(self._process)  # type: ignore[attr-defined]
        assert self._process.pid is not None
        self.pid = self._process.pid
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit code, below zero that of a signal; None while it runs."""
        with self._lock:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Errors: subprocess.TimeoutExpired."""
        if not connection.wait([self._process.sentinel], timeout):
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        code = self.poll()
        assert code is not None
        return code

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class _Handed:
    """A file descriptor that becomes one of the new process."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self.number),)


def _received(copy: Any) -> int:
    return int(copy.detach())


def _run(program: list[str], environment: dict[str, str], stdout: int, stderr: int) -> None:
    """The new process."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.close(stdout)
    os.close(stderr)
    if program[0] == "-m":
        sys.argv = program[1:]
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = program
        runpy.run_path(program[0], run_name="__main__")
