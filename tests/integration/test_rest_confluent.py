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


def test_administration_by_version_3(curl: Curl) -> None:
    """The examples of the API reference: topics with configs, partitions, brokers, configs one and many."""
    v3 = "http://localhost:8082/v3/clusters/$CLUSTER"
    status, topic = curl(
        f"""curl --request POST --url '{v3}/topics' --header 'content-type: application/json' \\
        --data '{{"topic_name":"topic-X","partitions_count":3,"replication_factor":1,
                 "configs":[{{"name":"cleanup.policy","value":"compact"}}]}}'"""
    )
    assert (status, topic["partitions_count"]) == (201, 3)
    get = "curl --request GET --header 'Accept: application/json' --url"
    assert len(curl(f"{get} '{v3}/topics/topic-X/partitions'")[1]["data"]) == 3
    _, replicas = curl(f"{get} '{v3}/topics/topic-X/partitions/0/replicas'")
    assert [(each["broker_id"], each["is_leader"]) for each in replicas["data"]] == [(1, True)]
    _, brokers = curl(f"{get} '{v3}/brokers'")
    assert [each["broker_id"] for each in brokers["data"]] == [1]
    one = f"{v3}/topics/topic-X/configs/compression.type"
    put = "curl --request PUT --header 'Content-Type: application/json' --data"
    assert curl(f"""{put} '{{"value":"gzip"}}' --url '{one}'""") == (204, None)
    assert curl(f"{get} '{one}'")[1]["value"] == "gzip"
    assert curl(f"curl --request DELETE --url '{one}'") == (204, None)
    alter = (
        """curl --request POST --header 'Content-Type: application/json' --data '{"data":["""
        """{"name":"cleanup.policy","operation":"DELETE"},{"name":"compression.type","value":"gzip"}]}'"""
    )
    assert curl(f"{alter} --url '{v3}/topics/topic-X/configs:alter'") == (204, None)
    _, configs = curl(f"{get} '{v3}/topics/topic-X/configs'")
    values = {each["name"]: each["value"] for each in configs["data"]}
    assert (values["cleanup.policy"], values["compression.type"]) == ("delete", "gzip")
    assert curl(f"curl --request DELETE --url '{v3}/topics/topic-X'") == (204, None)
    status, gone = curl(f"{get} '{v3}/topics/topic-X'")
    assert (status, gone["error_code"]) == (404, 40403)


def test_group_of_version_2_and_its_lag_in_version_3(curl: Curl) -> None:
    """Records by a binary key and value with headers; a consumer that read some; groups, members and lags."""
    v3 = "http://localhost:8082/v3/clusters/$CLUSTER"
    json_type, v2 = "-H 'Content-Type: application/json'", "-H 'Content-Type: application/vnd.kafka.v2+json'"
    curl(f"""curl -X POST {json_type} -d '{{"topic_name":"lagging","partitions_count":1}}' {v3}/topics""")
    record = (
        '{"partition_id":0,"headers":[{"name":"Header-1","value":"SGVhZGVyLTE="}],'
        '"key":{"type":"BINARY","data":"Zm9vYmFy"},"value":{"type":"STRING","data":"Hello"},'
        '"timestamp":"2021-02-05T19:14:42Z"}'
    )
    _, reports = curl(f"curl -X POST {json_type} -d '{record * 4}' {v3}/topics/lagging/records")
    assert [json.loads(line)["key"] for line in reports.split()] == [{"type": "BINARY", "size": 6}] * 4
    _, made = curl(
        f"""curl -X POST {v2} -d '{{"auto.commit.enable":"false","auto.offset.reset":"earliest"}}' http://localhost:8082/consumers/g"""
    )
    at = made["base_uri"]
    curl(f"""curl -X POST {v2} -d '{{"topics":["lagging"]}}' {at}/subscription""")
    wait_for(lambda: bool(curl(f"curl {at}/records")[1]), "records of the instance")
    commit = '{"offsets":[{"topic":"lagging","partition":0,"offset":1}]}'
    assert curl(f"curl -X POST {v2} -d '{commit}' {at}/offsets")[0] == 204
    assert "g" in [each["consumer_group_id"] for each in curl(f"curl {v3}/consumer-groups")[1]["data"]]
    [member] = curl(f"curl {v3}/consumer-groups/g/consumers")[1]["data"]
    [place] = curl(f"curl {member['assignments']['related']}")[1]["data"]
    assert (place["topic_name"], place["partition_id"]) == ("lagging", 0)
    [lag] = curl(f"curl {v3}/consumer-groups/g/lags")[1]["data"]
    assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (1, 4, 3)
    summary = curl(f"curl {v3}/consumer-groups/g/lag-summary")[1]
    assert (summary["max_lag"], summary["total_lag"], summary["max_lag_topic_name"]) == (3, 3, "lagging")
    assert curl(f"curl -X DELETE {at}")[0] == 204


@pytest.mark.parametrize("kind", ["avro", "protobuf", "jsonschema"])
def test_formats_with_schemas_are_refused(curl: Curl, kind: str) -> None:
    """They need a schema registry: status 501, for producing and for a consumer instance."""
    status, refused = curl(
        f"""curl -X POST -H "Content-Type: application/vnd.kafka.{kind}.v2+json" \\
        -H "Accept: application/vnd.kafka.v2+json" --data '{{"value_schema": "{{\\"type\\": \\"string\\"}}",
        "records": [{{"value": "testUser"}}]}}' "http://localhost:8082/topics/{kind}test" """
    )
    assert (status, refused["error_code"], refused["status"]) == (501, 501, 501)
    status, refused = curl(
        f"""curl -X POST -H "Content-Type: application/vnd.kafka.v2+json" \\
        --data '{{"name": "my_consumer_instance", "format": "{kind}", "auto.offset.reset": "earliest"}}' \\
        http://localhost:8082/consumers/my_{kind}_consumer"""
    )
    assert (status, refused["error_code"]) == (501, 501)
    assert "schema registry" in refused["message"]
