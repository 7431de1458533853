"""The exporters of an application: the Prometheus endpoint, OTLP and Ray's pipeline for its clients, stream
instances and pipelines, with the keys that servers have."""

from __future__ import annotations

import os
import platform
import threading
import time
from typing import TYPE_CHECKING, Any

from ...clients.exported_io import ExportedSources
from ...runtime.telemetry import process_table as table
from ...runtime.telemetry.exporting import APPLICATION
from ...runtime.telemetry.samples import Samples
from ...runtime.telemetry_config import ApplicationTelemetryConfig
from .exporters_io import Exporters
from .gathering_io import MIN_AGE_S, own_version
from .process_io import measure_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self


def start_telemetry(
    *sources: Any, config: Mapping[str, Any] | None = None, **options: Any
) -> ApplicationTelemetry:
    """Export the metrics of producers and consumers, until they are closed, of stream instances and of
    `headrace.pipelines`; `close` it, or use `with`.

    Options are keys of the section Application telemetry in docs/CONFIG.md: `metrics_listener="127.0.0.1:0"`
    for Prometheus, `metrics_otlp_enable=True`, `metrics_ray_enable=True`. Errors: ConfigError; OSError for
    the address; TypeError for an object without metrics.
    """
    telemetry = ApplicationTelemetry(ApplicationTelemetryConfig.of(config, **options))
    telemetry.add(*sources)
    try:
        telemetry.start()
    except BaseException:
        telemetry.close()
        raise
    return telemetry


class ApplicationTelemetry:
    """The exporters of one application."""

    def __init__(self, config: ApplicationTelemetryConfig) -> None:
        """Errors: ConfigError."""
        self._gatherer = _Gatherer()
        self._exporters = Exporters(config, self._gatherer)

    def add(self, *sources: Any) -> None:
        """Export the metrics of these, too. Errors: TypeError for an object without metrics."""
        self._gatherer.sources.add(sources)

    def start(self) -> None:
        """Called by `start_telemetry`."""
        self._exporters.start()

    @property
    def url(self) -> str | None:
        """Of the endpoint; None without one."""
        return self._exporters.url

    def status(self) -> dict[str, Any]:
        """The URL of the endpoint, and how often the others have pushed or failed; JSON-able."""
        return self._exporters.status()

    def close(self) -> None:
        """End the exporters."""
        for finish in self._exporters.close():
            finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Application:
    """Implements Measured; its id is that of the process."""

    role, cluster_id = APPLICATION, ""
    data_dirs: Sequence[str] = ()

    def __init__(self) -> None:
        self.server_id = os.getpid()

    def metric_pieces(self, _samples: Samples) -> Iterator[None]:
        """Part of Measured; the gatherer reads the sources itself."""
        return iter(())

    def stored_port(self, _name: str) -> int:
        """Part of Measured."""
        return 0

    def store_port(self, _name: str, _port: int) -> None:
        """Part of Measured."""


class _Gatherer:
    """Implements MetricReader: clients may be read on any thread."""

    def __init__(self) -> None:
        self.measured = _Application()
        self.sources = ExportedSources()
        self.certificate_expiry_s: Callable[[], float | None] = lambda: None
        self._lock = threading.Lock()
        self._last, self._read_at_s = Samples(), float("-inf")

    def samples(self) -> Samples:
        """The present values; not to be changed."""
        with self._lock:
            if time.monotonic() - self._read_at_s >= MIN_AGE_S:
                self._last, self._read_at_s = self._read(), time.monotonic()
            return self._last

    def _read(self) -> Samples:
        samples = Samples()
        self.sources.measure(samples)
        measure_process(samples)
        build = own_version(), platform.python_version()
        samples.set(table.BUILD_INFO, 1, *build, APPLICATION, str(self.measured.server_id), "")
        if (expiry_s := self.certificate_expiry_s()) is not None:
            samples.set(table.CERTIFICATE_EXPIRY, expiry_s, "metrics")
        return samples
