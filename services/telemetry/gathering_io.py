"""Reads the metrics of a server for exporters on other threads.

The server's loop reads them in pieces, with its other work in between; readers that come at about the same
time share the values. A loop that hangs costs its readers one timeout together; after it they get the last
values with their age, at once, until the loop runs again.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import platform
import threading
import time
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...runtime.telemetry import process_table as table
from ...runtime.telemetry.samples import Samples
from .process_io import measure_disks, measure_process

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...runtime.telemetry.exporting import Measured

MIN_AGE_S = 0.5  # values that are younger are read again
TIMEOUT_S = 4.0  # below the default timeout of Prometheus, 10 s


class MetricReader(Protocol):
    """What exporters read."""

    certificate_expiry_s: Callable[[], float | None]  # of the endpoint, which sets it

    @property
    def measured(self) -> Measured:
        """The server or application."""

    def samples(self) -> Samples:
        """The present values; not to be changed. On any thread of an exporter."""


class _Reading(NamedTuple):
    """One reading by the loop; nothing waits for it after the deadline."""

    future: concurrent.futures.Future[None]
    samples: Samples
    deadline_s: float


class Gatherer:
    """Implements MetricReader: the metrics of one server. `start` comes first, on the server's loop."""

    def __init__(self, measured: Measured, timeout_s: float = TIMEOUT_S) -> None:
        self.measured: Measured = measured
        self._timeout_s = timeout_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._last: Samples | None = None
        self._read_at_s = 0.0
        self._reading: _Reading | None = None
        self.certificate_expiry_s: Callable[[], float | None] = _none  # of the endpoint
        self._build = own_version(), platform.python_version()

    def start(self) -> None:
        """Called on the server's loop."""
        self._loop = asyncio.get_running_loop()

    def samples(self) -> Samples:
        """The present values, or the last ones; not to be changed. Any thread but that of the loop."""
        with self._lock:
            if self._last is None or time.monotonic() - self._read_at_s >= MIN_AGE_S:
                self._read()
            assert self._last is not None, "read above"
            return self._last

    def _read(self) -> None:
        reading = self._reading
        if reading is None or reading.future.done():  # one that ended after the timeout has old values
            reading = self._reading = self._begin()
        if reading is not None:
            with contextlib.suppress(TimeoutError, concurrent.futures.CancelledError):
                reading.future.result(max(reading.deadline_s - time.monotonic(), 0))
                self._last, self._read_at_s = reading.samples, time.monotonic()
        if self._last is None:
            self._last, self._read_at_s = Samples(), time.monotonic()
        self._complete(self._last)

    def _begin(self) -> _Reading | None:
        """None if the loop is closed."""
        assert self._loop is not None, "started"
        samples = Samples()
        try:
            future = asyncio.run_coroutine_threadsafe(self._gather(samples), self._loop)
        except RuntimeError:
            return None
        return _Reading(future, samples, time.monotonic() + self._timeout_s)

    async def _gather(self, samples: Samples) -> None:
        begun_s = time.perf_counter()
        for _ in self.measured.metric_pieces(samples):
            await asyncio.sleep(0)
        samples.set(table.GATHER_SECONDS, time.perf_counter() - begun_s)

    def _complete(self, samples: Samples) -> None:
        """What needs no loop. Order: a new `Samples` gets all its keys here, before any reader has it."""
        measured = self.measured
        server = measured.role, str(measured.server_id), measured.cluster_id
        samples.set(table.BUILD_INFO, 1, *self._build, *server)
        samples.set(table.SNAPSHOT_AGE, time.monotonic() - self._read_at_s)
        if (expiry_s := self.certificate_expiry_s()) is not None:
            samples.set(table.CERTIFICATE_EXPIRY, expiry_s, "metrics")
        measure_process(samples)
        measure_disks(samples, measured.data_dirs)


def _none() -> None:
    return None


def own_version() -> str:
    """Of this package."""
    try:
        return version("headrace")
    except PackageNotFoundError:
        return "unknown"  # a source tree that is not installed
