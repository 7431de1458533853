"""A broken SDK of the application: its errors are logged, and records go on as without tracing."""

import logging
from typing import Any

import pytest
from fake_cluster import FakeCluster
from headrace.clients.sync.cluster_io import Cluster
from headrace.clients.tracing import enabling_io
from headrace.runtime.limited_log_io import LimitedLog
from headrace.runtime.tracing import guard_io
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler
from spans import provider_with

CONTEXT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class BrokenSampler(Sampler):
    def should_sample(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("sampler")

    def get_description(self) -> str:
        return "broken"


class BrokenProcessor(SpanProcessor):
    def on_end(self, span: Any) -> None:
        raise RuntimeError("processor")


@pytest.mark.parametrize("is_sampler", [True, False])
def test_errors_of_the_sdk_do_not_reach_records(
    fake: FakeCluster,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_sampler: bool,
) -> None:
    """send, send_many, poll, iteration and process_span."""
    provider, _ = provider_with(BrokenSampler() if is_sampler else ALWAYS_ON)
    provider.add_span_processor(BrokenProcessor())
    monkeypatch.setattr(enabling_io, "_provider", lambda: provider)
    monkeypatch.setattr(guard_io, "_log", LimitedLog(logging.getLogger("headrace.tracing")))
    with caplog.at_level(logging.WARNING, "headrace.tracing"):
        producer = cluster.producer(enable_tracing=True, tracing_sampling_unit="record")
        producer.send("t", b"1", headers={"traceparent": CONTEXT}, partition=0).result(60)
        producer.send("t", b"2", partition=0).result(60)
        producer.send_many("t", [b"3"]).results(60)
        consumer = cluster.consumer("t", auto_offset_reset="earliest", enable_tracing=True)
        (record, *_) = consumer.poll(60)
        with consumer.process_span(record):
            assert record.value == b"1"
        consumer.seek_to_beginning()
        assert [record.value for _, record in zip(range(3), consumer, strict=False)][:2] == [b"1", b"2"]
    wanted = "sampler" if is_sampler else "processor"
    assert any(wanted in line.getMessage() for line in caplog.records)
