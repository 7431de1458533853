"""Roots are chosen as the sampler would, without asking it for each record."""

import random

import pytest
from headrace.runtime.tracing.sdk_io import RootTracer, shown_key
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler, TraceIdRatioBased
from spans import provider_with


@pytest.mark.parametrize(
    ("sampler", "least", "most"),
    [
        (ParentBased(TraceIdRatioBased(0.02)), 300, 500),
        (TraceIdRatioBased(1.0), 20_000, 20_000),
        (ParentBased(TraceIdRatioBased(0)), 0, 0),
    ],
)
def test_ratio_is_drawn_and_the_sampler_agrees(sampler: Sampler, least: int, most: int) -> None:
    """Each span that is due is sampled by the SDK's own sampler, at about the ratio."""
    random.seed(1)
    provider, exporter = provider_with(sampler)
    roots = RootTracer(provider)
    for _ in range(20_000):
        if roots.is_due():
            roots.tracer.start_span("x").end()
    spans = exporter.get_finished_spans()
    assert least <= len(spans) <= most
    assert len({span.context.trace_id for span in spans}) == len(spans)


@pytest.mark.parametrize(("sampler", "count"), [(ALWAYS_ON, 5), (ALWAYS_OFF, 0)])
def test_other_samplers_are_asked(sampler: Sampler, count: int) -> None:
    """Every root is due, and they decide."""
    provider, exporter = provider_with(sampler)
    roots = RootTracer(provider)
    for _ in range(5):
        assert roots.is_due()
        roots.tracer.start_span("x").end()
    assert len(exporter.get_finished_spans()) == count


def test_keys_are_shown_as_short_text() -> None:
    """Any bytes."""
    assert shown_key(b"\xff\x00a") == "\\xff\x00a"
    assert shown_key("k" * 300) == "k" * 256
    assert shown_key(None) is None
