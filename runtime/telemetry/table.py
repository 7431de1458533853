"""The one table of all metrics. Pure.

docs/METRICS.md is made from it; alert rules and dashboards may name its metrics only (`tests/tidy`).
"""

from __future__ import annotations

from .client_table import CLIENT_METRICS, PIPELINE_METRICS
from .controller_table import CONTROLLER_METRICS
from .coordinator_table import COORDINATOR_METRICS
from .metric import Kind, Metric
from .node_table import NODE_METRICS
from .process_table import SERVER_METRICS
from .stream_table import STREAM_METRICS

SECTIONS: tuple[tuple[str, str, tuple[Metric, ...]], ...] = (
    ("All servers", "Of storage nodes and controllers.", SERVER_METRICS),
    ("Storage nodes", "", NODE_METRICS),
    (
        "Coordinators",
        "Of storage nodes, about the groups and transactions that they coordinate.",
        COORDINATOR_METRICS,
    ),
    ("Controllers", "", CONTROLLER_METRICS),
    ("Producers and consumers", "Of applications, see [CLIENTS.md](CLIENTS.md).", CLIENT_METRICS),
    (
        "Streams",
        "Of `headrace.stream` applications; which ones exist depends on `metrics.recording.level`.",
        tuple(STREAM_METRICS.values()),
    ),
    ("Pipelines", "Of processes with tasks or drivers of Spark and Ray Data.", PIPELINE_METRICS),
)
ALL_METRICS = tuple(metric for _, _, metrics in SECTIONS for metric in metrics)
BY_PROMETHEUS_NAME = {metric.prometheus: metric for metric in ALL_METRICS}
assert len(BY_PROMETHEUS_NAME) == len(ALL_METRICS), "two metrics have the same name"


def series_names() -> frozenset[str]:
    """The names that samples have: a histogram has three."""
    found: set[str] = set()
    for name, metric in BY_PROMETHEUS_NAME.items():
        endings = ("_bucket", "_sum", "_count") if metric.kind is Kind.HISTOGRAM else ("",)
        found.update(name + ending for ending in endings)
    return frozenset(found)
