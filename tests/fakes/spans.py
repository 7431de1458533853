"""The tracer provider of the test process, which keeps ended spans in memory. OpenTelemetry allows one."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler
from waiting import wait_for


@cache
def _provider() -> tuple[TracerProvider, InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider, exporter


def application_tracer() -> trace.Tracer:
    """A tracer of the application that uses headrace."""
    return _provider()[0].get_tracer("application")


def provider_with(sampler: Sampler) -> tuple[TracerProvider, InMemorySpanExporter]:
    """A provider that is not that of the process."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(sampler=sampler)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def spans_of(trace_id: int) -> list[ReadableSpan]:
    """The ended spans of one trace, in the order of their ends."""
    return [span for span in _provider()[1].get_finished_spans() if span.context.trace_id == trace_id]


def wait_for_spans(trace_id: int, *names: str) -> dict[str, list[ReadableSpan]]:
    """The ended spans of a trace by name, once it has one of each name."""
    wait_for(
        lambda: {*names} <= {span.name for span in spans_of(trace_id)},
        f"spans {names}",
        evidence=lambda: repr([span.name for span in spans_of(trace_id)]),
    )
    found: dict[str, list[ReadableSpan]] = {}
    for span in spans_of(trace_id):
        found.setdefault(span.name, []).append(span)
    return found


def is_connected(spans: Sequence[ReadableSpan]) -> bool:
    """Whether exactly one span has no parent among them, directly or over others."""
    ids = {span.context.span_id for span in spans}
    roots = [span for span in spans if span.parent is None or span.parent.span_id not in ids]
    return len(roots) == 1


def trace_id_in(headers: Any) -> int:
    """The trace id in the `traceparent` among the headers of a record."""
    (value,) = [value for name, value in headers if name == "traceparent"]
    return int(value.split(b"-")[1], 16)
