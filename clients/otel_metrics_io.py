"""The metrics of an application through its own meter provider of OpenTelemetry.

They are read when the provider collects; only durations of operations are passed on when they end, because
OpenTelemetry has no histogram that is read.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..runtime.extras import missing_extra
from ..runtime.telemetry.attributes import attributes_of
from ..runtime.telemetry.client_table import (
    CONSUMER_METRICS,
    MEMBER_METRICS,
    OPERATION_DURATION,
    PARTITION_METRICS,
    PIPELINE_METRICS,
    PRODUCER_METRICS,
)
from ..runtime.telemetry.metric import Kind
from ..runtime.telemetry.samples import Samples
from ..runtime.telemetry.stream_table import STREAM_METRICS
from ..runtime.tracing.guard_io import guarded
from ..runtime.tracing.names import SCOPE
from .exported_io import CONSUMER, OTHER, PRODUCER, ExportedSources, name_of, operations_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

    from ..runtime.telemetry.metric import Metric
    from ..runtime.tracing.names import Names
    from .operation_times import Operation

_METRICS: dict[str, tuple[Metric, ...]] = {
    PRODUCER: tuple(PRODUCER_METRICS.values()),
    CONSUMER: (*CONSUMER_METRICS.values(), *MEMBER_METRICS.values(), *PARTITION_METRICS.values()),
    OTHER: (*PIPELINE_METRICS, *STREAM_METRICS.values()),
}
_FRESH_S = 0.1  # one collection reads each source once
# Of the semantic conventions, in seconds.
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_exports: WeakKeyDictionary[Any, _Export] = WeakKeyDictionary()
_lock = threading.Lock()


def export_metrics(*sources: Any, meter_provider: MeterProvider | None = None) -> None:
    """Export the metrics of producers and consumers, until they are closed, of stream instances, and of
    `headrace.pipelines`, through the meter provider, by default that of the process. A second call with the
    same source changes nothing.

    Errors: ImportError without OpenTelemetry; TypeError for another object.
    """
    try:
        from opentelemetry import metrics

        from ..runtime.tracing.sdk_io import names
    except ImportError as error:
        raise missing_extra(error, "export_metrics", "otel") from error
    provider = metrics.get_meter_provider() if meter_provider is None else meter_provider
    with _lock:
        export = _exports.get(provider)
        if export is None:
            export = _exports[provider] = _Export(provider.get_meter(SCOPE), names())
        export.add(sources)


class _Export:
    """The instruments of one meter provider, and the sources that they read."""

    def __init__(self, meter: Meter, names: Names) -> None:
        self._meter, self._names = meter, names
        self._sources = ExportedSources()
        self._made: set[str] = set()  # kinds whose metrics have instruments
        self._durations: Any = None
        self._samples, self._read_at_s = Samples(), 0.0

    def add(self, sources: Iterable[Any]) -> None:
        for source, kind in self._sources.add(sources):
            if kind not in self._made:
                self._made.add(kind)
                for metric in _METRICS[kind]:
                    self._make(metric)
            if kind != OTHER:
                operations_of(source).observe(self._observer(source))
        self._read_at_s = 0.0

    def _make(self, metric: Metric) -> None:
        is_counter = metric.kind is Kind.COUNTER
        make = self._meter.create_observable_counter if is_counter else self._meter.create_observable_gauge
        read = partial(self._observe, metric)
        make(metric.otel, callbacks=[read], unit=metric.unit, description=metric.doc)

    def _observe(self, metric: Metric, _options: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation

        for labels, value in self._read().series(metric).items():
            assert isinstance(value, int | float), "there are no histograms among these"
            yield Observation(value, attributes_of(metric, labels, self._names))

    def _read(self) -> Samples:
        now_s = time.monotonic()
        if now_s - self._read_at_s >= _FRESH_S or self._sources.forget_closed():
            samples = Samples()
            self._sources.measure(samples)
            self._samples, self._read_at_s = samples, now_s
        return self._samples

    def _observer(self, client: Any) -> Any:
        """Passes the duration of each operation of a client on; it does not keep the client."""
        if self._durations is None:
            metric = OPERATION_DURATION
            self._durations = self._meter.create_histogram(
                metric.otel, metric.unit, metric.doc, explicit_bucket_boundaries_advisory=list(_BOUNDS)
            )
        name, durations, names = name_of(client), self._durations, self._names
        attributes: dict[Operation, Any] = {}  # Bound: operations of the client

        @guarded
        def record(operation: Operation, took_ms: float) -> None:
            known = attributes.get(operation)
            if known is None:
                labels = (*name, operation.name, operation.topic, operation.error)
                known = attributes[operation] = attributes_of(OPERATION_DURATION, labels, names)
            durations.record(took_ms / 1000, known)

        return record
