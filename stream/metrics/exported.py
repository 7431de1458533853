"""The metrics of an instance as exporters take them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.telemetry.stream_table import STATE_NAME, STREAM_METRICS
from .names import STATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...runtime.telemetry.samples import Samples
    from .names import MetricName

_STORE_TAG = "-state-id"


def write_metrics(metrics: Mapping[MetricName, float | str], samples: Samples) -> None:
    """Add the values of `AppInstance.metrics`. Texts are left out, except states, which become labels."""
    for name, value in metrics.items():
        metric = STREAM_METRICS.get((name.group, name.name))
        if metric is None:
            continue
        labels = tuple(tag for _, tag in name.tags)
        if name.group == STATE:
            kind, store = name.tags[-1]
            labels = (*labels[:-1], kind.removesuffix(_STORE_TAG), store)
        if isinstance(value, str):
            if name.name == STATE_NAME:
                samples.set(metric, 1, *labels, value)
        else:
            samples.set(metric, value, *labels)
