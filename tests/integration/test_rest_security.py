"""REST with a secured cluster: requests act as their users; TLS; rules by version 3."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import headrace
import httpx
import pytest
from certificates import Authority
from headrace.services.rest.application import rest_server
from headrace.services.web.settings import WebConfig
from headrace.storage_node.configs.authorization_config import STANDARD_AUTHORIZER
from rest_client import CheckedResponses
from waiting import wait_for

ADMIN, ANN = ("root", "root-word"), ("ann", "ann:word \u00e4")
JSON_V2 = {"content-type": "application/vnd.kafka.json.v2+json"}
V2 = {"content-type": "application/vnd.kafka.v2+json"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[headrace.LocalCluster]:
    with headrace.local(
        security=headrace.Security(users=dict((ADMIN, ANN))),
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:root;User:admin",
    ) as running:
        yield running


@pytest.fixture(scope="module")
def rest(cluster: headrace.LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of an HTTPS server whose own user is `root`."""
    folder: Path = tmp_path_factory.mktemp("tls")
    authority = Authority()
    certificate, key = authority.issue("localhost").written(folder, "server")
    web = WebConfig(port=0, certificate_file=certificate, key_file=key, max_users=3)
    config = cluster.client_config(*ADMIN)
    trust = ssl.create_default_context(cafile=authority.written(folder))
    with rest_server(web, bootstrap=cluster.bootstrap, client_config=config) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        hooks = {"response": [CheckedResponses(url)]}
        with httpx.Client(base_url=url, verify=trust, event_hooks=hooks, timeout=30) as client:
            yield client


def test_request_without_credentials(rest: httpx.Client) -> None:
    """The server's own user is not for all clients; health says nothing about the cluster."""
    refused = rest.get("/topics")
    assert (refused.status_code, refused.json()["error_code"]) == (401, 40101)
    assert refused.headers["www-authenticate"].startswith("Basic ")
    assert rest.get("/health").status_code == 200
    assert rest.get("/health/cluster").status_code == 401


def test_wrong_password(rest: httpx.Client) -> None:
    """The cluster decides, and the right one works afterwards; wrong ones take no place from users."""
    for number in range(5):
        refused = rest.get("/topics", auth=("ann", f"wrong{number}"))
        assert (refused.status_code, refused.json()["error_code"]) == (401, 40101)
    assert rest.get("/topics", auth=ANN).status_code == 200


def test_rules_apply_to_the_user_of_the_request(rest: httpx.Client) -> None:
    """Without a rule ann sees no topic; with rules made by version 3 she writes and reads this one."""
    cluster_id = rest.get("/v3/clusters", auth=ADMIN).json()["data"][0]["cluster_id"]
    v3 = f"/v3/clusters/{cluster_id}"
    for name in ("secret", "open"):
        body = {"topic_name": name, "partitions_count": 1, "replication_factor": 1}
        assert rest.post(f"{v3}/topics", json=body, auth=ADMIN).status_code == 201
    record = {"records": [{"value": 1}]}
    assert rest.get("/topics", auth=ANN).json() == []
    assert rest.post("/topics/open", json=record, headers=JSON_V2, auth=ANN).status_code in (403, 404)
    assert rest.post(f"{v3}/topics", json={"topic_name": "mine"}, auth=ANN).status_code == 403
    assert rest.get(f"{v3}/acls", auth=ANN).status_code == 403
    fields = {"resource_name": "open", "pattern_type": "LITERAL", "principal": "User:ann", "host": "*"}
    rules = [
        {"resource_type": "TOPIC", "operation": operation, "permission": "ALLOW", **fields}
        for operation in ("READ", "WRITE")
    ]
    assert rest.post(f"{v3}/acls", json=rules[0], auth=ADMIN).status_code == 201
    assert rest.post(f"{v3}/acls:batch", json={"data": rules[1:]}, auth=ADMIN).status_code == 201
    found = rest.get(f"{v3}/acls", params={"principal": "User:ann"}, auth=ADMIN).json()["data"]
    assert sorted(each["operation"] for each in found) == ["READ", "WRITE"]
    wait_for(
        lambda: rest.post("/topics/open", json=record, headers=JSON_V2, auth=ANN).status_code == 200,
        "the rule applies",
    )
    assert rest.get("/topics", auth=ANN).json() == ["open"]
    read = rest.get(f"{v3}/topics/open/records?timeout=20000", auth=ANN)
    assert read.json()["data"][0]["value"]["data"] == 1
    assert rest.get(f"{v3}/topics/secret/records", auth=ANN).status_code in (403, 404)
    with rest.stream("GET", f"{v3}/topics/open/records:tail?offset=earliest", auth=ANN) as response:
        assert next(line for line in response.iter_lines() if "partition_id" in line)
    everything = dict.fromkeys(("resource_type", "pattern_type", "operation", "permission"), "ANY")
    assert rest.delete(f"{v3}/acls", params={"principal": "User:ann"}, auth=ADMIN).status_code == 400
    deleted = rest.delete(f"{v3}/acls", params={**everything, "principal": "User:ann"}, auth=ADMIN)
    assert len(deleted.json()["data"]) == 2
    wrong = rest.post(f"{v3}/acls", json={**rules[0], "operation": "SING"}, auth=ADMIN)
    assert wrong.status_code == 400


def test_consumer_instance_belongs_to_its_user(rest: httpx.Client) -> None:
    """Another user does not find it, whatever rules there are."""
    made = rest.post("/consumers/own", json={"format": "json"}, headers=V2, auth=ANN)
    path = made.json()["base_uri"]
    assert rest.get(f"{path}/records", auth=ADMIN).json()["error_code"] == 40403
    assert rest.delete(path, auth=ADMIN).status_code == 404
    assert rest.delete(path, auth=ANN).status_code == 204
