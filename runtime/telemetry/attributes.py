"""The labels of a metric as attributes of OpenTelemetry. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..tracing.names import AttributeValue, Names
    from .metric import Metric
    from .samples import Labels

_CONVENTION = "messaging."


def attributes_of(metric: Metric, labels: Labels, names: Names) -> dict[str, AttributeValue]:
    """By the names of the semantic conventions where there are such; labels that are empty are left out."""
    found: dict[str, AttributeValue] = {
        name: value for name, value in zip(metric.attributes or metric.labels, labels, strict=False) if value
    }
    found.update(metric.constants)
    if metric.otel.startswith(_CONVENTION):
        found.update(names.attributes({"system": "kafka"}))
    return found
