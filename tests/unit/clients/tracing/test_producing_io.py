"""Which records of a producer are traced, and what that costs the others."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow
import pytest
from fake_cluster import FakeCluster
from headrace.clients.sync.cluster_io import Cluster
from headrace.clients.tracing import enabling_io
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, Sampler, TraceIdRatioBased
from spans import provider_with

ON = {"enable_tracing": True, "linger_ms": 1000}
OFF_CODE = """
import sys, headrace
with headrace.local() as cluster:
    cluster.admin().create_topics(headrace.NewTopic("t"))
    cluster.producer().send("t", b"v", headers={"traceparent": "x"}).result()
    with cluster.consumer("t", auto_offset_reset="earliest") as consumer:
        for record in consumer:
            break
print(*[name for name in sys.modules if name.split(".")[0] == "opentelemetry"])
"""


@pytest.fixture
def sampled_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sampler], tuple[TracerProvider, Any]]:
    """Sets the sampler of the provider that clients find; gives the provider, and its exporter."""

    def use(sampler: Sampler) -> tuple[TracerProvider, Any]:
        provider, exporter = provider_with(sampler)
        monkeypatch.setattr(enabling_io, "_provider", lambda: provider)
        return provider, exporter

    return use


def slow_calls(producer: Any) -> list[Any]:
    """Counts the records that do not take the compiled path, from now on."""
    calls: list[Any] = []
    send = producer._send_any._send

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return send(*args, **kwargs)

    producer._send_any._send = counted
    return calls


def headers_in(fake: FakeCluster) -> list[Any]:
    parts = fake.topics["t"].partitions
    return [record.headers for part in parts for record in part.records()]


def ended(exporter: InMemorySpanExporter) -> tuple[ReadableSpan, ...]:
    return exporter.get_finished_spans()


def test_unsampled_records_take_the_compiled_path(
    fake: FakeCluster, cluster: Cluster, sampled_by: Callable[[Sampler], Any]
) -> None:
    """Also below a span that is not sampled. In Python: a new batch, one that grows, and a new context."""
    provider, exporter = sampled_by(ParentBased(TraceIdRatioBased(0)))
    producer = cluster.producer(**ON)
    calls = slow_calls(producer)
    for _ in range(500):
        producer.send("t", b"v", partition=0)
    with provider.get_tracer("application").start_as_current_span("unsampled"):
        for _ in range(500):
            producer.send("t", b"v", partition=0)
    assert len(calls) < 10
    producer.flush(60)
    assert headers_in(fake) == [()] * 1000
    assert not ended(exporter)


def test_sampler_decides_once_for_each_batch(
    fake: FakeCluster, cluster: Cluster, sampled_by: Callable[[Sampler], Any]
) -> None:
    """The first record of all, then one for each batch; its span has the outcome."""
    _, exporter = sampled_by(ParentBased(TraceIdRatioBased(1.0)))
    producer = cluster.producer(**ON)
    calls = slow_calls(producer)
    for _ in range(3):
        for _ in range(100):
            producer.send("t", b"v", partition=1)
        producer.flush(60)
    assert len(calls) <= 7
    traced = [index for index, headers in enumerate(headers_in(fake)) if headers]
    assert traced[0] == 0
    assert 3 <= len(traced) <= 4
    offsets = [(span.attributes or {})["messaging.kafka.offset"] for span in ended(exporter)]
    assert offsets == traced


@pytest.mark.parametrize(
    ("facts", "value"),
    [({"tracing_sampling_unit": "record"}, b"v"), ({}, b"v"), ({"value": str.encode}, "v")],
)
def test_records_below_a_sampled_span_are_traced_each(
    fake: FakeCluster, cluster: Cluster, sampled_by: Callable[[Sampler], Any], facts: Any, value: Any
) -> None:
    """The decision of the application's span holds for each record, with every setting and any serde."""
    provider, exporter = sampled_by(ALWAYS_ON)
    producer: Any = cluster.producer(**ON, **facts)
    with provider.get_tracer("application").start_as_current_span("request") as request:
        for _ in range(10):
            producer.send("t", value, key=b"k", headers={"own": b"1", "tracestate": "stale=1"})
    producer.flush(60)
    assert len(ended(exporter)) == 11
    assert {span.context.trace_id for span in ended(exporter)} == {request.get_span_context().trace_id}
    for headers in headers_in(fake):
        assert [name for name, _ in headers] == ["own", "traceparent"]


def test_each_record_is_a_unit_if_so_configured(
    fake: FakeCluster, cluster: Cluster, sampled_by: Callable[[Sampler], Any]
) -> None:
    """The sampler decides on each."""
    _, exporter = sampled_by(ALWAYS_ON)
    producer = cluster.producer(**ON, tracing_sampling_unit="record", tracing_message_keys=True)
    for number in range(10):
        producer.send("t", b"v", key=b"k%d" % number, partition=0)
    producer.flush(60)
    keys = [(span.attributes or {})["messaging.kafka.message.key"] for span in ended(exporter)]
    assert keys == [f"k{number}" for number in range(10)]


def test_calls_for_many_records_have_one_span(
    fake: FakeCluster, cluster: Cluster, sampled_by: Callable[[Sampler], Any]
) -> None:
    """The first record has the context."""
    _, exporter = sampled_by(ALWAYS_ON)
    producer = cluster.producer(**ON)
    producer.send_many("t", iter([b"a", b"b", b"c"]))
    producer.send_arrow("t", pyarrow.table({"value": [b"x"] * 7}))
    producer.flush(60)
    counts = [(span.attributes or {})["messaging.batch.message_count"] for span in ended(exporter)]
    assert sorted(counts) == [3, 7]
    assert sum(bool(headers) for headers in headers_in(fake)) == 1


def test_failed_record_ends_its_span_with_the_error(
    cluster: Cluster, sampled_by: Callable[[Sampler], Any]
) -> None:
    """Before it is in a batch."""
    _, exporter = sampled_by(ALWAYS_ON)
    producer = cluster.producer(**ON, max_request_size=1000)
    with pytest.raises(Exception, match="does not fit"):
        producer.send("t", b"v" * 2000)
    (span,) = ended(exporter)
    assert not span.status.is_ok
    assert (span.attributes or {})["error.type"] == "MessageTooLargeError"


def test_off_imports_nothing() -> None:
    """Neither clients nor servers, also not for records with such a header."""
    done = subprocess.run([sys.executable, "-c", OFF_CODE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
