"""Passes the metrics of a server to Ray's pipeline (`ray.util.metrics`), which each machine's agent exports.

From a thread of the actor, a few times a minute to once a second: nothing is passed per record. Ray's
counters take increments, so that of each series since the last time is passed. Ray has no call for a finished
histogram: of these the count and the sum go, as counters.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError
from ...runtime.limited_log_io import LimitedLog
from ...runtime.telemetry.histogram import Histogram
from ...runtime.telemetry.metric import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...runtime.telemetry.metric import Metric
    from ...runtime.telemetry.samples import Labels, Samples, Value
    from ...runtime.telemetry_config import TelemetryConfig
    from .gathering_io import MetricReader

log = logging.getLogger("headrace.telemetry")

# Ray's agent adds tags of its own; these tell servers of one machine apart.
_SERVER = ("role", "server_id")
JOIN_S = 2.0


class RayPush:
    """One server's part of Ray's pipeline."""

    name = "ray"

    def __init__(
        self,
        config: TelemetryConfig,
        gatherer: MetricReader,
        instruments: Callable[[], Instruments] | None = None,
    ) -> None:
        """Errors: ConfigError in a process without Ray, as of `headrace.local`."""
        self._gatherer = gatherer
        self._interval_s = config.metrics_ray_interval_ms / 1000
        self._instruments = _ray_instruments() if instruments is None else instruments()
        self._passed: dict[tuple[str, Labels], float] = {}  # Bound: series of the last values
        self._over = threading.Event()
        self._log = LimitedLog(log)
        self._thread = threading.Thread(target=self._run, name="headrace-ray-metrics", daemon=True)
        self.pushes = self.failures = 0

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Begin no more updates."""
        self._over.set()

    def finish(self) -> None:
        """After `close`: wait for an update under way."""
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def _run(self) -> None:
        while not self._over.wait(self._interval_s):
            try:
                self.push(self._gatherer.samples())
            except Exception as error:  # noqa: BLE001 -- Ray's agent may be restarting
                self.failures += 1
                self._log.warning("metrics not passed to Ray", "metrics were not passed to Ray: %r", error)
            else:
                self.pushes += 1

    def push(self, samples: Samples) -> None:
        """Pass one set of values."""
        measured = self._gatherer.measured
        server = dict(zip(_SERVER, (measured.role, str(measured.server_id)), strict=True))
        seen: dict[tuple[str, Labels], float] = {}
        for metric, values in samples:
            self._push_one(metric, values, server, seen)
        self._passed = seen  # series that are gone are forgotten

    def _push_one(
        self,
        metric: Metric,
        values: Mapping[Labels, Value],
        server: dict[str, str],
        seen: dict[tuple[str, Labels], float],
    ) -> None:
        # Ray puts "ray_" before the name, and _total behind a counter's
        name = metric.prometheus.removesuffix("_total")
        labels_of = metric.labels
        if metric.has_total:
            values = {labels: value for labels, value in values.items() if labels}
        for labels, value in values.items():
            tags = {**server, **dict(zip(labels_of, labels, strict=True))}
            if isinstance(value, Histogram):
                self._count(f"{name}_count", metric, labels, value.count, tags, seen)
                self._count(f"{name}_sum", metric, labels, value.total, tags, seen)
            elif metric.kind is Kind.COUNTER:
                self._count(name, metric, labels, value, tags, seen)
            else:
                self._instruments.gauge(name, metric.doc, tuple(tags)).set(value, tags)

    def _count(
        self,
        name: str,
        metric: Metric,
        labels: Labels,
        value: float,
        tags: dict[str, str],
        seen: dict[tuple[str, Labels], float],
    ) -> None:
        key = name, labels
        seen[key] = value
        more = value - self._passed.get(key, 0)
        if more > 0:
            self._instruments.counter(name, metric.doc, tuple(tags)).inc(more, tags)


class Instruments:
    """Ray's metric objects by name, each made once."""

    def __init__(self, new_counter: Callable[..., Any], new_gauge: Callable[..., Any]) -> None:
        self._new_counter, self._new_gauge = new_counter, new_gauge
        self._made: dict[str, Any] = {}

    def counter(self, name: str, doc: str, tags: tuple[str, ...]) -> Any:
        return self._get(self._new_counter, name, doc, tags)

    def gauge(self, name: str, doc: str, tags: tuple[str, ...]) -> Any:
        return self._get(self._new_gauge, name, doc, tags)

    def _get(self, new: Callable[..., Any], name: str, doc: str, tags: tuple[str, ...]) -> Any:
        if name not in self._made:
            self._made[name] = new(name, description=doc, tag_keys=tags)
        return self._made[name]


def _ray_instruments() -> Instruments:
    import ray
    from ray.util.metrics import Counter, Gauge

    if not ray.is_initialized():
        raise ConfigError("metrics.ray.enable: this server does not run in Ray")
    return Instruments(Counter, Gauge)
