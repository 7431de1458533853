"""Names of metrics for exporters, and the laws of the declared table."""

import re

from headrace.runtime.telemetry.metric import Kind, counter, gauge, histogram
from headrace.runtime.telemetry.table import ALL_METRICS, BY_PROMETHEUS_NAME, series_names


def test_prometheus_names_are_those_of_the_jmx_exporter() -> None:
    """As its example rules for Kafka make them: dashboards for Kafka find the metrics."""
    cases = {
        gauge("kafka.server", "ReplicaManager", "UnderReplicatedPartitions", ""): (
            "kafka_server_replicamanager_underreplicatedpartitions"
        ),
        counter("kafka.server", "BrokerTopicMetrics", "MessagesInPerSec", "", labels=("topic",)): (
            "kafka_server_brokertopicmetrics_messagesin_total"
        ),
        gauge("kafka.server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent", ""): (
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"
        ),
        histogram("kafka.network", "RequestMetrics", "TotalTimeMs", "", labels=("request",)): (
            "kafka_network_requestmetrics_totaltimems"
        ),
        gauge("kafka.server", "raft-metrics", "current-epoch", ""): "kafka_server_raft_metrics_current_epoch",
        counter("headrace", "EventLoop", "StallsPerSec", ""): "headrace_event_loop_stalls_total",
    }
    assert {metric.prometheus: name for metric, name in cases.items()} == {
        name: name for name in cases.values()
    }


def test_opentelemetry_names_are_words() -> None:
    """Of the semantic convention, if there is one."""
    metric = counter("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", "")
    assert metric.otel == "kafka.server.broker_topic_metrics.bytes_in"
    assert counter("p", "", "cpu", "", otel_name="process.cpu.time").otel == "process.cpu.time"


def test_the_table_is_consistent() -> None:
    """Legal and unique names in each system, a meaning in one sentence, and an identity for JMX tools."""
    otel = [metric.otel for metric in ALL_METRICS]
    assert len(set(otel)) == len(otel)
    beans = [metric.mbean for metric in ALL_METRICS]
    assert len(set(beans)) == len(beans)
    for name, metric in BY_PROMETHEUS_NAME.items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name), name
        assert re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+", metric.otel), metric.otel
        assert metric.doc.endswith("."), name
        assert name.endswith("_total") == (metric.kind is Kind.COUNTER), name
        assert all(re.fullmatch(r"[a-z][a-zA-Z_]*", label) for label in metric.labels), name
        assert metric.labels or not metric.has_total, name


def test_a_histogram_has_three_series() -> None:
    names = series_names()
    assert "kafka_network_requestmetrics_totaltimems_bucket" in names
    assert "kafka_network_requestmetrics_totaltimems" not in names
    assert "kafka_server_replicamanager_partitioncount" in names
