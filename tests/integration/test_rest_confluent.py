"""The examples of Confluent's public documentation, run by curl: the quick starts of versions 2 and 3.

Only the address of the server and the id of the cluster are put in.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import headrace
import pytest
from headrace.services.rest.application import rest_server
from headrace.services.web.settings import WebConfig
from waiting import wait_for

Curl = Callable[[str], tuple[int, Any]]


@pytest.fixture(scope="module")
def curl() -> Iterator[Curl]:
    """Runs an example; gives its status and its body, which is text if it is not one JSON document."""
    with (
        headrace.local(nodes=1) as cluster,
        rest_server(WebConfig(port=0), bootstrap=cluster.bootstrap) as server,
    ):

        def run(command: str) -> tuple[int, Any]:
            command = command.replace("http://localhost:8082", server.url)
            if "$CLUSTER" in command:
                command = command.replace("$CLUSTER", cluster_id)
            done = subprocess.run(
                f"{command} -s -w '\\n%{{http_code}}' --noproxy '*'",
                shell=True,
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            body, _, status = done.stdout.rpartition("\n")
            try:
                return int(status), json.loads(body) if body else None
            except json.JSONDecodeError:
                return int(status), body

        cluster_id = ""
        cluster_id = run("curl http://localhost:8082/v3/clusters")[1]["data"][0]["cluster_id"]
        yield run


def test_quick_start_of_version_3(curl: Curl) -> None:
    """Create a topic, produce one record and two of one request, and list the topics."""
    status, topic = curl(
        """curl -X POST -H "Content-Type:application/json" -d '{"topic_name":"jsontest"}' \\
        http://localhost:8082/v3/clusters/$CLUSTER/topics"""
    )
    assert status == 201
    assert topic["kind"] == "KafkaTopic"
    assert topic["metadata"]["resource_name"].endswith("/topic=jsontest")
    assert topic["partitions"]["related"].endswith("/topics/jsontest/partitions")
    status, report = curl(
        """curl -X POST -H "Content-Type: application/json" \\
        -d '{"value":{"type":"JSON","data":{"name":"testUser"}}}' \\
        http://localhost:8082/v3/clusters/$CLUSTER/topics/jsontest/records"""
    )
    assert (status, report["error_code"], report["offset"]) == (200, 200, 0)
    assert report["value"] == {"type": "JSON", "size": 19}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", report["timestamp"])
    _, reports = curl(
        """curl -X POST -H "Content-Type: application/json" \\
        -d '{"value":{"type":"JSON","data":"ONE"}} {"value":{"type":"JSON","data":"TWO"}}' \\
        http://localhost:8082/v3/clusters/$CLUSTER/topics/jsontest/records"""
    )
    assert [json.loads(line)["offset"] for line in reports.split()] == [1, 2]
    _, topics = curl("curl http://localhost:8082/v3/clusters/$CLUSTER/topics")
    assert "jsontest" in [each["topic_name"] for each in topics["data"]]


def test_quick_start_of_version_2_with_json(curl: Curl) -> None:
    """Produce, create a consumer instance, subscribe, fetch, and delete."""
    curl(
        """curl -X POST -H "Content-Type:application/json" -d '{"topic_name":"json2"}' \\
        http://localhost:8082/v3/clusters/$CLUSTER/topics"""
    )
    status, produced = curl(
        """curl -X POST -H "Content-Type: application/vnd.kafka.json.v2+json" \\
        -d '{"records":[{"value":{"name": "testUser"}}]}' http://localhost:8082/topics/json2"""
    )
    assert status == 200
    assert produced == {
        "offsets": [{"partition": 0, "offset": 0, "error_code": None, "error": None}],
        "key_schema_id": None,
        "value_schema_id": None,
    }
    _, topics = curl("curl http://localhost:8082/topics")
    assert "json2" in topics
    _, topic = curl("curl http://localhost:8082/topics/json2")
    assert topic["partitions"] == [
        {"partition": 0, "leader": 1, "replicas": [{"broker": 1, "leader": True, "in_sync": True}]}
    ]
    status, made = curl(
        """curl -X POST -H "Content-Type: application/vnd.kafka.v2+json" \\
        -H "Accept: application/vnd.kafka.v2+json" \\
        -d '{"name": "my_consumer_instance", "format": "json", "auto.offset.reset": "earliest"}' \\
        http://localhost:8082/consumers/my_json_consumer"""
    )
    assert (status, made["instance_id"]) == (200, "my_consumer_instance")
    assert made["base_uri"].endswith("/consumers/my_json_consumer/instances/my_consumer_instance")
    instance = "http://localhost:8082/consumers/my_json_consumer/instances/my_consumer_instance"
    assert curl(
        f"""curl -X POST -H "Content-Type: application/vnd.kafka.v2+json" -d '{{"topics":["json2"]}}' \\
        {instance}/subscription"""
    ) == (204, None)
    fetched: list[Any] = []

    def fetch() -> bool:
        fetched.extend(
            curl(f"""curl -X GET -H "Accept: application/vnd.kafka.json.v2+json" {instance}/records""")[1]
        )
        return bool(fetched)

    wait_for(fetch, "records of the instance")
    expected = {"topic": "json2", "key": None, "value": {"name": "testUser"}, "partition": 0, "offset": 0}
    assert fetched == [expected]
    deletion = f"""curl -X DELETE -H "Accept: application/vnd.kafka.v2+json" {instance}"""
    assert curl(deletion) == (204, None)
    status, gone = curl(deletion)
    assert (status, gone["error_code"]) == (404, 40403)


