"""The metrics that an expression of Prometheus names, and their labels."""

import re

from headrace.runtime.telemetry.metric import Kind
from headrace.runtime.telemetry.table import BY_PROMETHEUS_NAME

FUNCTIONS = {
    "histogram_quantile",
    "predict_linear",
    "min_over_time",
    "max_over_time",
    "count_over_time",
    "label_replace",
}


def metrics_in(expression: str) -> set[str]:
    """Their names, without those of labels and functions."""
    without = re.sub(r'\{[^}]*\}|"[^"]*"|\[[^\]]*\]', " ", expression)
    without = re.sub(r"\b(by|on|group_right|group_left|without)\s*(\([^)]*\))?", " ", without)
    found = set(re.findall(r"[a-z_:][a-z0-9_:]*", without))
    return {name for name in found if "_" in name and name not in FUNCTIONS}


OF_SCRAPES = {"cluster", "instance", "job"}  # labels that Prometheus adds to all series


def labels_of(series: str) -> set[str]:
    """Those that a server writes; empty for a name that no metric has."""
    for name, metric in BY_PROMETHEUS_NAME.items():
        if series.removeprefix(name) in ("", "_bucket", "_sum", "_count") and series.startswith(name):
            return {*metric.labels, "le"} if metric.kind is Kind.HISTOGRAM else set(metric.labels)
    return set()


def unknown_labels(expression: str, legend: str = "") -> set[str]:
    """Labels of selectors, of `by`, `on` and `without`, and of a Grafana legend, that no series there has."""
    found = set()
    for series, selectors in re.findall(r"([a-z_:][a-z0-9_:]*)\{([^}]*)\}", expression):
        named = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", selectors))
        found |= named - labels_of(series) - OF_SCRAPES
    known = OF_SCRAPES.union(*(labels_of(series) for series in metrics_in(expression)))
    without_values = re.sub(r'"[^"]*"', " ", expression)
    for listed in re.findall(r"\b(?:by|on|without)\s*\(([^)]*)\)", without_values):
        found |= {label.strip() for label in listed.split(",")} - known
    return found | set(re.findall(r"\{\{(\w+)\}\}", legend)) - known
