"""Metrics pushed by OTLP, to receivers made of the official protobufs."""

import threading
import time

import headrace
import pytest
from headrace.protocol.errors import ConfigError
from headrace.runtime.telemetry_config import TelemetryConfig
from headrace.services.local_io import LocalCluster
from headrace.services.telemetry.otlp_io import interval_ms
from otlp_receiver import attributes_of, grpc_receiver, http_receiver
from waiting import wait_for

RECEIVERS = {"grpc": grpc_receiver, "http/protobuf": http_receiver}


def cluster_that_pushes(endpoint: str, protocol: str, interval: int = 100) -> LocalCluster:
    return headrace.local(
        metrics_otlp_enable=True,
        metrics_otlp_interval_ms=interval,
        otlp_endpoint=endpoint,
        otlp_protocol=protocol,
    )


def send(cluster: LocalCluster, count: int) -> None:
    with cluster.producer() as producer:
        for _ in range(count):
            producer.send("t", value=b"x")


@pytest.mark.parametrize("protocol", RECEIVERS)
def test_servers_push_their_metrics(protocol: str) -> None:
    """Node and controller, each as a resource; sums, gauges and histograms with their attributes."""
    with RECEIVERS[protocol]() as received, cluster_that_pushes(received.endpoint, protocol) as cluster:
        with cluster.admin() as admin:
            admin.create_topics(headrace.NewTopic("t")).raise_for_errors()
        send(cluster, 5)

        def sent() -> int:
            found = received.metrics("node-1").get("kafka.server.broker_topic_metrics.messages_in")
            points = found.sum.data_points if found else ()
            return sum(each.as_int for each in points if attributes_of(each) == {"topic": "t"})

        wait_for(lambda: sent() == 5, "the records are counted at the collector")
        metrics = received.metrics("node-1")
        times = metrics["kafka.network.request_metrics.total_time_ms"].histogram
        (produce,) = [each for each in times.data_points if attributes_of(each) == {"request": "Produce"}]
        assert produce.count >= 1
        assert sum(produce.bucket_counts) == produce.count
        assert len(produce.bucket_counts) == len(produce.explicit_bounds) + 1
        assert metrics["process.memory.usage"].gauge.data_points[0].as_int > 10**6
        wait_for(lambda: received.metrics("controller-1"), "the controller pushes, too")
        active = received.metrics("controller-1")["kafka.controller.kafka_controller.active_controller_count"]
        assert active.gauge.data_points[0].as_int == 1
        assert {each["service.name"] for each in received.resources()} == {"headrace"}


def test_a_collector_that_hangs_or_is_gone_costs_nothing_else() -> None:
    """One set of values waits for it; records are served, and the cluster stops in time."""
    with grpc_receiver() as received:
        received.gate.clear()
        cluster = cluster_that_pushes(received.endpoint, "grpc", interval=100)
        try:
            with cluster.admin() as admin:
                admin.create_topics(headrace.NewTopic("t")).raise_for_errors()
            wait_for(lambda: len(received.requests) >= 2, "both servers have begun a push")
            threads = threading.active_count()
            for _ in range(10):
                send(cluster, 100)
            assert len(received.requests) == 2, "nothing more is sent to a collector that hangs"
            assert threading.active_count() <= threads + 2
            began_s = time.monotonic()
        finally:
            cluster.close()
        assert time.monotonic() - began_s < 20
    gone = cluster_that_pushes("http://127.0.0.1:9", "http/protobuf", interval=100)
    try:
        wait_for(
            lambda: gone.status()["nodes"][0]["telemetry"]["otlp"]["failures"], "the failed push is counted"
        )
    finally:
        gone.close()


def test_the_interval_is_of_the_key_or_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """OTEL_METRIC_EXPORT_INTERVAL counts if the key is not set."""
    assert interval_ms(TelemetryConfig()) == 60_000
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1500")
    assert interval_ms(TelemetryConfig()) == 1_500
    assert interval_ms(TelemetryConfig.of({"metrics.otlp.interval.ms": 700})) == 700
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "soon")
    with pytest.raises(ConfigError, match="OTEL_METRIC_EXPORT_INTERVAL must be a number"):
        interval_ms(TelemetryConfig())
