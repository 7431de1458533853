"""Python programs as forks of a process that has imported headrace, which saves half a second of CPU per
start.

`multiprocessing` keeps that process, the fork server, one per process of tests. Each fork is a process like
any other, in a new session: it can be killed, stopped and paused.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import types
import warnings
from multiprocessing import connection, forkserver, process, reduction
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Modules that servers, applications and commands import.
PRELOADED = (
    "headrace.controller.controller_io",
    "headrace.coordinators.assembly",
    "headrace.services.bench.runs",
    "headrace.services.cli.main",
    "headrace.services.kafka_listener.assembly",
    "headrace.services.local_io",
    "headrace.storage_node.shell.node_io",
    "headrace.stream.worker.instance_io",
)
CONTEXT = multiprocessing.get_context("forkserver")
STANDARD_INPUT, STANDARD_OUTPUT, STANDARD_ERROR = 0, 1, 2


def start_server(*more: str) -> None:
    """Start the fork server unless it runs, with the modules of every program and `more`."""
    CONTEXT.set_forkserver_preload([*PRELOADED, *more])
    forkserver.ensure_running()


class Forked:
    """A running Python program, with the methods of `subprocess.Popen` that tests need.

    `program` is the command line of an interpreter without the interpreter: any number of "-W" and a filter;
    "-c" and a text, "-m" and the name of a module, or the path of a script; arguments. Its standard error
    goes to the file `log`, its standard output to the file `output`, or to the pipe `stdout` without one. Its
    standard input is the file `given`, for subprocess.PIPE the pipe `stdin`, or empty.
    """

    def __init__(
        self,
        program: Sequence[str],
        *,
        log: IO[Any],
        environment: Mapping[str, str] = os.environ,
        output: IO[Any] | None = None,
        given: IO[Any] | int | None = None,
        folder: str = "",
    ) -> None:
        start_server()
        self.args = list(program)
        with contextlib.ExitStack() as stack:
            if output is None:
                reading, writing = os.pipe()
                self.stdout: IO[bytes] = open(reading, "rb")  # noqa: SIM115 - the owner closes it
                output = stack.enter_context(open(writing, "wb"))
            if given is None:
                given = stack.enter_context(open(os.devnull, "rb"))
            if isinstance(given, int):
                reading, writing = os.pipe()
                self.stdin: IO[bytes] = open(writing, "wb")  # noqa: SIM115 - the owner closes it
                given = stack.enter_context(open(reading, "rb"))
            standard = [_Handed(file.fileno()) for file in (given, output, log)]
            arguments = (self.args, dict(environment), folder or os.getcwd(), standard)
            self._process = CONTEXT.Process(target=_run, args=arguments)
            self._process.start()
        # multiprocessing would also wait for the process, and the second of two waits gets exit code 255
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


def run_forked(
    program: Sequence[str],
    *,
    environment: Mapping[str, str] = os.environ,
    data: bytes = b"",
    timeout_s: float,
    folder: str = "",
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end, as `subprocess.run` with the output captured; `data` is its standard input.

    Errors: subprocess.TimeoutExpired, after its end by SIGKILL.
    """
    with contextlib.ExitStack() as stack:
        given, output, log = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(data)
        given.seek(0)
        running = Forked(program, log=log, environment=environment, output=output, given=given, folder=folder)
        try:
            code = running.wait(timeout_s)
        except BaseException:
            running.kill()
            running.wait()
            raise
        texts = []
        for file in (output, log):
            file.seek(0)
            texts.append(file.read())
    return subprocess.CompletedProcess(running.args, code, *texts)


class _Handed:
    """A file descriptor that is passed to the new process."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self.number),)


def _received(copy: Any) -> int:
    return int(copy.detach())


def _run(program: list[str], environment: dict[str, str], folder: str, standard: Iterable[int]) -> None:
    """Run the program in the new process."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for target, source in enumerate(standard):
        os.dup2(source, target)
        os.close(source)
    sys.stdin = open(STANDARD_INPUT, closefd=False)  # noqa: SIM115 - until the process ends
    atexit._clear()  # type: ignore[attr-defined] # of the fork server's modules
    if ray := sys.modules.get("ray"):  # which registers it when it is imported
        atexit.register(ray._private.worker.shutdown, _exiting_interpreter=True)
    try:
        _run_main(_after_filters(program))
    finally:
        # the interpreter does this at exit; multiprocessing does not
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        gc.collect()


def _after_filters(program: list[str]) -> list[str]:
    """Apply the warning filters of the command line; returns the rest of it."""
    filters = []
    while program[0] == "-W":
        filters.append(program[1])
        program = program[2:]
    sys.warnoptions[:] = filters
    warnings._processoptions(filters)  # type: ignore[attr-defined]
    return program


def _run_main(program: list[str]) -> None:
    if program[0] == "-m":
        sys.argv = program[1:]
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    elif program[0] == "-c":
        sys.argv = ["-c", *program[2:]]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            exec(compile(program[1], "<string>", "exec"), main.__dict__)
        finally:
            main.__dict__.clear()
    else:
        sys.argv = program
        sys.path.insert(0, os.path.dirname(program[0]))
        runpy.run_path(program[0], run_name="__main__")
