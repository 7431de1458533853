"""REST with a real cluster: version 3, reading and tailing; each response is as the OpenAPI document says."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import headrace
import httpx
import pytest
from headrace.services.rest.application import rest_server
from headrace.services.web.settings import WebConfig
from rest_client import checked_client
from waiting import wait_for

JSON_V2 = {"content-type": "application/vnd.kafka.json.v2+json"}
V2 = {"content-type": "application/vnd.kafka.v2+json"}
HOSTILE = [
    b"<script>alert(1)</script>",
    b"\x1b]0;owned\x07\x1b[2J",
    b"\xff\xfe\x00",
    b'{"a":\n\n"</script>\\n\\ndata: x"}',
    "\u2028\u202e\x9b31m".encode(),
    b"",
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[headrace.LocalCluster]:
    with headrace.local(nodes=2, message_max_bytes=12_000_000) as running:
        yield running


@pytest.fixture(scope="module")
def rest(cluster: headrace.LocalCluster) -> Iterator[httpx.Client]:
    web, producer = WebConfig(port=0), {"max.request.size": 12_000_000}
    with (
        rest_server(web, bootstrap=cluster.bootstrap, client_config=producer) as server,
        checked_client(server.url) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def v3(rest: httpx.Client) -> str:
    """The path of the cluster in version 3."""
    found = rest.get("/v3/clusters").json()["data"]
    return f"/v3/clusters/{found[0]['cluster_id']}"


def new_topic(rest: httpx.Client, v3: str, name: str, partitions: int = 1) -> str:
    """The path of a new topic."""
    body = {"topic_name": name, "partitions_count": partitions, "replication_factor": 1}
    assert rest.post(f"{v3}/topics", json=body).status_code == 201
    return f"{v3}/topics/{name}"


def tail(rest: httpx.Client, path: str, count: int, **headers: str) -> list[tuple[str, dict[str, Any]]]:
    """(id, record) of so many events."""
    found: list[tuple[str, dict[str, Any]]] = []
    with rest.stream("GET", path, headers=headers) as response:
        assert response.headers["content-type"] == "text/event-stream"
        last_id = kind = ""
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                last_id = value
            elif name == "event":
                kind = value
            elif name == "data" and kind:
                assert (kind, value) == ("open", "{}")
                kind = ""
            elif name == "data":
                found.append((last_id, json.loads(value)))
                if len(found) == count:
                    break
    return found


def test_topic_from_creation_to_deletion(rest: httpx.Client, v3: str) -> None:
    """Create, describe, follow the links, add partitions, and delete."""
    body = {"topic_name": "orders", "partitions_count": 2, "replication_factor": 2}
    made = rest.post(f"{v3}/topics", json=body)
    assert made.status_code == 201
    assert (made.json()["partitions_count"], made.json()["replication_factor"]) == (2, 2)
    topic = rest.get(made.json()["metadata"]["self"]).json()
    assert topic == made.json()
    partitions = rest.get(topic["partitions"]["related"]).json()["data"]
    replicas = [rest.get(each["replicas"]["related"]).json()["data"] for each in partitions]
    assert [{each["broker_id"] for each in of_one} for of_one in replicas] == [{1, 2}, {1, 2}]
    leader = rest.get(partitions[0]["leader"]["related"]).json()
    assert leader["is_leader"]
    broker = rest.get(leader["broker"]["related"]).json()
    of_broker = rest.get(broker["partition_replicas"]["related"]).json()["data"]
    assert {each["partition_id"] for each in of_broker if each["topic_name"] == "orders"} == {0, 1}
    assert rest.get(topic["partition_reassignments"]["related"]).json()["data"] == []
    assert rest.get(partitions[0]["reassignment"]["related"]).status_code == 404
    again = rest.post(f"{v3}/topics", json=body)
    assert (again.status_code, again.json()["error_code"]) == (400, 40002)
    more = rest.patch(f"{v3}/topics/orders", json={"partitions_count": 3})
    assert more.json()["partitions_count"] == 3
    assert rest.delete(f"{v3}/topics/orders").status_code == 204
    gone = rest.get(f"{v3}/topics/orders")
    assert (gone.status_code, gone.json()["error_code"]) == (404, 40403)
    assert gone.headers["content-type"] == "application/problem+json"


def test_topic_with_assigned_replicas(rest: httpx.Client, v3: str) -> None:
    """Confluent's explicit assignment, a list of one mapping per partition; and what validate_only shows."""
    body = {"topic_name": "placed", "replicas_assignments": [{"0": [2, 1]}, {"1": [1, 2]}]}
    assert rest.post(f"{v3}/topics", json={**body, "validate_only": True}).json()["partitions_count"] == 2
    assert rest.get(f"{v3}/topics/placed").status_code == 404
    rest.post(f"{v3}/topics", json={**body, "configs": [{"name": "cleanup.policy", "value": "compact"}]})
    leader = rest.get(f"{v3}/topics/placed/partitions/0").json()["leader"]["related"]
    assert leader.endswith("/replicas/2")
    assert rest.get(f"{v3}/topics/placed/configs/cleanup.policy").json()["value"] == "compact"


