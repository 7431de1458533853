"""Pushes the metrics of a server to a collector by OTLP, from a thread of its own.

Bound: one set of values is on its way at a time. While the collector is slow or gone the thread waits for it,
within the timeouts of the exporter, and reads nothing more; values in between are never missed, because
counters are cumulative.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError
from ...runtime.extras import missing_extra
from ...runtime.limited_log_io import LimitedLog
from ...runtime.otlp_target_io import otlp_target
from ...runtime.telemetry.exporting import APPLICATION
from ...runtime.tracing.names import SERVER_SERVICE

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.resources import Resource

    from ...runtime.telemetry_config import TelemetryConfig
    from .gathering_io import MetricReader

log = logging.getLogger("headrace.telemetry")

INTERVAL_MS = 60_000  # the default of OTEL_METRIC_EXPORT_INTERVAL
CLOSE_TIMEOUT_S = 2.0
EXPORT_TIMEOUT_MS = 10_000


class OtlpPush:
    """One server's exporter. `start` begins, `close` and `finish` end it."""

    name = "otlp"

    def __init__(self, config: TelemetryConfig, gatherer: MetricReader) -> None:
        """Errors: ConfigError without the extra, or for an interval that is no number."""
        self._gatherer = gatherer
        self._exporter = metric_exporter(config)
        self._interval_s = interval_ms(config) / 1000
        self._start_ns = time.time_ns()
        self._over = threading.Event()
        self._log = LimitedLog(log)
        self._thread = threading.Thread(target=self._run, name="headrace-otlp", daemon=True)
        self.pushes = self.failures = 0

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Begin no more pushes."""
        self._over.set()

    def finish(self) -> None:
        """After `close`: release the exporter, within CLOSE_TIMEOUT_S; a push under way is abandoned then."""
        # On a thread: an exporter that retries does not look at the timeout of its shutdown.
        ending = threading.Thread(target=self._exporter.shutdown, name="headrace-otlp-end", daemon=True)
        ending.start()
        ending.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while not self._over.wait(self._interval_s):
            try:
                is_done = self._push()
            except Exception as error:  # noqa: BLE001 -- of a library; the next push may succeed
                self._failed(repr(error))
            else:
                if is_done:
                    self.pushes += 1
                else:
                    self._failed("the collector did not take them")

    def _push(self) -> bool:
        from opentelemetry.sdk.metrics.export import MetricExportResult

        from .otel_data import metrics_data

        samples = self._gatherer.samples()
        data = metrics_data(samples, self._resource(), self._start_ns, time.time_ns())
        return self._exporter.export(data, EXPORT_TIMEOUT_MS) is MetricExportResult.SUCCESS

    def _failed(self, reason: str) -> None:
        self.failures += 1
        if not self._over.is_set():
            self._log.warning("metrics not exported", "metrics were not exported by OTLP: %s", reason)

    def _resource(self) -> Resource:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource

        measured = self._gatherer.measured
        attributes = {"service.instance.id": f"{measured.role}-{measured.server_id}"}
        if measured.role != APPLICATION:
            attributes["headrace.cluster.id"] = measured.cluster_id
            if "OTEL_SERVICE_NAME" not in os.environ:
                attributes[SERVICE_NAME] = SERVER_SERVICE
        return Resource.create(attributes)


def interval_ms(config: TelemetryConfig) -> int:
    """The time between two pushes. Errors: ConfigError."""
    if config.metrics_otlp_interval_ms:
        return config.metrics_otlp_interval_ms
    text = os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", "")
    if not text:
        return INTERVAL_MS
    if not text.isdecimal() or not int(text):
        raise ConfigError(f"OTEL_METRIC_EXPORT_INTERVAL must be a number of milliseconds, not {text[:20]!r}")
    return int(text)


def metric_exporter(config: TelemetryConfig) -> MetricExporter:
    """The exporter of otlp.protocol. Errors: ConfigError without the extra."""
    target = otlp_target(config, "metrics")
    try:
        if target.is_grpc:
            from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as ByGrpc

            return ByGrpc(**target.arguments)
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as ByHttp
    except ImportError as error:
        raise ConfigError(str(missing_extra(error, "metrics.otlp.enable", "otel"))) from error
    return ByHttp(**target.arguments)
