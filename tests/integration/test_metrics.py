"""Metrics of a cluster, scraped by the real Prometheus."""

import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headrace
import pytest
from headrace.runtime.telemetry.table import series_names
from headrace.services.local_io import LocalCluster
from prometheus_server import prometheus
from waiting import wait_for

RECORDS = 500


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two nodes and a controller, each with an endpoint, and a topic with records."""
    listen = {"metrics_listener": "127.0.0.1:0", "controller_metrics_listener": "127.0.0.1:0"}
    with headrace.local(nodes=2, listeners="PLAINTEXT://127.0.0.1:0", **listen) as made:
        with made.admin() as admin:
            topic = headrace.NewTopic("t", partitions=2, replication_factor=2)
            admin.create_topics(topic).raise_for_errors()
        with made.producer() as producer:
            for number in range(RECORDS):
                producer.send("t", value=b"x" * 100, partition=number % 2)
        with made.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
            seen = 0
            while seen < RECORDS:
                seen += len(consumer.poll(10))
            consumer.commit()
        yield made


def urls(cluster: LocalCluster) -> dict[str, list[str]]:
    """The endpoints of nodes and controllers."""
    status = cluster.status()
    return {
        job: [each["telemetry"]["prometheus"] for each in status[job]] for job in ("nodes", "controllers")
    }


def text_of(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def test_prometheus_scrapes_nodes_and_controllers(cluster: LocalCluster, tmp_path: Path) -> None:
    """Its query API returns what the cluster did, in the names of Kafka's metrics."""
    jobs: Any = urls(cluster)
    with prometheus(tmp_path / "prometheus", jobs) as server:
        server.wait_for("sum(up) == 3", "all servers are scraped")
        server.wait_for("sum(kafka_controller_kafkacontroller_activecontrollercount) == 1", "a controller")
        sent = 'sum(kafka_server_brokertopicmetrics_messagesin_total{topic="t"})'
        assert server.value(sent) == RECORDS
        assert server.value("sum(kafka_server_replicamanager_leadercount)") == server.value(
            "sum(kafka_controller_kafkacontroller_globalpartitioncount)"
        )
        assert server.value('sum(kafka_log_log_logendoffset{topic="t"})') == 2 * RECORDS, "on two replicas"
        assert server.value("sum(kafka_server_group_coordinator_metrics_offset_commit_total)")
        assert server.value('sum(kafka_server_group_coordinator_metrics_group_count{protocol="classic"})')
        slowest = (
            "histogram_quantile(0.99, sum by (le)"
            ' (kafka_network_requestmetrics_totaltimems_bucket{request="Produce"}))'
        )
        assert 0 < (server.value(slowest) or 0) < 60_000
        assert server.value('min(kafka_server_raft_metrics_current_state{state="leader"})') == 1
        assert server.value("min(headrace_log_manager_disk_free_bytes)")
        wait_for(
            lambda: server.query('rate(process_cpu_seconds_total{job="nodes"}[2s]) > 0'),
            "rates of counters",
            evidence=server.evidence,
        )


def test_all_series_are_declared_and_legal(cluster: LocalCluster) -> None:
    """What a server exports is in the table, which docs/METRICS.md shows; promtool can read it."""
    for url in [each for group in urls(cluster).values() for each in group]:
        text = text_of(url)
        names = {line.partition("{")[0].partition(" ")[0] for line in text.splitlines() if line[0] != "#"}
        assert names <= series_names()
        done = subprocess.run(
            ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=30
        )
        advice = (done.stdout + done.stderr).splitlines()
        assert all(line.startswith("kafka_") for line in advice if line), advice


def test_ports_are_kept_over_a_restart(cluster: LocalCluster) -> None:
    """Prometheus' configuration names them."""
    before = urls(cluster)
    cluster.restart_node(0)
    cluster.restart_controller()
    assert urls(cluster) == before
    assert "kafka_server_replicamanager_partitioncount" in text_of(before["nodes"][0])


def test_an_endpoint_is_off_by_default() -> None:
    with headrace.local() as made:
        assert made.status()["nodes"][0]["telemetry"] == {}


def test_a_port_in_use_is_named(cluster: LocalCluster) -> None:
    """The server does not start without the endpoint that was asked for."""
    taken = urls(cluster)["nodes"][0].split("/")[2]
    with pytest.raises(OSError, match=r"the metrics of node 1: .*in use"):
        headrace.local(metrics_listener=taken)


def test_flushes_are_timed() -> None:
    """With durability=fsync each acknowledged batch waits for a flush of its log."""
    with headrace.local(log_durability="fsync") as made, made.admin() as admin, made.producer() as producer:
        admin.create_topics(headrace.NewTopic("t")).raise_for_errors()
        producer.send("t", b"x").result(60)
        times = made.status()["nodes"][0]["metrics"]["LogFlushRateAndTimeMs"]
    assert times["count"] >= 1
    assert 0 < times["mean"] <= times["max"]
