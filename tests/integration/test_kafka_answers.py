"""Response fields besides error codes, each of which once differed from Apache Kafka's (tests/oracle)."""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

import headrace
import pytest
from beside.wire import Wire
from headrace.runtime.waiting_io import until

TOPIC = "answers"


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    """A connection to a cluster with a topic and a group coordinator."""
    with (
        headrace.local(listeners="PLAINTEXT://127.0.0.1:0") as cluster,
        Wire(cluster.kafka_bootstrap) as wire,
    ):
        create(wire, 7, TOPIC)
        assert until(lambda: wire.ask("find_coordinator", 2, key="g")["error_code"] == "none", 300)
        yield wire


def create(wire: Wire, version: int, name: str, **more: Any) -> dict[str, Any]:
    topics = [{"name": name, "num_partitions": 2, "replication_factor": 1}]
    (made,) = wire.ask("create_topics", version, topics=topics, timeout=10_000, **more)["topics"]
    assert made["error_code"] == "none"
    return made


def test_created_and_deleted_topics_have_the_fields_that_java_needs(wire: Wire) -> None:
    """Null configs would end Java's admin client; a topic deleted by name is returned with its id."""
    for version in (5, 6, 7):
        made = create(wire, version, f"made-{version}")
        assert made["configs"] is not None
    gone = wire.ask("delete_topics", 6, topics=[{"name": "made-7"}], timeout=10_000)
    assert gone["responses"][0]["topic_id"] == made["topic_id"]


def test_topic_named_twice_is_returned_once(wire: Wire) -> None:
    """Clients read responses by name."""
    twice = [{"name": "twice", "num_partitions": 1, "replication_factor": 1}] * 2
    (response,) = wire.ask("create_topics", 5, topics=twice, timeout=10_000)["topics"]
    assert response["error_code"] == "invalid_request"


def test_fetch_errors_have_kafkas_fields(wire: Wire) -> None:
    """No log start offset beside an error; aborted transactions are null unless requested."""
    for partition, offset, aborted in ((0, 99, None), (9, 0, [])):
        part = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1000}
        fields = {"replica_id": -1, "max_bytes": 1000, "topics": [{"topic": TOPIC, "partitions": [part]}]}
        (response,) = wire.ask("fetch", 11, session_epoch=-1, **fields)["responses"][0]["partitions"]
        assert response["error_code"] != "none"
        assert (response["log_start_offset"], response["aborted_transactions"]) == (-1, aborted)


def test_configs_have_documentation_on_request_only(wire: Wire) -> None:
    """Null, not an empty text."""
    resources = [{"resource_type": 2, "resource_name": TOPIC, "configuration_keys": ["retention.ms"]}]
    for is_asked in (False, True):
        response = wire.ask("describe_configs", 3, resources=resources, include_documentation=is_asked)
        assert bool(response["results"][0]["configs"][0]["documentation"]) is is_asked
        assert is_asked or response["results"][0]["configs"][0]["documentation"] is None


def listed(wire: Wire, version: int, timestamp: int) -> dict[str, Any]:
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
    topics = [{"name": TOPIC, "partitions": [part]}]
    (found,) = wire.ask("list_offsets", version, replica_id=-1, topics=topics)["topics"][0]["partitions"]
    return found


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_special_timestamps_depend_on_the_version(wire: Wire, timestamp: int, since: int) -> None:
    """In older versions it is a timestamp that no record has."""
    assert listed(wire, since - 1, timestamp)["error_code"] == "unsupported_version"
    assert listed(wire, since, timestamp)["error_code"] == "none"


def test_missing_offset_has_no_leader_epoch(wire: Wire) -> None:
    """No record is as new as the timestamp."""
    found = listed(wire, 7, 1_700_000_000_000)
    assert (found["offset"], found["leader_epoch"]) == (-1, -1)


