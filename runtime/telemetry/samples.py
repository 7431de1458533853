"""The values of a server's metrics at one time. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .histogram import Histogram
from .metric import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .metric import Metric

Labels = tuple[str, ...]
Value = float | Histogram


class Samples:
    """Values by metric and labels. Gathered on the server's loop, read by exporters on other threads
    afterwards: nothing in it changes then, so histograms are copied."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[Metric, dict[Labels, Value]] = {}

    def series(self, metric: Metric) -> dict[Labels, Value]:
        """The values of a metric, to be filled."""
        held = self._values.get(metric)
        if held is None:
            held = self._values[metric] = {}
        return held

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """The value for these labels, in the order of their declaration."""
        self.series(metric)[labels] = value

    def add(self, metric: Metric, value: float, *labels: str) -> None:
        """Add to the value for these labels."""
        held = self.series(metric)
        before = held.get(labels, 0)
        assert not isinstance(before, Histogram), f"{metric} is no histogram"
        held[labels] = before + value

    def observe(self, metric: Metric, values: Histogram, *labels: str) -> None:
        """The present values of a histogram."""
        self.series(metric)[labels] = values.copy()

    def get(self, metric: Metric, *labels: str) -> Value | None:
        """The value, None without one."""
        return self._values.get(metric, {}).get(labels)

    def __len__(self) -> int:
        return sum(map(len, self._values.values()))

    def __iter__(self) -> Iterator[tuple[Metric, Mapping[Labels, Value]]]:
        return iter(self._values.items())

    def check(self) -> None:
        """Errors: ValueError for values that do not fit their declaration."""
        for metric, values in self:
            for labels, value in values.items():
                fits = len(labels) == len(metric.labels) or (metric.has_total and not labels)
                if not fits or isinstance(value, Histogram) != (metric.kind is Kind.HISTOGRAM):
                    raise ValueError(f"{metric} has labels {metric.labels}, not {labels}: {value}")

    def by_kafka_name(self, metrics: Iterable[Metric]) -> dict[str, Any]:
        """Values of `metrics` by Kafka's names, JSON-able, for the status of a server: those without labels,
        and by label those with one. Kafka's meters (in camel case) have their total as `count`."""
        found: dict[str, Any] = {}
        for metric in metrics:
            values = self._values.get(metric)
            if values is None:
                continue
            if () in values:
                found[metric.name] = _shown(metric, values[()])
            elif len(metric.labels) == 1:
                found[metric.name] = {labels[0]: _shown(metric, value) for labels, value in values.items()}
        return found


def _shown(metric: Metric, value: Value) -> Any:
    if isinstance(value, Histogram):
        return value.summary()
    is_meter = metric.kind is Kind.COUNTER and metric.name[0].isupper()
    return {"count": value} if is_meter else value
