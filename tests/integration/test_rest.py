"""REST with a real cluster: version 3 of Confluent's paths."""

from collections.abc import Iterator

import headrace
import httpx
import pytest
from headrace.services.rest.application import rest_server
from headrace.services.web.settings import WebConfig


@pytest.fixture(scope="module")
def cluster() -> Iterator[headrace.LocalCluster]:
    with headrace.local(nodes=2) as running:
        yield running


@pytest.fixture(scope="module")
def rest(cluster: headrace.LocalCluster) -> Iterator[httpx.Client]:
    """A client of the server; its paths are below the cluster's."""
    with (
        rest_server(WebConfig(port=0), bootstrap=cluster.bootstrap) as server,
        httpx.Client(base_url=server.url, timeout=30) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def v3(rest: httpx.Client) -> str:
    """The path of the cluster in version 3."""
    found = rest.get("/v3/clusters").json()["data"]
    return f"/v3/clusters/{found[0]['cluster_id']}"


def test_topic_from_creation_to_deletion(rest: httpx.Client, v3: str) -> None:
    """Create, describe, follow the links, add partitions, and delete."""
    body = {"topic_name": "orders", "partitions_count": 2, "replication_factor": 2}
    made = rest.post(f"{v3}/topics", json=body)
    assert made.status_code == 201
    assert (made.json()["partitions_count"], made.json()["replication_factor"]) == (2, 2)
    assert made.json()["kind"] == "KafkaTopic"
    topic = rest.get(made.json()["metadata"]["self"]).json()
    assert topic == made.json()
    partitions = rest.get(topic["partitions"]["related"]).json()["data"]
    replicas = [rest.get(each["replicas"]["related"]).json()["data"] for each in partitions]
    assert [{each["broker_id"] for each in of_one} for of_one in replicas] == [{1, 2}, {1, 2}]
    leader = rest.get(partitions[0]["leader"]["related"]).json()
    assert leader["is_leader"]
    assert rest.get(leader["broker"]["related"]).json()["kind"] == "KafkaBroker"
    again = rest.post(f"{v3}/topics", json=body)
    assert (again.status_code, again.json()["error_code"]) == (400, 40002)
    more = rest.patch(f"{v3}/topics/orders", json={"partitions_count": 3})
    assert more.json()["partitions_count"] == 3
    assert rest.delete(f"{v3}/topics/orders").status_code == 204
    gone = rest.get(f"{v3}/topics/orders")
    assert (gone.status_code, gone.json()["error_code"]) == (404, 40403)
    assert gone.headers["content-type"] == "application/problem+json"


def test_topic_that_is_only_validated(rest: httpx.Client, v3: str) -> None:
    """validate_only says what would be created."""
    body = {"topic_name": "maybe", "partitions_count": 5, "replication_factor": 1, "validate_only": True}
    assert rest.post(f"{v3}/topics", json=body).json()["partitions_count"] == 5
    assert rest.get(f"{v3}/topics/maybe").status_code == 404


def test_other_cluster_is_not_found(rest: httpx.Client) -> None:
    """One server serves one cluster."""
    assert rest.get("/v3/clusters/other/topics").status_code == 404
