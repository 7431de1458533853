"""Changes and descriptions of topic configs."""

import pytest
from controller_kit import Driver
from headrace.controller.state.config_rules import checked_configs
from headrace.controller.state.configs import changed_configs
from headrace.protocol.errors import InvalidConfigError, InvalidRequestError, UnknownTopicOrPartitionError
from headrace.protocol.messages import control

TOPIC = control.ConfigResource(2, "t")
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def driver() -> Driver:
    """One node, topic "t" with one config."""
    driver = Driver()
    driver.join(1)
    driver.create("t", configs={"max.message.bytes": "2048"})
    return driver


def alter(driver, *changes, resource=TOPIC, **facts):
    request = control.IncrementalAlterConfigsRequest((control.AlterConfigs(resource, changes),), **facts)
    return driver.ask(request).results[0]


def values(driver):
    return driver.image.configs.get((2, "t"), {})


def test_set_and_delete(driver) -> None:
    """Values are stored in canonical form; deleting a key that is not set is no error."""
    assert not alter(
        driver,
        control.ConfigChange("min_insync_replicas", SET, " 2 "),
        control.ConfigChange("max.message.bytes", DELETE),
        control.ConfigChange("segment.ms", DELETE),
    ).error_code
    assert values(driver) == {"min.insync.replicas": "2"}
    assert not alter(driver, control.ConfigChange("min.insync.replicas", DELETE)).error_code
    assert set(driver.image.configs) == {(4, "")}


def test_setting_the_same_value_records_nothing(driver) -> None:
    """A repeated request writes no record."""
    before = driver.image
    assert not alter(driver, control.ConfigChange("max.message.bytes", SET, "2048")).error_code
    assert driver.image is before


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([("no.such.key", SET, "1")], InvalidConfigError),
        ([("no.such.key", DELETE, "")], InvalidConfigError),
        ([("max.message.bytes", SET, "-1")], InvalidConfigError),
        ([("max.message.bytes", SET, "1" * 5000)], InvalidConfigError),
        ([("x" * 100_000, SET, "1")], InvalidConfigError),
        ([("max.message.bytes", APPEND, "1")], InvalidConfigError),
        ([("max.message.bytes", SUBTRACT, "1")], InvalidConfigError),
        ([("max.message.bytes", 9, "1")], InvalidRequestError),
        ([("segment.ms", SET, "1"), ("segment_ms", DELETE, "")], InvalidRequestError),
        ([("segment.ms", SET, "1000"), ("max.message.bytes", SET, "x")], InvalidConfigError),
        ([("segment.ms", SET, "10"), ("segment.jitter.ms", SET, "11")], InvalidConfigError),
    ],
)
def test_invalid_changes(driver, changes, error) -> None:
    """One invalid change refuses all changes of the resource."""
    before = driver.image
    result = alter(driver, *(control.ConfigChange(*change) for change in changes))
    assert result.error_code == error.code
    assert len(result.error_detail) < 1000
    assert driver.image is before


def test_too_many_changes() -> None:
    """More changes than there are keys."""
    with pytest.raises(InvalidRequestError, match="at most"):
        changed_configs({}, tuple(control.ConfigChange("segment.ms", DELETE) for _ in range(201)))


def test_a_key_under_two_spellings_is_refused() -> None:
    """Dots and underscores name the same key."""
    with pytest.raises(InvalidConfigError, match="twice"):
        checked_configs({"segment.ms": "1", "segment_ms": "2"})


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (control.ConfigResource(2, "none"), UnknownTopicOrPartitionError),
        (control.ConfigResource(4, "77"), InvalidRequestError),
        (control.ConfigResource(77, ""), InvalidRequestError),
    ],
)
def test_resources_without_configs(driver, resource, error) -> None:
    """An unknown topic, an unknown node, an unknown type: neither changed nor described."""
    assert (
        alter(driver, control.ConfigChange("segment.ms", SET, "1"), resource=resource).error_code
        == error.code
    )
    described = driver.ask(control.DescribeConfigsRequest((resource,))).results[0]
    assert described.error_code == error.code
    assert not described.entries


def test_a_repeated_resource_is_refused(driver) -> None:
    """The other resources are changed; validate_only records nothing."""
    before = driver.image
    change = control.AlterConfigs(TOPIC, (control.ConfigChange("segment.ms", SET, "1"),))
    assert not alter(driver, *change.changes, validate_only=True).error_code
    assert driver.image is before
    results = driver.ask(control.IncrementalAlterConfigsRequest((change, change))).results
    assert [result.error_code for result in results] == [0, InvalidRequestError.code]
    with pytest.raises(InvalidRequestError, match="at most"):
        driver.ask(control.IncrementalAlterConfigsRequest((change,) * 1001))


