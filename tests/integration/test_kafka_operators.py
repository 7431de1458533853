"""What operators set for Kafka's clients, seen by real ones: metrics that they push."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import headrace
import pytest
from headrace.clients.admin.admin_types import Resource
from headrace.runtime.waiting_io import until
from headrace.services.cli.main import run
from kafka_clients import WAIT_S, confluent_producer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.services.local_io import LocalCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One node."""
    with headrace.local(listeners="PLAINTEXT://127.0.0.1:0") as made:
        yield made
        assert [node["kafka"]["broken"] for node in made.status()["nodes"]] == [0]


@pytest.fixture
def cli(cluster: LocalCluster, capfd: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs a command in this process; what it printed, as JSON if it is that."""

    def call(*arguments: str) -> Any:
        code = run(["-b", cluster.bootstrap, *arguments])
        out, err = capfd.readouterr()
        assert code == 0, err
        return json.loads(out) if "json" in arguments else out

    return call


def test_librdkafka_pushes_its_metrics(cluster: LocalCluster, cli: Callable[..., Any]) -> None:
    """What a subscription asks for is shown by the node, with the client's name; it ends with the client."""
    cli("client-metrics", "alter", "--name", "sub", "--metrics", "*", "--interval", "100",
        "--match", "client_id=metered.*")  # fmt: skip
    assert cli("client-metrics", "list", "-o", "json") == [{"name": "sub"}]
    described = {"name": "sub", "metrics": "*", "interval.ms": "100", "match": "client_id=metered.*"}
    assert cli("client-metrics", "describe", "-o", "json") == [described]

    def known() -> dict[str, Any]:
        found: dict[str, Any] = cluster.status()["nodes"][0]["kafka"]["client_metrics"]
        return found

    other = confluent_producer(cluster, client_id="other")
    metered = confluent_producer(cluster, client_id="metered-1")
    for producer in (other, metered):
        producer.produce("metered", b"v")
        assert producer.flush(WAIT_S) == 0
    until(lambda: known()["clients"], WAIT_S)
    (client,) = known()["clients"].values()
    assert (client["client_id"], client["client_software_name"]) == ("metered-1", "confluent-kafka-python")
    assert "org.apache.kafka.producer.connection.creation.total" in client["metrics"]
    with cluster.admin() as admin:
        assert Resource.client_metrics("sub") in admin.list_config_resources()
    del producer, metered, other
    until(lambda: known()["instance-count"] == 0, WAIT_S)
    assert known()["metric-count"] == 0
    cli("client-metrics", "delete", "--name", "sub")
    assert cli("client-metrics", "describe", "-o", "json") == []
