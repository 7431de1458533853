"""Metrics that a Java client pushes, requested by Kafka's own tool; Kafka itself needs a plugin for them."""

import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import headrace
import kafka_oracle
import pytest
from beside.java_io import JavaTools
from headrace.runtime.waiting_io import until
from headrace.services.local_io import LocalCluster

WAIT_S = 60.0
TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    kafka_oracle.require()
    with headrace.local(listeners="PLAINTEXT://127.0.0.1:0") as running:
        yield running
        assert [node["kafka"]["broken"] for node in running.status()["nodes"]] == [0]


@pytest.fixture
def tool(cluster: LocalCluster, java_tools: JavaTools) -> Callable[..., str]:
    """`tool(*arguments)`: what kafka-client-metrics.sh prints."""
    where = ("--bootstrap-server", cluster.kafka_bootstrap)
    return partial(java_tools.output, f"{TOOLS}.ClientMetricsCommand", *where)


def test_java_producer_pushes_its_metrics(cluster: LocalCluster, tool: Callable[..., str]) -> None:
    """As requested by kafka-client-metrics.sh; the last push is sent at its end."""
    wanted = "org.apache.kafka.producer.record.send"
    tool("--alter", "--name", "java", "--metrics", wanted, "--interval", "200",
         "--match", "client_software_name=apache-kafka-java")  # fmt: skip
    assert tool("--list").split() == ["java"]
    described = tool("--describe", "--name", "java")
    assert "interval.ms=200" in described
    assert f"metrics={wanted}" in described
    props = f"bootstrap.servers={cluster.kafka_bootstrap}"
    perf = ["--topic", "t", "--num-records", "1000000", "--record-size", "10", "--throughput", "500"]
    producer = subprocess.Popen(
        ["java", *kafka_oracle.JVM, "-cp", kafka_oracle.classpath(), f"{TOOLS}.ProducerPerformance", *perf,
         "--producer-props", props, "client.id=metered"],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:

        def totals() -> list[Any]:
            clients = cluster.status()["nodes"][0]["kafka"]["client_metrics"]["clients"].values()
            return [
                each["metrics"].get(f"{wanted}.total", 0) for each in clients if each["plugin-export"] > 2
            ]

        until(lambda: any(totals()), WAIT_S)
        (client,) = cluster.status()["nodes"][0]["kafka"]["client_metrics"]["clients"].values()
    finally:
        producer.terminate()
        producer.wait()
    assert client["client_id"] == "metered"
    assert (client["throttle"], client["plugin-error"]) == (0, 0)
    assert all(name.startswith(wanted) for name in client["metrics"])
    tool("--delete", "--name", "java")
    assert tool("--list").split() == []
