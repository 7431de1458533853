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

from ...runtime.telemetry.histogram import Histogram, bound_ms
from ...runtime.telemetry.metric import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.resources import Resource

    from ...runtime.telemetry.metric import Metric
    from ...runtime.telemetry.samples import Labels, Samples, Value

_SCOPE = InstrumentationScope("headrace")
_FIRST, _LAST = 6, 26  # the published buckets, as for Prometheus
_BOUNDS = tuple(bound_ms(number) for number in range(_FIRST, _LAST + 1))


def metrics_data(samples: Samples, resource: Resource, start_ns: int, now_ns: int) -> MetricsData:
    """All samples; counters and histograms are cumulative since `start_ns`."""
    metrics = [_metric(metric, values, start_ns, now_ns) for metric, values in samples if values]
    scope = ScopeMetrics(scope=_SCOPE, metrics=metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource=resource, scope_metrics=[scope], schema_url="")])


def _metric(metric: Metric, values: Mapping[Labels, Value], start_ns: int, now_ns: int) -> OtelMetric:
    data: Sum | Gauge | OtelHistogram
    if metric.kind is Kind.HISTOGRAM:
        data = OtelHistogram(
            [_distribution(metric, labels, each, start_ns, now_ns) for labels, each in values.items()],
            AggregationTemporality.CUMULATIVE,
        )
    else:
        points = [_point(metric, labels, each, start_ns, now_ns) for labels, each in values.items()]
        is_counter = metric.kind is Kind.COUNTER
        data = (
            Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True) if is_counter else Gauge(points)
        )
    return OtelMetric(name=metric.otel, description=metric.doc, unit=metric.unit, data=data)


def _point(metric: Metric, labels: Labels, value: Value, start_ns: int, now_ns: int) -> NumberDataPoint:
    assert not isinstance(value, Histogram), "checked by its kind"
    attributes = dict(zip(metric.labels, labels, strict=False))
    return NumberDataPoint(attributes, start_ns, now_ns, value, [])


def _distribution(
    metric: Metric, labels: Labels, value: Value, start_ns: int, now_ns: int
) -> HistogramDataPoint:
    assert isinstance(value, Histogram), "checked by its kind"
    low, high = sum(value.buckets[: _FIRST + 1]), sum(value.buckets[_LAST + 1 :])
    return HistogramDataPoint(
        attributes=dict(zip(metric.labels, labels, strict=False)),
        start_time_unix_nano=start_ns,
        time_unix_nano=now_ns,
        count=value.count,
        sum=value.total,
        bucket_counts=[low, *value.buckets[_FIRST + 1 : _LAST + 1], high],
        explicit_bounds=_BOUNDS,
        min=0.0,  # not known, and no less
        max=value.highest,
        exemplars=[],
    )
