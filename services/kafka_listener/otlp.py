"""Decodes client metrics: OTLP MetricsData to flat numbers with labels. Pure.

Source: opentelemetry-proto metrics.proto; KIP-714 (delta sums count from the last push).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import InvalidRecordError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Bound: points of one push, and characters of a metric with its labels.
MAX_POINTS, MAX_NAME = 5_000, 500
_MAX_LABELS, _MAX_LABEL = 20, 200
_MAX_STEPS = 50_000  # Bound: empty resources, scopes and metrics cost two bytes each
_DELTA = 1  # AggregationTemporality


class Point(NamedTuple):
    """One number of one client, as `name{label="value",...}`; `is_delta`: to be added to the value before."""

    name: str
    value: float
    is_delta: bool


def points_of(data: bytes) -> list[Point]:
    """The first MAX_POINTS points. Errors: InvalidRecordError if `data` is not MetricsData."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    try:
        parsed = MetricsData.FromString(data)
    except DecodeError as error:
        raise InvalidRecordError(f"invalid OTLP metrics: {error}"[:300]) from None
    found = []
    for point in _points(parsed):
        if len(point.name) <= MAX_NAME and math.isfinite(point.value):
            found.append(point)
        if len(found) >= MAX_POINTS:
            break
    return found


def _points(parsed: Any) -> Iterator[Point]:
    steps = 0
    for resource in parsed.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                yield from _of_metric(metric)
                steps += 1
                if steps > _MAX_STEPS:
                    return
            steps += 1
        steps += 1
        if steps > _MAX_STEPS:
            return


def _of_metric(metric: Any) -> Iterator[Point]:
    kind = metric.WhichOneof("data")
    if kind in ("sum", "gauge"):
        part = getattr(metric, kind)
        is_delta = kind == "sum" and part.aggregation_temporality == _DELTA
        for point in part.data_points:
            value = point.as_double if point.WhichOneof("value") == "as_double" else point.as_int
            yield Point(_named(metric.name, point), float(value), is_delta)
    elif kind in ("histogram", "exponential_histogram"):
        part = getattr(metric, kind)
        is_delta = part.aggregation_temporality == _DELTA
        for point in part.data_points:
            yield Point(_named(f"{metric.name}.count", point), float(point.count), is_delta)
            yield Point(_named(f"{metric.name}.sum", point), float(point.sum), is_delta)


def _named(name: str, point: Any) -> str:
    labels = sorted(
        (each.key[:_MAX_LABEL], _text(each.value)[:_MAX_LABEL]) for each in point.attributes[:_MAX_LABELS]
    )
    if not labels:
        return name
    text = ",".join(f'{key}="{value}"' for key, value in labels)
    return f"{name}{{{text}}}"


def _text(value: Any) -> str:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return str(value.string_value)
    return str(getattr(value, kind)) if kind in ("int_value", "double_value", "bool_value") else ""