def test_unknown_member_gets_its_id_in_the_response(wire: Wire) -> None:
    """As in every response to a join."""
    fields = {
        "group_id": "g",
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "unknown",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    response = wire.ask("join_group", 3, **fields)
    assert (response["error_code"], response["member_id"]) == ("unknown_member_id", "unknown")


def commit(wire: Wire, version: int, group: str, generation: int, partition: int = 0) -> str:
    part = {"partition_index": partition, "committed_offset": 1}
    fields = {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "topics": [{"name": TOPIC, "partitions": [part]}],
    }
    response = wire.ask("offset_commit", version, **fields)
    return str(response["topics"][0]["partitions"][0]["error_code"])


@pytest.mark.parametrize(("version", "code"), [(8, "illegal_generation"), (9, "group_id_not_found")])
def test_commit_of_an_unknown_group_has_the_error_of_its_version(wire: Wire, version: int, code: str) -> None:
    """Older clients do not know GROUP_ID_NOT_FOUND."""
    assert commit(wire, version, "no-such-group", 1) == code


def test_deletion_of_offsets_of_unknown_partitions_fails(wire: Wire) -> None:
    """Each partition has its own result."""
    assert commit(wire, 8, "simple", -1) == "none"
    parts = [{"partition_index": 0}, {"partition_index": 7}]
    topics = [{"name": TOPIC, "partitions": parts}, {"name": "no-such-topic", "partitions": parts[:1]}]
    response = wire.ask("offset_delete", 0, group_id="simple", topics=topics)
    assert response["error_code"] == "none"
    codes = {
        (topic["name"], part["partition_index"]): part["error_code"]
        for topic in response["topics"]
        for part in topic["partitions"]
    }
    assert codes == {
        (TOPIC, 0): "none",
        (TOPIC, 7): "unknown_topic_or_partition",
        ("no-such-topic", 0): "unknown_topic_or_partition",
    }


def test_metadata_of_new_connections_has_new_topics(wire: Wire) -> None:
    """Connections that send the same request get the cached response until the metadata changes."""
    for number in range(3):
        name = f"later-{number}"
        create(wire, 7, name)
        assert until(partial(has_topic, wire, name), 30)
        assert all(has_topic(wire, name) for _ in range(5))


def has_topic(wire: Wire, name: str) -> bool:
    """In the list of all topics, over a new connection."""
    with Wire("{}:{}".format(*wire._socket.getpeername())) as other:
        other.ask("api_versions", 3, client_software_name="a", client_software_version="1")
        return name in {topic["name"] for topic in other.ask("metadata", 9, topics=None)["topics"]}


def test_one_request_alters_loggers_and_topic_configs(wire: Wire) -> None:
    """The node alters its loggers, the controller the topic; results are in the order of the request."""
    name = "headrace.storage_node"
    logger, level = logging.getLogger(name), logging.getLogger(name).level

    def resource(kind: int, of: str, key: str, value: str) -> dict[str, Any]:
        changes = [{"name": key, "config_operation": 0, "value": value}]
        return {"resource_type": kind, "resource_name": of, "configs": changes}

    resources = [
        resource(8, "1", name, "ERROR"),
        resource(2, TOPIC, "retention.ms", "7200000"),
        resource(8, "2", name, "ERROR"),
        resource(2, "no-such-topic", "retention.ms", "1"),
    ]
    try:
        answer = wire.ask("incremental_alter_configs", 1, resources=resources)
        response = [(each["resource_type"], each["error_code"]) for each in answer["responses"]]
        assert response == [
            (8, "none"),
            (2, "none"),
            (8, "invalid_request"),
            (2, "unknown_topic_or_partition"),
        ]
        keys = (("8", "1", name), ("2", TOPIC, "retention.ms"))
        wanted = [
            {"resource_type": int(kind), "resource_name": of, "configuration_keys": [key]}
            for kind, of, key in keys
        ]
        found = wire.ask("describe_configs", 4, resources=wanted)["results"]
        assert [each["configs"][0]["value"] for each in found] == ["ERROR", "7200000"]
        assert logger.level == logging.ERROR
    finally:
        logger.setLevel(level)