def test_quick_start_of_version_2_with_binary(curl: Curl) -> None:
    """Base64 in, base64 out; offsets are committed and read."""
    curl(
        """curl -X POST -H "Content-Type:application/json" -d '{"topic_name":"binarytest"}' \\
        http://localhost:8082/v3/clusters/$CLUSTER/topics"""
    )
    curl(
        """curl -X POST -H "Content-Type: application/vnd.kafka.binary.v2+json" \\
        -H "Accept: application/vnd.kafka.v2+json" \\
        --data '{"records":[{"key":"a2V5","value":"S2Fma2E="},{"value":"S2Fma2E=","partition":0}]}' \\
        "http://localhost:8082/topics/binarytest" """
    )
    _, made = curl(
        """curl -X POST -H "Content-Type: application/vnd.kafka.v2+json" \\
        --data '{"name": "b", "format": "binary", "auto.offset.reset": "earliest",
                 "auto.commit.enable": "false"}' \\
        http://localhost:8082/consumers/my_binary_consumer"""
    )
    at = made["base_uri"]
    curl(
        f"""curl -X POST -H "Content-Type: application/vnd.kafka.v2+json" \\
        --data '{{"partitions":[{{"topic":"binarytest","partition":0}}]}}' {at}/assignments"""
    )
    _, records = curl(
        f'curl -X GET -H "Accept: application/vnd.kafka.binary.v2+json" "{at}/records?timeout=10000"'
    )
    assert [(each["key"], each["value"]) for each in records] == [("a2V5", "S2Fma2E="), (None, "S2Fma2E=")]
    status, _ = curl(
        f"""curl -X POST -H "Content-Type: application/vnd.kafka.v2+json" \\
        --data '{{"offsets":[{{"topic":"binarytest","partition":0,"offset":1}}]}}' {at}/offsets"""
    )
    assert status == 204
    _, offsets = curl(
        f"""curl -X GET -H "Content-Type: application/vnd.kafka.v2+json" \\
        --data '{{"partitions":[{{"topic":"binarytest","partition":0}}]}}' {at}/offsets"""
    )
    assert [(each["partition"], each["offset"]) for each in offsets["offsets"]] == [(0, 1)]
    positions = f"""curl -X POST -H "Content-Type: application/vnd.kafka.v2+json" \\
        --data '{{"offsets":[{{"topic":"binarytest","partition":0,"offset":1}}]}}' {at}/positions"""
    assert curl(positions) == (204, None)
    _, again = curl(f'curl "{at}/records?timeout=10000"')
    assert [each["offset"] for each in again] == [1]
    status, refused = curl(f'curl -H "Accept: application/vnd.kafka.json.v2+json" {at}/records')
    assert (status, refused["error_code"]) == (406, 40601)
    mixed = f"""curl -X POST -H "Content-Type: application/vnd.kafka.v2+json" \\
        -d '{{"topics":["binarytest"]}}' {at}/subscription"""
    status, refused = curl(mixed)
    assert (status, refused["error_code"]) == (409, 40903)
    assert curl(f"curl -X DELETE {at}")[0] == 204