def test_configs_of_a_topic(rest: httpx.Client, v3: str) -> None:
    """Set, change several at once, reset; the defaults do not change."""
    topic = new_topic(rest, v3, "configured")
    one = f"{topic}/configs/retention.ms"
    assert rest.get(one).json()["source"] == "DEFAULT_CONFIG"
    assert rest.put(one, json={"value": "1000"}).status_code == 204
    found = rest.get(one).json()
    assert (found["value"], found["source"], found["is_default"]) == ("1000", "DYNAMIC_TOPIC_CONFIG", False)
    assert [each["source"] for each in found["synonyms"]] == ["DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"]
    listed = rest.get(f"{topic}/default-configs").json()["data"]
    assert {each["name"]: each["value"] for each in listed}["retention.ms"] == "604800000"
    changes = [
        {"name": "retention.ms", "operation": "DELETE"},
        {"name": "cleanup.policy", "value": "compact", "operation": "APPEND"},
        {"name": "segment.ms", "value": "5000"},
    ]
    assert rest.post(f"{topic}/configs:alter", json={"data": changes}).status_code == 204
    now = {each["name"]: each["value"] for each in rest.get(f"{topic}/configs").json()["data"]}
    assert (now["retention.ms"], now["cleanup.policy"]) == ("604800000", "delete,compact")
    bad = [{"name": "segment.ms", "value": "6000"}, {"name": "retention.ms", "value": "soon"}]
    assert rest.post(f"{topic}/configs:alter", json={"data": bad}).status_code == 400
    assert rest.get(f"{topic}/configs/segment.ms").json()["value"] == "5000"
    assert rest.delete(f"{topic}/configs/segment.ms").status_code == 204
    assert rest.get(f"{topic}/configs/no.such.key").status_code == 404
    everywhere = rest.get(f"{v3}/topics/-/configs").json()["data"]
    assert "configured" in {each["topic_name"] for each in everywhere}


def test_configs_of_brokers(rest: httpx.Client, v3: str) -> None:
    """Of one broker, of all, and the list of what is set."""
    path = f"{v3}/brokers/1/configs/log.cleaner.threads"
    assert rest.get(path).json()["broker_id"] == 1
    assert rest.put(path, json={"value": "2"}).status_code == 204
    wait_for(lambda: rest.get(path).json()["source"] == "DYNAMIC_BROKER_CONFIG", "the broker has its config")
    dynamic = rest.get(f"{v3}/brokers/-/configs").json()["data"]
    of_key = [each for each in dynamic if each["name"] == "log.cleaner.threads"]
    assert [(each["broker_id"], each["value"]) for each in of_key] == [(1, "2")]
    assert rest.delete(path).status_code == 204
    change = {"data": [{"name": "log.cleaner.threads", "value": "3"}]}
    assert rest.post(f"{v3}/broker-configs:alter", json=change).status_code == 204
    found = rest.get(f"{v3}/broker-configs").json()["data"]
    assert ("log.cleaner.threads", "3") in [(each["name"], each["value"]) for each in found]
    assert rest.delete(f"{v3}/broker-configs/log.cleaner.threads").status_code == 204
    assert rest.get(f"{v3}/brokers/99/configs").status_code in (400, 404)
    assert rest.get(f"{v3}/brokers/x").status_code == 404


