"""Samples as the data that OpenTelemetry's exporters take. Needs the extra `otel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    HistogramDataPoint,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as OtelHistogram
from opentelemetry.sdk.metrics.export import Metric as OtelMetric
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from ...runtime.telemetry.attributes import attributes_of
from ...runtime.telemetry.histogram import Histogram, bound_ms
from ...runtime.telemetry.metric import Kind
from ...runtime.tracing.sdk_io import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.resources import Resource

    from ...runtime.telemetry.metric import Metric
    from ...runtime.telemetry.samples import Labels, Samples, Value
    from ...runtime.tracing.names import Names

_SCOPE = InstrumentationScope("headrace")
_FIRST, _LAST = 6, 26  # the published buckets, as for Prometheus
_BOUNDS = tuple(bound_ms(number) for number in range(_FIRST, _LAST + 1))


def metrics_data(samples: Samples, resource: Resource, start_ns: int, now_ns: int) -> MetricsData:
    """All samples; counters and histograms are cumulative since `start_ns`."""
    made = _Made(start_ns, now_ns, names())
    metrics = [made.metric(metric, values) for metric, values in samples if values]
    scope = ScopeMetrics(scope=_SCOPE, metrics=metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource=resource, scope_metrics=[scope], schema_url="")])


class _Made:
    """The data of one export."""

    def __init__(self, start_ns: int, now_ns: int, names: Names) -> None:
        self._start_ns, self._now_ns, self._names = start_ns, now_ns, names

    def metric(self, metric: Metric, values: Mapping[Labels, Value]) -> OtelMetric:
        data: Sum | Gauge | OtelHistogram
        if metric.kind is Kind.HISTOGRAM:
            data = OtelHistogram(
                [self._distribution(metric, labels, each) for labels, each in values.items()],
                AggregationTemporality.CUMULATIVE,
            )
        else:
            points = [self._point(metric, labels, each) for labels, each in values.items()]
            data = Gauge(points)
            if metric.kind is Kind.COUNTER:
                data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        return OtelMetric(name=metric.otel, description=metric.doc, unit=metric.unit, data=data)

    def _point(self, metric: Metric, labels: Labels, value: Value) -> NumberDataPoint:
        assert not isinstance(value, Histogram), "checked by its kind"
        attributes = attributes_of(metric, labels, self._names)
        return NumberDataPoint(attributes, self._start_ns, self._now_ns, value, [])

    def _distribution(self, metric: Metric, labels: Labels, value: Value) -> HistogramDataPoint:
        assert isinstance(value, Histogram), "checked by its kind"
        scale = metric.ms_per_unit
        low, high = sum(value.buckets[: _FIRST + 1]), sum(value.buckets[_LAST + 1 :])
        return HistogramDataPoint(
            attributes=attributes_of(metric, labels, self._names),
            start_time_unix_nano=self._start_ns,
            time_unix_nano=self._now_ns,
            count=value.count,
            sum=value.total / scale,
            bucket_counts=[low, *value.buckets[_FIRST + 1 : _LAST + 1], high],
            explicit_bounds=[bound / scale for bound in _BOUNDS],
            min=0.0,  # not known, and no less
            max=value.highest / scale,
            exemplars=[],
        )