def test_descriptions_have_the_source_of_a_value(driver) -> None:
    """All keys with their documentation; the one that was set has its source."""
    request = control.DescribeConfigsRequest((TOPIC,), include_documentation=True)
    entries = {e.name: e for e in driver.ask(request).results[0].entries}
    own = entries["max.message.bytes"]
    assert (own.value, own.source, own.is_default) == ("2048", 1, False)
    default = entries["message.timestamp.type"]
    assert (default.value, default.source, default.is_default) == ("CreateTime", 5, True)
    assert all(entry.doc for entry in entries.values())
    assert entries["preallocate"].value == "false"


# --- the cluster and single nodes -----------------------------------------------------------------------

CLUSTER, NODE = control.ConfigResource(4, ""), control.ConfigResource(4, "1")


def described(driver, resource):
    reply = driver.ask(control.DescribeConfigsRequest((resource,))).results[0]
    assert not reply.error_code
    return {e.name: (e.value, e.source) for e in reply.entries}


def test_cluster_values_are_described_with_source_3(driver) -> None:
    """Also in the description of topics and nodes; a resource's own value wins."""
    for name, value in (("min.insync.replicas", "2"), ("leader.replication.throttled.rate", "1000")):
        assert not alter(driver, control.ConfigChange(name, SET, value), resource=CLUSTER).error_code
    assert described(driver, CLUSTER)["min.insync.replicas"] == ("2", 3)
    assert described(driver, TOPIC)["min.insync.replicas"] == ("2", 3)
    assert described(driver, NODE)["leader.replication.throttled.rate"] == ("1000", 3)
    alter(driver, control.ConfigChange("leader.replication.throttled.rate", SET, "7"), resource=NODE)
    alter(driver, control.ConfigChange("min.insync.replicas", SET, "1"))
    assert described(driver, NODE)["leader.replication.throttled.rate"] == ("7", 2)
    assert described(driver, TOPIC)["min.insync.replicas"] == ("1", 1)
    alter(driver, control.ConfigChange("leader.replication.throttled.rate", DELETE), resource=CLUSTER)
    assert described(driver, CLUSTER)["leader.replication.throttled.rate"][1] == 5
    assert described(driver, NODE)["min.insync.replicas"] == ("2", 3)
    assert "log.retention.ms" not in described(driver, NODE)  # the node's file is unknown here


@pytest.mark.parametrize(
    ("resource", "name", "value"),
    [
        (NODE, "min.insync.replicas", "2"),  # one value for the cluster, not for a node
        (NODE, "unclean.leader.election.enable", "true"),
        (CLUSTER, "segment.ms", "1"),
        (CLUSTER, "node.id", "7"),
        (NODE, "log.dirs", "/elsewhere"),
        (NODE, "num.partitions", "3"),
        (CLUSTER, "broker.session.timeout.ms", "3000"),
        (CLUSTER, "retention.ms", "1"),
        (TOPIC, "log.retention.ms", "1"),
        (CLUSTER, "background.threads", "0"),
        (CLUSTER, "log.retention.ms", ""),  # empty in a file; here the key is deleted instead
        (CLUSTER, "log.retention.ms", "0"),
        (NODE, "max.connections", "many"),
        (CLUSTER, "min.insync.replicas", "0"),
        (CLUSTER, "unclean.leader.election.enable", "maybe"),
        (NODE, "follower.replication.throttled.rate", "-1"),
        (TOPIC, "leader.replication.throttled.rate", "1"),
        (TOPIC, "leader.replication.throttled.replicas", "1"),
        (TOPIC, "leader.replication.throttled.replicas", "0:1,*"),
        (TOPIC, "follower.replication.throttled.replicas", "0:-1"),
        (TOPIC, "follower.replication.throttled.replicas", "a:1"),
    ],
)
def test_invalid_replication_configs(driver, resource, name, value) -> None:
    """An unknown key there, or an invalid value; no record is written."""
    before = driver.image
    assert alter(driver, control.ConfigChange(name, SET, value), resource=resource).error_code == (
        InvalidConfigError.code
    )
    assert driver.image is before


@pytest.mark.parametrize("value", ["*", "0:1", "0:1,12:345", ""])
def test_throttled_replicas(driver, value) -> None:
    assert not alter(
        driver, control.ConfigChange("leader.replication.throttled.replicas", SET, value)
    ).error_code
    assert values(driver)["leader.replication.throttled.replicas"] == value


def test_throttled_replicas_are_a_list(driver) -> None:
    """A reassignment appends its own."""
    name = "follower.replication.throttled.replicas"
    for operation, value in ((SET, "0:1"), (APPEND, "0:2,0:1"), (SUBTRACT, "0:1")):
        assert not alter(driver, control.ConfigChange(name, operation, value)).error_code
    assert values(driver)[name] == "0:2"
