"""Samples in Prometheus' text format and in OpenMetrics. Pure.

Own code instead of the client library's: a node with thousands of partitions has tens of thousands of lines
per scrape, and the interpreter serves no requests while they are made (measured: docs/adr/0051). Tests read
the text with the library's parsers and with promtool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .histogram import Histogram, bound_ms
from .metric import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .metric import Metric
    from .samples import Labels, Samples, Value

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
# The published buckets: from 0.064 ms to about 67 s.
_FIRST, _LAST = 6, 26
_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
# Lines per piece: the thread that makes them lets others run in between.
PIECE_LINES = 1_000


def wants_open_metrics(accept: str) -> bool:
    """Whether the Accept header of a scrape asks for OpenMetrics 1.0."""
    for part in accept.split(","):
        kind, *parameters = (each.strip() for each in part.split(";"))
        is_refused = any(each.replace(" ", "") in ("q=0", "q=0.0") for each in parameters)
        if kind == "application/openmetrics-text" and not is_refused:
            versions = [each.partition("=")[2] for each in parameters if each.startswith("version")]
            return not versions or "1.0.0" in versions
    return False


def text_pieces(samples: Samples, *, is_open_metrics: bool) -> Iterator[str]:
    """The exposition in pieces of about PIECE_LINES lines."""
    lines: list[str] = []
    for metric, values in sorted(samples, key=lambda pair: pair[0].prometheus):
        name = metric.prometheus
        family = name.removesuffix("_total") if is_open_metrics and metric.kind is Kind.COUNTER else name
        lines.append(f"# HELP {family} {_help(metric.doc, is_open_metrics=is_open_metrics)}\n")
        lines.append(f"# TYPE {family} {metric.kind.value}\n")
        for line in _lines(metric, name, values):
            lines.append(line)
            if len(lines) >= PIECE_LINES:
                yield "".join(lines)
                lines.clear()
    if is_open_metrics:
        lines.append("# EOF\n")
    yield "".join(lines)


def _help(doc: str, *, is_open_metrics: bool) -> str:
    escaped = doc.replace("\\", r"\\").replace("\n", r"\n")
    return escaped.replace('"', r"\"") if is_open_metrics else escaped


def _lines(metric: Metric, name: str, values: Mapping[Labels, Value]) -> Iterable[str]:
    if metric.kind is Kind.HISTOGRAM:
        return _histogram_lines(metric, name, values)
    prefixes = [f'{label}="' for label in metric.labels]
    return _plain_lines(name, prefixes, values)


def _plain_lines(name: str, prefixes: list[str], values: Mapping[Labels, Value]) -> Iterator[str]:
    for labels, value in values.items():
        if labels:
            yield f"{name}{{{_pairs(prefixes, labels)}}} {value}\n"
        else:
            yield f"{name} {value}\n"


def _histogram_lines(metric: Metric, name: str, values: Mapping[Labels, Value]) -> Iterator[str]:
    prefixes = [f'{label}="' for label in metric.labels]
    scale = metric.ms_per_unit
    for labels, found in values.items():
        assert isinstance(found, Histogram), "checked by Samples"
        pairs = _pairs(prefixes, labels)
        behind, alone = (f"{pairs},", f"{{{pairs}}}") if pairs else ("", "")
        seen = sum(found.buckets[:_FIRST])
        for number in range(_FIRST, _LAST + 1):
            seen += found.buckets[number]
            yield f'{name}_bucket{{{behind}le="{bound_ms(number) / scale}"}} {seen}\n'
        yield f'{name}_bucket{{{behind}le="+Inf"}} {found.count}\n'
        yield f"{name}_sum{alone} {found.total / scale}\n"
        yield f"{name}_count{alone} {found.count}\n"


def _pairs(prefixes: list[str], labels: Labels) -> str:
    return ",".join([f'{prefix}{_safe(label)}"' for prefix, label in zip(prefixes, labels, strict=False)])


def _safe(label: str) -> str:
    return label if label.isalnum() else label.translate(_ESCAPED)
