"""Hosts one server in a supervised process: when the server ends, the process ends.

A process with a failed background task must not keep answering "alive". So the server's thread is watched:
its unplanned end is logged and then ends the process with `end_process`; the supervisor (Ray) restarts the
process.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..protocol.errors import ApiTimeoutError
from .freed_memory import give_memory_back, keep_freed_memory
from .loop_thread_io import LoopThread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

log = logging.getLogger("headrace.host")

STATUS_TIMEOUT_S = 5.0
# After a failed start the process stays for this long, so that callers of `wait_ready` get the error, and a
# server that cannot start (disk locked, disk broken) is not restarted in a hot loop.
LINGER_S = 2.0
ANSWER_S = 0.2  # a call that ends the process is answered
RESTART_CODE = 1  # the supervisor starts a process again unless it ended on purpose
# The GIL switch interval: how long another thread may run while the loop waits; Python's default is 5 ms.
SWITCH_INTERVAL_S = 0.0005

LOW_PRIORITY = (
    "this server runs with niceness %d: other processes of a busy machine have precedence over it; set"
    " RAY_worker_niceness=0 in the environment of `ray start`"
)


class Server(Protocol):
    """A server: `start` returns when it is ready, `run` lasts until `stop` or a failure."""

    host: str
    port: int

    async def start(self) -> None:
        """Return once the server serves requests."""

    async def run(self) -> None:
        """Serve until `stop` (returns) or until a task fails (raises)."""

    async def stop(self) -> None:
        """Shut down cleanly."""

    def status(self) -> dict[str, Any]:
        """The status of the server, JSON-able."""


def end_process(code: int) -> None:
    """End this process at once, without waiting for other threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def settle_process() -> None:
    """Tune the process of a server: short GIL switch interval, no garbage collection of start-up objects,
    retained memory. Not for a process that runs other code.

    Start-up objects are excluded from collections: a full collection of them paused a node for 14 ms. The
    memory of requests is kept for the next ones. A warning is logged if the process has a low priority.
    """
    if (niceness := os.nice(0)) > 0:
        log.warning(LOW_PRIORITY, niceness)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    # Order: garbage of the start is freed first; an idle server must not keep it.
    give_memory_back()
    keep_freed_memory()


class ServerHost:
    """Runs one server on a thread with its own event loop.

    `make_server` is called on that loop, `on_ready` when the server serves. A failure of the server, at start
    or later, ends the process.
    """

    def __init__(
        self,
        name: str,
        make_server: Callable[[], Server],
        end: Callable[[int], None] = end_process,
        linger_s: float = LINGER_S,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._version = version("headrace")  # Order: now, before an upgrade replaces the files
        self._make_server, self._end, self._linger_s = make_server, end, linger_s
        self._server: Server | None = None
        self._on_ready = on_ready
        self._settled = threading.Event()  # the start has succeeded or failed
        self._failure: BaseException | None = None
        self._is_stopping = False
        self._thread = LoopThread(name, self._main, self._on_end)
        self._thread.start()

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the server serves. Errors: those of its start; ApiTimeoutError."""
        if not self._settled.wait(timeout_s):
            raise ApiTimeoutError(f"{self.name} did not become ready within {timeout_s:.0f} s")
        if self._failure is not None:
            raise self._failure

    @property
    def endpoint(self) -> tuple[str, int] | None:
        """The endpoint of the server, None until it is ready."""
        if self._server is None or self._failure is not None or not self._settled.is_set():
            return None
        return self._server.host, self._server.port

    def status(self) -> dict[str, Any]:
        """The server's own status, read on its loop, or the state of its start or end."""
        facts: dict[str, Any] = {
            "name": self.name,
            "pid": os.getpid(),
            "version": self._version,
            "state": self._state(),
        }
        if facts["state"] == "running":
            facts.update(self._thread.call(self._status(), STATUS_TIMEOUT_S))
        return facts

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Run a coroutine on the server's loop. Errors: its own; TimeoutError; ClosedError."""
        return self._thread.call(work, timeout_s)

    def stop(self, timeout_s: float) -> None:
        """Shut the server down cleanly and wait for it; the process continues."""
        self._is_stopping = True
        server = self._server
        if server is not None and not self._thread.has_ended:
            self._thread.call(server.stop(), timeout_s)
        if not self._thread.join(timeout_s):
            raise ApiTimeoutError(f"{self.name} did not stop within {timeout_s:.0f} s")

    def restart(self, timeout_s: float) -> None:
        """Shut the server down cleanly and end the process after this call; its supervisor restarts it."""
        self.stop(timeout_s)
        threading.Thread(target=self._end_soon, name="restart", daemon=True).start()

    def _end_soon(self) -> None:
        time.sleep(ANSWER_S)
        self._end(RESTART_CODE)

    def _state(self) -> str:
        if self._failure is not None:
            return "failed"
        if self._thread.has_ended:
            return "stopped"
        if self._is_stopping:
            return "stopping"
        return "running" if self._settled.is_set() else "starting"

    async def _status(self) -> dict[str, Any]:
        assert self._server is not None
        return self._server.status()

    async def _main(self) -> None:
        server = self._make_server()
        self._server = server
        await server.start()
        self._on_ready()
        self._settled.set()
        log.info("%s is ready on %s:%d", self.name, server.host, server.port)
        await server.run()

    def _on_end(self, failure: BaseException | None) -> None:
        if self._is_stopping and (failure is None or not self._settled.is_set()):
            self._settled.set()
            return
        was_ready = self._settled.is_set()
        self._failure = failure or RuntimeError(f"{self.name} stopped unexpectedly")
        self._settled.set()
        log.critical("%s failed, ending this process: %r", self.name, self._failure, exc_info=failure)
        if not was_ready:
            time.sleep(self._linger_s)
        self._end(1)
