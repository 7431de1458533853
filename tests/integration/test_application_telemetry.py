"""Metrics of an application: its clients, stream instance and pipelines, by Prometheus and OTLP."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headrace
import pyarrow
import pytest
from headrace import LocalCluster, int64, stream, utf8
from headrace.clients.pipeline import Planner, fetch_arrow, read_options, write_arrow, write_options
from headrace.protocol.errors import ConfigError
from headrace.runtime.telemetry.table import series_names
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from otlp_receiver import attributes_of, grpc_receiver
from prometheus_client.parser import text_string_to_metric_families
from waiting import wait_for


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with headrace.local() as running:
        yield running


def scraped(url: str | None) -> dict[str, list[Any]]:
    """Samples by name; all are declared."""
    with urllib.request.urlopen(url or "", timeout=30) as response:
        text = response.read().decode()
    found: dict[str, list[Any]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    assert found.keys() <= series_names()
    return found


def collected(reader: InMemoryMetricReader, name: str, topic: str) -> dict[str, Any]:
    """Values of a topic by partition, "" without one."""
    data = reader.get_metrics_data()
    return {
        point.attributes.get("partition", ""): point.value
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
        if metric.name == f"headrace.pipeline.{name}" and point.attributes["topic"] == topic
    }


def test_clients_and_streams_are_scraped(cluster: LocalCluster, tmp_path: Path) -> None:
    """A producer with its durations in seconds, and a stream instance: threads, tasks, nodes and stores."""
    with cluster.admin() as admin:
        admin.create_topics(headrace.NewTopic("words"), headrace.NewTopic("counts")).raise_for_errors()
    levels = {"metrics.recording.level": "DEBUG"}
    app = stream.App(
        "counting", key=utf8, value=utf8, state_dir=str(tmp_path), commit_interval_ms=50, config=levels
    )
    app.stream("words").group_by_key().count(store="seen").to_stream().to("counts", value=int64)
    with (
        cluster.producer(client_id="writer") as producer,
        app.instance(cluster.bootstrap) as instance,
        headrace.start_telemetry(producer, metrics_listener="127.0.0.1:0") as telemetry,
    ):
        telemetry.add(instance, instance)
        producer.send("words", b"v", key=b"k").result(60)

        def processed() -> list[Any]:
            name = "kafka_streams_stream_processor_node_metrics_process_total"
            nodes = scraped(telemetry.url).get(name, [])
            return [each for each in nodes if "SOURCE" in each.labels["processor_node_id"] and each.value]

        wait_for(processed, "the record is processed")
        found = scraped(telemetry.url)
        (sent,) = found["kafka_producer_producer_metrics_record_send_total"]
        assert (sent.labels, sent.value) == ({"client_id": "writer"}, 1)
        (seconds,) = found["messaging_client_operation_duration_seconds_sum"]
        assert (seconds.labels["operation"], seconds.labels["topic"]) == ("send", "words")
        assert seconds.value < 60
        (state,) = found["kafka_streams_stream_metrics_state"]
        assert (state.labels["state"], state.value) == ("RUNNING", 1)
        assert found["kafka_streams_stream_thread_metrics_process_total"][0].value >= 1
        assert {each.labels["task_id"] for each in found["kafka_streams_stream_task_metrics_process_total"]}
        puts = found["kafka_streams_stream_state_metrics_put_rate"]
        assert {(each.labels["store"], each.labels["store_type"]) for each in puts} == {("seen", "rocksdb")}
        assert found["process_resident_memory_bytes"][0].value > 10**6


def test_pipelines_are_collected_and_pushed(cluster: LocalCluster) -> None:
    """Rows and bytes of tasks, and the lag of a stream at its last plan: through the meter provider of the
    application, and by OTLP."""
    with cluster.admin() as admin:
        admin.create_topics(headrace.NewTopic("rows", partitions=2)).raise_for_errors()
    bootstrap = {"bootstrap": cluster.bootstrap}
    options = read_options({"subscribe": "rows", **bootstrap}, stream=True)
    planner = Planner(options)
    begin = planner.latest_offsets()
    where = pyarrow.array([0, 0, 1], pyarrow.int32())
    table = pyarrow.table({"value": [b"a", b"b", b"c"], "partition": where})
    write_arrow([table], write_options({"topic": "rows", **bootstrap}))
    end = planner.latest_offsets(begin)
    for each in planner.between(begin, end).ranges:
        assert sum(batch.num_rows for batch in fetch_arrow(each, options)) == each.size
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    headrace.export_metrics(headrace.pipelines, meter_provider=provider)
    for name, least in (("records_read", 3), ("records_written", 3), ("bytes_read", 3), ("bytes_written", 3)):
        value = collected(reader, name, "rows")[""]
        assert value == least if "records" in name else value > least
    assert collected(reader, "read_lag", "rows") == {"0": 2, "1": 1}
    provider.shutdown()
    planner.latest_offsets(end)
    push = {"metrics_otlp_enable": True, "metrics_otlp_interval_ms": 100}
    with grpc_receiver() as received:
        with headrace.start_telemetry(headrace.pipelines, otlp_endpoint=received.endpoint, **push):
            wait_for(lambda: received.requests, "a push")
        resource = received.resources()[0]
        assert resource["service.instance.id"].startswith("application-")
        assert resource["service.name"] != "headrace"
        lags = received.metrics(resource["service.instance.id"])["headrace.pipeline.read_lag"]
        points = [attributes_of(each) | {"": each.as_int} for each in lags.gauge.data_points]
        assert [each for each in points if each["topic"] == "rows"] == [
            {"topic": "rows", "partition": number, "": 0} for number in ("0", "1")
        ]


def test_other_objects_and_keys_are_refused() -> None:
    """Before anything listens."""
    with pytest.raises(TypeError, match="not of dict"):
        headrace.start_telemetry({}, metrics_listener="127.0.0.1:0")
    with pytest.raises(ConfigError, match=r"metrics\.listener must be host:port"):
        headrace.start_telemetry(metrics_listener="nowhere")