def test_group_and_its_lag(rest: httpx.Client, v3: str, cluster: headrace.LocalCluster) -> None:
    """State, member, assignment, lag per partition and in all."""
    topic = new_topic(rest, v3, "lagging")
    entries = [{"id": str(n), "value": {"type": "JSON", "data": n}} for n in range(10)]
    rest.post(f"{topic}/records:batch", json={"entries": entries})
    group = f"{v3}/consumer-groups/readers%2F1"
    with cluster.consumer(
        "lagging", group="readers/1", auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        records = consumer.poll(30, 4)
        consumer.commit(records[:4])
        found = rest.get(group).json()
        assert (found["consumer_group_id"], found["state"]) == ("readers/1", "STABLE")
        assert rest.get(found["coordinator"]["related"]).status_code == 200
        member = rest.get(found["consumers"]["related"]).json()["data"][0]
        assert rest.get(member["metadata"]["self"]).json() == member
        assignment = rest.get(member["assignments"]["related"]).json()["data"][0]
        assert rest.get(assignment["metadata"]["self"]).json() == assignment
        lag = rest.get(assignment["lag"]["related"]).json()
        assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (4, 10, 6)
        assert lag["consumer_id"] == member["consumer_id"]
        summary = rest.get(found["lag_summary"]["related"]).json()
        assert (summary["max_lag"], summary["total_lag"]) == (6, 6)
        assert lag["lag_seconds"] > 0
        [listed] = rest.get(f"{group}/lags").json()["data"]
        assert (listed["metadata"], listed["lag"]) == (lag["metadata"], 6)
    assert "readers/1" in {
        each["consumer_group_id"] for each in rest.get(f"{v3}/consumer-groups").json()["data"]
    }
    wait_for(lambda: rest.delete(group).status_code == 204, "the group is empty and deleted")
    assert rest.get(group).status_code == 404


def test_streamed_produce_reports_each_record(rest: httpx.Client, v3: str) -> None:
    """Bad records do not end the stream; headers, key, partition and time are those of the record."""
    topic = new_topic(rest, v3, "streamed", 2)
    records = [
        '{"partition_id":1,"headers":[{"name":"h","value":"/w=="}],"key":{"type":"STRING","data":"k"},',
        '"value":{"type":"BINARY","data":"/w=="},"timestamp":"2021-02-05T19:14:42Z"}',
        '{"value":{"type":"AVRO","data":1}}{"value":{"data":1}}{"value":{"type":"BINARY","data":"!"}}',
        '{"partition_id":7,"value":{"type":"JSON","data":1}}{"value": nonsense}{"unknown":1}',
        '{"value":{"type":"JSON","data":{"last":true}}}',
    ]
    headers = {"content-type": "application/json"}
    body = (part.encode() for part in records)
    response = rest.post(f"{topic}/records", content=body, headers=headers, timeout=60)
    reports = [json.loads(line) for line in response.text.splitlines()]
    codes = [each["error_code"] for each in reports]
    assert codes == [200, 501, 42201, 42201, 40403, 40001, 200, 200]
    assert (reports[0]["partition_id"], reports[0]["timestamp"]) == (1, "2021-02-05T19:14:42.000Z")
    found = rest.get(f"{topic}/records?partition=1&offset=0&timeout=20000").json()["data"][0]
    assert found["headers"] == [{"name": "h", "value": "/w=="}]
    assert (found["key"]["data"], found["value"]["data"]) == ("k", "/w==")
    invalid = b'{"value":{"type":"JSON","data":"\xff"}}{"value":{"type":"JSON","data":1}}'
    response = rest.post(f"{topic}/records", content=invalid, headers=headers)
    assert [json.loads(line)["error_code"] for line in response.text.splitlines()] == [40001, 200]
    batch = b'{"entries":[{"id":"1","value":{"type":"JSON","data":"\xff"}}]}'
    refused = rest.post(f"{topic}/records:batch", content=batch, headers=headers)
    assert (refused.status_code, refused.json()["error_code"]) == (400, 40001)
    cut = rest.post(f"{topic}/records", content=b'{"value":{"type":"JSON","data":1}}{"val', headers=headers)
    assert [json.loads(line)["error_code"] for line in cut.text.splitlines()] == [200, 40001]
    missing = rest.post(f"{v3}/topics/none/records", content=b"{}", headers=headers)
    assert (missing.status_code, missing.json()["error_code"]) == (404, 40403)


def test_produced_in_version_2(rest: httpx.Client, v3: str) -> None:
    """To a topic, to a partition; unknown ones have Confluent's codes."""
    new_topic(rest, v3, "second", 2)
    body = {"records": [{"key": "k", "value": {"n": 1}}, {"value": None, "partition": 1}]}
    produced = rest.post("/topics/second", json=body, headers=JSON_V2).json()["offsets"]
    assert [each["error_code"] for each in produced] == [None, None]
    one = rest.post("/topics/second/partitions/1", json={"records": [{"value": 2}]}, headers=JSON_V2)
    assert one.json()["offsets"][0]["partition"] == 1
    offsets = rest.get("/topics/second/partitions/1/offsets").json()
    assert offsets["end_offset"] - offsets["beginning_offset"] >= 2
    assert len(rest.get("/topics/second/partitions").json()) == 2
    assert rest.get("/topics/second").json()["configs"]["cleanup.policy"] == "delete"
    assert rest.get("/brokers").json() == {"brokers": [1, 2]}
    for path, code in (("/topics/none", 40401), ("/topics/second/partitions/9", 40402)):
        assert rest.get(path).json()["error_code"] == code
        assert rest.post(path, json={"records": [{"value": 2}]}, headers=JSON_V2).json()["error_code"] == code
    avro = {"content-type": "application/vnd.kafka.avro.v2+json"}
    assert rest.post("/topics/second", json=body, headers=avro).status_code == 501
    assert rest.post("/topics/second", json={"records": []}, headers=JSON_V2).status_code == 422


def test_read_in_pages(rest: httpx.Client, v3: str) -> None:
    """`metadata.next` continues; offset, timestamp and partition select."""
    topic = new_topic(rest, v3, "paged", 2)
    for n in range(7):
        record = {"value": n, "partition": n % 2}
        rest.post("/topics/paged", json={"records": [record]}, headers=JSON_V2)
    path, values = f"{topic}/records?max=3&timeout=20000", []
    while len(values) < 7:
        page = rest.get(path).json()
        values += [each["value"]["data"] for each in page["data"]]
        path = page["metadata"]["next"]
    assert sorted(values) == list(range(7))
    assert rest.get(path, params={"timeout": 0}).json()["data"] == []
    later = rest.get(f"{topic}/records?partition=1&offset=1&timeout=20000").json()
    assert [each["value"]["data"] for each in later["data"]] == [3, 5]
    from_time = f"{topic}/records?timestamp=0&max=9&timeout=20000"
    ends = {"0": 4, "1": 3}
    wait_for(lambda: rest.get(from_time).json()["next_offsets"] == ends, "records of both at once")
    for wrong in ("partition=0&offset=99", "offset=3", "offset=-1", "max=x", "format=x", "offset=0:x"):
        assert rest.get(f"{topic}/records?{wrong}").status_code == 400, wrong
    assert rest.get(f"{topic}/records?partition=9").status_code == 404


def test_tail_resumes_after_the_last_event(rest: httpx.Client, v3: str) -> None:
    """From the beginning; with Last-Event-ID as browsers send it; from the end by default."""
    topic = new_topic(rest, v3, "tailed", 2)
    for n in range(6):
        rest.post("/topics/tailed", json={"records": [{"value": n, "partition": n % 2}]}, headers=JSON_V2)
    path = f"{topic}/records:tail"
    events = tail(rest, f"{path}?offset=earliest", 4)
    rest_of = tail(rest, path, 2, **{"last-event-id": events[-1][0]})
    assert sorted(record["value"]["data"] for _, record in events + rest_of) == list(range(6))
    assert rest_of[-1][0] == "0:3,1:3"
    one = tail(rest, f"{path}?partition=1&offset=0", 3)
    assert [record["value"]["data"] for _, record in one] == [1, 3, 5]
    with rest.stream("GET", path) as response:
        lines = response.iter_lines()
        assert next(line for line in lines if line.startswith("id:")) == "id: 0:3,1:3"
        rest.post("/topics/tailed", json={"records": [{"value": 6, "partition": 0}]}, headers=JSON_V2)
        assert next(line for line in lines if '"offset"' in line).startswith(
            'data: {"partition_id":0,"offset":3'
        )


def test_head_of_a_tail_ends(rest: httpx.Client, v3: str) -> None:
    """It has the headers of a tail, and no stream behind them."""
    path = f"{new_topic(rest, v3, 'headed')}/records:tail"
    response = rest.head(path)
    assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream")
    assert rest.head(f"{v3}/topics/absent/records:tail").status_code == 404


def test_hostile_records(rest: httpx.Client, v3: str, cluster: headrace.LocalCluster) -> None:
    """Whatever a producer wrote: each response is one JSON document, each event one line of data."""
    topic = new_topic(rest, v3, "hostile")
    with cluster.producer() as producer:
        for value in HOSTILE:
            producer.send("hostile", value, key=value, headers=[("h", value)])
    read = rest.get(f"{topic}/records?timeout=20000")
    assert read.headers["x-content-type-options"] == "nosniff"
    assert read.headers["content-type"] == "application/json"
    assert b"\x1b" not in read.content
    found = [each for _, each in tail(rest, f"{topic}/records:tail?offset=earliest", len(HOSTILE))]
    assert [base64.b64decode(each["headers"][0]["value"]) for each in found] == HOSTILE
    shown = [each["value"]["data"] for each in read.json()["data"]]
    assert (shown[0], shown[1], shown[2]) == (HOSTILE[0].decode(), HOSTILE[1].decode(), "//4A")
    made = rest.post(
        "/consumers/hostile", json={"format": "json", "auto.offset.reset": "earliest"}, headers=V2
    )
    instance = made.json()["base_uri"]
    body = {"partitions": [{"topic": "hostile", "partition": 0}]}
    rest.post(f"{instance}/assignments", json=body, headers=V2)
    for _ in range(2):  # the record is not lost
        refused = rest.get(f"{instance}/records?timeout=10000")
        assert refused.status_code == 422
        assert "hostile-0 at offset 2" in refused.json()["message"]
    rest.delete(instance)


def test_value_of_ten_megabytes(rest: httpx.Client, v3: str) -> None:
    """Produced and read as it is; a tail has its size only."""
    topic = new_topic(rest, v3, "large")
    value = base64.b64encode(b"x" * 10_000_000).decode()
    headers = {"content-type": "application/vnd.kafka.binary.v2+json"}
    made = rest.post("/topics/large", json={"records": [{"value": value}]}, headers=headers, timeout=60)
    assert made.json()["offsets"][0]["error_code"] is None
    assert len(rest.get(f"{topic}/records", timeout=60).json()["data"][0]["value"]["data"]) == 10_000_000
    [(_, event)] = tail(rest, f"{topic}/records:tail?offset=earliest", 1)
    assert event["value"] == {"type": "STRING", "data": None, "size": 10_000_000}


def test_consumers_of_a_group_share_a_topic(rest: httpx.Client, v3: str) -> None:
    """Two instances, all records once; auto-commit, and a third instance that goes on where they ended."""
    new_topic(rest, v3, "shared", 2)
    body = {"records": [{"value": n, "partition": n % 2} for n in range(10)]}
    rest.post("/topics/shared", json=body, headers=JSON_V2)
    options = {"format": "json", "auto.offset.reset": "earliest"}

    def opened() -> str:
        uri: str = rest.post("/consumers/sharing", json=options, headers=V2).json()["base_uri"]
        rest.post(f"{uri}/subscription", json={"topics": ["shared"]}, headers=V2)
        return uri

    instances, found = [opened(), opened()], list[int]()

    def fetch() -> bool:
        for uri in instances:
            found.extend(each["value"] for each in rest.get(f"{uri}/records?timeout=200").json())
        return len(set(found)) == 10

    wait_for(fetch, "all records are read")
    assert rest.get(f"{instances[0]}/subscription").json() == {"topics": ["shared"]}
    for uri in instances:
        assert rest.delete(uri).status_code == 204
    rest.post("/topics/shared", json={"records": [{"value": 10}]}, headers=JSON_V2)
    instances, found = [opened()], []
    wait_for(lambda: fetch() or bool(found), "the new record is read")
    assert found == [10]
    assert rest.delete(f"{instances[0]}/subscription").status_code == 204
    rest.delete(instances[0])


def test_mistakes_about_consumers(rest: httpx.Client, v3: str) -> None:
    """Each has Confluent's error code."""
    new_topic(rest, v3, "mistaken")
    path = "/consumers/mistaken"
    at = rest.post(path, json={"name": "one", "format": "binary"}, headers=V2).json()["base_uri"]
    for body, status, code in (
        ({"name": "one"}, 409, 40902),
        ({"format": "xml"}, 422, 42204),
        ({"format": "avro"}, 501, 501),
        ({"auto.offset.reset": "sometime"}, 422, 42204),
        ({"consumer.request.timeout.ms": "x"}, 422, 42204),
    ):
        refused = rest.post(path, json=body, headers=V2)
        assert (refused.status_code, refused.json()["error_code"]) == (status, code), body
    assert rest.post(f"{at}/subscription", json={}, headers=V2).status_code == 422
    seek = {"offsets": [{"topic": "mistaken", "partition": 0, "offset": 1}]}
    assert rest.post(f"{at}/positions", json=seek, headers=V2).status_code == 400
    place = {"partitions": [{"topic": "mistaken", "partition": 0}]}
    assert rest.post(f"{at}/assignments", json=place, headers=V2).status_code == 204
    assert rest.get(f"{at}/assignments").json() == place
    for name in ("beginning", "end"):
        assert rest.post(f"{at}/positions/{name}", json=place, headers=V2).status_code == 204
    committed = rest.request("GET", f"{at}/offsets", json=place, headers=V2)
    assert committed.json() == {"offsets": []}
    assert rest.post(f"{at}/offsets", headers=V2).status_code == 204
    assert rest.get(f"{path}/instances/two/records").json()["error_code"] == 40403
    assert rest.delete(at).status_code == 204


def test_description_has_every_route(rest: httpx.Client) -> None:
    """OpenAPI 3.1, and the page that shows it without scripts. Every response above fitted it."""
    document = rest.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    operations = [each for methods in document["paths"].values() for each in methods.values()]
    assert len({each["operationId"] for each in operations}) == len(operations)
    page = rest.get("/docs")
    assert "<script" not in page.text
    shown = re.findall(r"<summary><b>(\w+)</b><code>([^<]+)</code>", page.text)
    assert {(method.lower(), path) for method, path in shown} == {
        (method, path) for path, methods in document["paths"].items() for method in methods
    }


def test_other_cluster_is_not_found(rest: httpx.Client) -> None:
    """One server serves one cluster."""
    assert rest.get("/v3/clusters/other/topics").status_code == 404
    assert rest.get("/health/cluster").json()["nodes"] == 2
