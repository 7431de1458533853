"""The console and REST in one process and one port, of a secured cluster."""

import json
import re
from collections.abc import Iterator

import headrace
import httpx
import pytest
from console_pages import plain
from headrace.services.console.masking import mask_rule
from headrace.services.console.server import console_server
from headrace.services.rest.settings import RestConfig
from headrace.services.web.server_io import WebServer
from headrace.services.web.settings import WebConfig

ANN = ("ann", "ann-secret")
JSON_V2 = {"content-type": "application/vnd.kafka.json.v2+json"}
PAGE = {"accept": "text/html"}
CARD = b'{"card": "4711", "total": 7}'


@pytest.fixture(scope="module")
def cluster() -> Iterator[headrace.LocalCluster]:
    with headrace.local(security=headrace.Security(users=dict((ANN,)))) as running:
        running.admin().create_topics(headrace.NewTopic("orders", 1)).raise_for_errors()
        with running.producer() as producer:
            producer.send("orders", CARD, key=b"k", headers=[("token", b"secret")]).result(10)
        yield running


def served(cluster: headrace.LocalCluster, *, is_read_only: bool) -> WebServer:
    return console_server(
        WebConfig(port=0),
        bootstrap=cluster.bootstrap,
        client_config=cluster.client_config(),
        rest=RestConfig(),
        is_read_only=is_read_only,
        masks=(mask_rule("orders:value.card"), mask_rule("orders:headers.token")),
    )


@pytest.fixture(scope="module")
def both(cluster: headrace.LocalCluster) -> Iterator[httpx.Client]:
    with (
        served(cluster, is_read_only=False) as server,
        httpx.Client(base_url=server.url, timeout=30) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def topics(both: httpx.Client) -> str:
    """The path of the topics in version 3."""
    cluster_id = both.get("/v3/clusters", auth=ANN).json()["data"][0]["cluster_id"]
    return f"/v3/clusters/{cluster_id}/topics"


def test_session_of_the_console_is_none_of_rest(both: httpx.Client, topics: str) -> None:
    """Each request of REST needs credentials; those of a request open no page, and a form needs its token."""
    sign_in = {"username": ANN[0], "password": ANN[1], "to": "/topics"}
    with httpx.Client(base_url=both.base_url, timeout=30, follow_redirects=True) as browser:
        assert "orders" in plain(browser.post("/sign-in", data=sign_in, headers=PAGE).text)
        for path in ("/topics", "/topics/orders", f"{topics}/orders/records"):
            refused = browser.get(path)
            assert (refused.status_code, refused.json()["error_code"]) == (401, 40101), path
            assert browser.get(path, auth=ANN).status_code == 200
        record = {"records": [{"value": 1}]}
        assert browser.post("/topics/orders", json=record, headers=JSON_V2).status_code == 401
        evil = {**JSON_V2, "origin": "https://evil.example"}
        assert browser.post("/topics/orders", json=record, headers=evil, auth=ANN).status_code == 403
        form = {"count": "2"}
        assert browser.post("/topics/orders/partitions", data=form, headers=PAGE).status_code == 403
    page = both.get("/topics", headers=PAGE, auth=ANN)
    assert (page.status_code, page.headers["location"]) == (303, "/sign-in?to=%2Ftopics")
    assert "<h1>" in both.get("/docs", headers=PAGE).text
    missing = both.get("/v3/none", headers=PAGE)
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")


def test_masked_fields_are_masked_in_rest(both: httpx.Client, topics: str) -> None:
    """In reads of all formats, tails, and consumer instances of version 2."""
    masked = {"card": "\u25cf" * 4, "total": 7}
    [record] = both.get(f"{topics}/orders/records?timeout=20000", auth=ANN).json()["data"]
    assert record["value"] == {"type": "JSON", "data": masked, "size": len(CARD)}
    assert record["key"]["data"] == "k"
    for wanted in ("STRING", "BINARY"):
        read = both.get(f"{topics}/orders/records?timeout=20000&format={wanted}", auth=ANN).json()["data"][0]
        assert read["value"] == {"type": "MASKED", "data": None, "size": len(CARD)}
    with both.stream("GET", f"{topics}/orders/records:tail?offset=earliest", auth=ANN) as tail:
        event = next(line for line in tail.iter_lines() if "partition_id" in line)
        assert json.loads(event.removeprefix("data: ")) == record
    for name, expected in (("json", masked), ("binary", "4peP4peP4peP4peP")):
        body = {"format": name, "auto.offset.reset": "earliest"}
        instance = both.post(f"/consumers/{name}", json=body, auth=ANN).json()["base_uri"]
        place = {"partitions": [{"topic": "orders", "partition": 0}]}
        assert both.post(f"{instance}/assignments", json=place, auth=ANN).status_code == 204
        [found] = both.get(f"{instance}/records?timeout=20000", auth=ANN).json()
        assert found["value"] == expected
        assert both.delete(instance, auth=ANN).status_code == 204
    assert "4711" not in repr(record)


def test_read_only_server_refuses_changes_by_rest(cluster: headrace.LocalCluster, topics: str) -> None:
    """All methods but GET, with a problem document; reads and tails are served."""
    with (
        served(cluster, is_read_only=True) as server,
        httpx.Client(base_url=server.url, timeout=30, auth=ANN) as client,
    ):
        document = client.get("/openapi.json").json()
        changes = [
            (method, re.sub(r"\{\w+\}", "orders", path))
            for path, methods in document["paths"].items()
            for method in methods
            if method != "get"
        ]
        assert len(changes) > 20
        for method, path in changes:
            refused = client.request(method, path, json={}, headers=JSON_V2)
            assert (refused.status_code, refused.json()["error_code"]) == (403, 40301), (method, path)
            assert refused.headers["content-type"] == "application/problem+json"
            assert "--read-only" in refused.json()["detail"]
        assert client.get(f"{topics}/orders/records?timeout=20000").json()["data"][0]["key"]["data"] == "k"
        assert "orders" in client.get("/topics").json()
