"""What answers hold besides their error codes: each once differed from that of an Apache Kafka that was
asked the same (tests/oracle)."""

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


def test_a_topic_that_is_made_or_gone_is_told_as_java_reads_it(wire: Wire) -> None:
    """Configs that are null end Java's admin client; a topic deleted by name is told by its id, too."""
    for version in (5, 6, 7):
        made = create(wire, version, f"made-{version}")
        assert made["configs"] is not None
    gone = wire.ask("delete_topics", 6, topics=[{"name": "made-7"}], timeout=10_000)
    assert gone["responses"][0]["topic_id"] == made["topic_id"]


def test_a_topic_that_is_named_twice_is_told_once(wire: Wire) -> None:
    """As clients read answers: by name."""
    twice = [{"name": "twice", "num_partitions": 1, "replication_factor": 1}] * 2
    (told,) = wire.ask("create_topics", 5, topics=twice, timeout=10_000)["topics"]
    assert told["error_code"] == "invalid_request"


def test_what_could_not_be_read_is_told_as_kafka_tells_it(wire: Wire) -> None:
    """No log start offset beside an error; no list of aborted transactions where nobody asked for one, but an
    empty one of a partition that is not known."""
    for partition, offset, aborted in ((0, 99, None), (9, 0, [])):
        part = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1000}
        fields = {"replica_id": -1, "max_bytes": 1000, "topics": [{"topic": TOPIC, "partitions": [part]}]}
        (told,) = wire.ask("fetch", 11, session_epoch=-1, **fields)["responses"][0]["partitions"]
        assert told["error_code"] != "none"
        assert (told["log_start_offset"], told["aborted_transactions"]) == (-1, aborted)


def test_configs_have_no_documentation_unless_it_was_asked_for(wire: Wire) -> None:
    """Null, not an empty text."""
    resources = [{"resource_type": 2, "resource_name": TOPIC, "configuration_keys": ["retention.ms"]}]
    for is_asked in (False, True):
        told = wire.ask("describe_configs", 3, resources=resources, include_documentation=is_asked)
        assert bool(told["results"][0]["configs"][0]["documentation"]) is is_asked
        assert is_asked or told["results"][0]["configs"][0]["documentation"] is None


def listed(wire: Wire, version: int, timestamp: int) -> dict[str, Any]:
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
    topics = [{"name": TOPIC, "partitions": [part]}]
    (found,) = wire.ask("list_offsets", version, replica_id=-1, topics=topics)["topics"][0]["partitions"]
    return found


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_a_special_timestamp_means_something_since_a_version(wire: Wire, timestamp: int, since: int) -> None:
    """Before, it is a time that no version of that age has."""
    assert listed(wire, since - 1, timestamp)["error_code"] == "unsupported_version"
    assert listed(wire, since, timestamp)["error_code"] == "none"


def test_no_offset_has_no_leader_epoch(wire: Wire) -> None:
    """No record is as young as that."""
    found = listed(wire, 7, 1_700_000_000_000)
    assert (found["offset"], found["leader_epoch"]) == (-1, -1)


def test_a_member_that_nobody_knows_is_told_its_id(wire: Wire) -> None:
    """As in every answer to a join."""
    fields = {
        "group_id": "g",
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "nobody",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    told = wire.ask("join_group", 3, **fields)
    assert (told["error_code"], told["member_id"]) == ("unknown_member_id", "nobody")


def commit(wire: Wire, version: int, group: str, generation: int, partition: int = 0) -> str:
    part = {"partition_index": partition, "committed_offset": 1}
    fields = {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "topics": [{"name": TOPIC, "partitions": [part]}],
    }
    told = wire.ask("offset_commit", version, **fields)
    return str(told["topics"][0]["partitions"][0]["error_code"])


@pytest.mark.parametrize(("version", "code"), [(8, "illegal_generation"), (9, "group_id_not_found")])
def test_a_commit_of_no_group_is_told_as_its_version_knows_it(wire: Wire, version: int, code: str) -> None:
    """Older clients would not know what to do about a group that is not there."""
    assert commit(wire, version, "no-such-group", 1) == code


def test_offsets_of_partitions_that_do_not_exist_are_not_deleted(wire: Wire) -> None:
    """Each partition has an answer of its own."""
    assert commit(wire, 8, "simple", -1) == "none"
    parts = [{"partition_index": 0}, {"partition_index": 7}]
    topics = [{"name": TOPIC, "partitions": parts}, {"name": "no-such-topic", "partitions": parts[:1]}]
    told = wire.ask("offset_delete", 0, group_id="simple", topics=topics)
    assert told["error_code"] == "none"
    codes = {
        (topic["name"], part["partition_index"]): part["error_code"]
        for topic in told["topics"]
        for part in topic["partitions"]
    }
    assert codes == {
        (TOPIC, 0): "none",
        (TOPIC, 7): "unknown_topic_or_partition",
        ("no-such-topic", 0): "unknown_topic_or_partition",
    }


def test_who_comes_later_hears_of_a_topic(wire: Wire) -> None:
    """Clients that come, ask the same and go are answered alike, until there is something new to be said."""
    for number in range(3):
        name = f"later-{number}"
        create(wire, 7, name)
        assert until(partial(is_heard_of, wire, name), 30)
        assert all(is_heard_of(wire, name) for _ in range(5))


def is_heard_of(wire: Wire, name: str) -> bool:
    """Among all topics, by who has just come."""
    with Wire("{}:{}".format(*wire._socket.getpeername())) as other:
        other.ask("api_versions", 3, client_software_name="a", client_software_version="1")
        return name in {topic["name"] for topic in other.ask("metadata", 9, topics=None)["topics"]}


def test_log_levels_and_topic_configs_are_altered_by_one_request(wire: Wire) -> None:
    """The node alters its loggers, the controller the topic; the answers keep the order of the request."""
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
        told = [(each["resource_type"], each["error_code"]) for each in answer["responses"]]
        assert told == [(8, "none"), (2, "none"), (8, "invalid_request"), (2, "unknown_topic_or_partition")]
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
