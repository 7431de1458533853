"""DescribeConfigs of a node: its own file, sensitive values, resources of other nodes or none."""

from dataclasses import dataclass
from typing import Any

import pytest
from headrace.controller.state.config_rules import TOPIC_KEYS, Keys
from headrace.protocol.errors import InvalidConfigError, InvalidRequestError, UnknownTopicOrPartitionError
from headrace.protocol.messages import control
from headrace.protocol.metadata.image import (
    BROKER_RESOURCE,
    CLUSTER_DEFAULT,
    BrokerRegistration,
    MetadataImage,
    TopicImage,
)
from headrace.runtime.config import Config, key
from headrace.storage_node.configs import config_entries
from headrace.storage_node.configs.config_answers import MAX_RESOURCES, answer_configs, cluster_part
from headrace.storage_node.configs.live_config import LiveConfig
from headrace.storage_node.configs.logger_levels_io import ProcessLoggers
from headrace.storage_node.configs.node_config import NodeConfig

TOPIC, CLUSTER, HERE, THERE = (
    control.ConfigResource(2, "t"),
    control.ConfigResource(*CLUSTER_DEFAULT),
    control.ConfigResource(4, "1"),
    control.ConfigResource(4, "2"),
)
CONFIGS = {
    (2, "t"): {"retention.ms": "1"},
    (BROKER_RESOURCE, "1"): {"log.retention.ms": "2", "background.threads": "9"},
    (BROKER_RESOURCE, "2"): {"log.roll.ms": "7"},
    CLUSTER_DEFAULT: {"log.retention.ms": "3", "max.connections": "8"},
}


def image(configs: Any = None) -> MetadataImage:
    brokers = {n: BrokerRegistration(n, 1, b"", "h", 1, None, (), False) for n in (1, 2)}
    topics = {"t": TopicImage("t", b"i" * 16, ())}
    return MetadataImage(
        7, "c", 0, brokers, topics, {b"i" * 16: "t"}, CONFIGS if configs is None else configs
    )


def response(
    *resources: control.ConfigResource,
    configs: Any = None,
    of_cluster: Any = (),
    docs: bool = False,
    **own: Any,
) -> Any:
    node = NodeConfig.of({"log.dirs": "/d", **{name.replace("_", "."): v for name, v in own.items()}})
    request = control.DescribeConfigsRequest(resources, include_synonyms=True, include_documentation=docs)
    answer = answer_configs(
        image(configs),
        LiveConfig(node),
        1,
        request,
        control.DescribeConfigsResponse(of_cluster),
        ProcessLoggers(),
    )
    assert answer.metadata_offset == 7
    return answer.results


def levels(entry: Any) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.value, each.source) for each in entry.synonyms]


def by_name(described: Any) -> dict[str, Any]:
    return {entry.name: entry for entry in described.entries}


def test_synonyms_have_kafkas_order() -> None:
    """Topic, this node, all nodes, this node's file, built-in default; under the names of each level."""
    entry = by_name(response(TOPIC, log_retention_ms=4)[0])["retention.ms"]
    assert levels(entry) == [
        ("retention.ms", "1", 1),
        ("log.retention.ms", "2", 2),
        ("log.retention.ms", "3", 3),
        ("log.retention.ms", "4", 4),
        ("log.retention.hours", "168", 5),
    ]
    assert (entry.value, entry.source, entry.is_default) == ("1", 1, False)


def test_a_key_without_a_broker_config_has_no_default_synonym() -> None:
    """As in Kafka, only the topic's own value is a synonym of such a key."""
    name = "leader.replication.throttled.replicas"
    assert levels(by_name(response(TOPIC)[0])[name]) == []
    entry = by_name(response(TOPIC, configs={(2, "t"): {name: "*"}})[0])[name]
    assert (levels(entry), entry.value, entry.source) == ([(name, "*", 1)], "*", 1)


def test_values_of_the_nodes_file_are_described() -> None:
    """For its topics and for itself, read-only keys included."""
    topic, node = map(by_name, response(TOPIC, HERE, configs={}, log_retention_ms=4, broker_rack="r"))
    assert (topic["retention.ms"].value, topic["retention.ms"].source) == ("4", 4)
    assert (node["log.retention.ms"].value, node["log.retention.ms"].source) == ("4", 4)
    rack, dirs = node["broker.rack"], node["log.dirs"]
    assert (rack.value, rack.source, rack.is_read_only, rack.is_default) == ("r", 4, True, True)
    assert (dirs.value, dirs.config_type) == ("/d", 7)
    assert node.keys() == NodeConfig.keys().keys()
    assert not node["background.threads"].is_read_only
    assert not node["min.insync.replicas"].is_read_only  # as in Kafka, which refuses to set it on a broker


def test_minutes_and_hours_are_synonyms_of_milliseconds() -> None:
    """Under their names in the file, after the milliseconds; the effective value is in milliseconds."""
    own = {"log_retention_hours": 2, "log_retention_minutes": 3, "log_roll_hours": 4}
    topic, node = map(by_name, response(TOPIC, HERE, configs={}, **own))
    for entry, name in (
        (topic["retention.ms"], "retention.ms"),
        (node["log.retention.ms"], "log.retention.ms"),
    ):
        assert (entry.name, entry.value, entry.source) == (name, str(3 * 60_000), 4)
        assert levels(entry) == [
            ("log.retention.minutes", "3", 4),
            ("log.retention.hours", "2", 4),
            ("log.retention.hours", "168", 5),
        ]
        assert entry.config_type == 5
    assert (topic["segment.ms"].value, node["log.roll.ms"].value) == (str(4 * 3_600_000),) * 2
    hours = node["log.retention.hours"]
    assert (hours.value, hours.is_read_only) == ("2", True)
    assert node["log.roll.jitter.ms"].value == "0"
    assert (
        by_name(response(THERE, configs={(4, "2"): {"log.retention.ms": "7"}})[0])["log.retention.ms"].value
        == "7"
    )


def test_values_that_the_node_rejected_are_not_described() -> None:
    """Neither of the node nor of a topic: they contradict its file, which the controller does not know."""
    configs = {
        CLUSTER_DEFAULT: {"log.roll.jitter.ms": "2000", "max.connections": "8"},
        (2, "t"): {"min.compaction.lag.ms": "50", "retention.ms": "5"},
    }
    own = {"log_roll_ms": 1_000, "log_cleaner_max_compaction_lag_ms": 40}
    topic, node = map(by_name, response(TOPIC, HERE, configs=configs, **own))
    assert (node["log.roll.jitter.ms"].value, node["log.roll.jitter.ms"].source) == ("0", 5)
    assert (topic["segment.jitter.ms"].value, topic["segment.jitter.ms"].source) == ("0", 5)
    lag = topic["min.compaction.lag.ms"]
    assert (lag.value, lag.source, lag.is_default) == ("0", 5, False)  # set there, and not in effect here
    assert (topic["retention.ms"].value, node["max.connections"].value) == ("5", "8")


def test_types_and_docs_on_demand() -> None:
    """Kafka's type numbers; documentation if the request asks for it."""
    entries = by_name(response(HERE)[0])
    names = (
        "log.preallocate",
        "broker.rack",
        "max.connections",
        "log.cleaner.min.cleanable.ratio",
        "log.dirs",
    )
    assert [entries[name].config_type for name in names] == [1, 2, 5, 6, 7]
    assert not any(entry.doc for entry in entries.values())
    assert all(entry.doc for entry in response(HERE, docs=True)[0].entries)


def test_another_node_is_described_by_its_dynamic_configs() -> None:
    """Its file is unknown here."""
    found = {entry.name: levels(entry) for entry in response(THERE, max_connections=5)[0].entries}
    assert found == {
        "log.roll.ms": [("log.roll.ms", "7", 2)],
        "log.retention.ms": [("log.retention.ms", "3", 3)],
        "max.connections": [("max.connections", "8", 3)],
    }


def test_controller_describes_cluster_wide_configs() -> None:
    """They are requested alone, and inserted at their position."""
    of_cluster = control.DescribedConfigs(CLUSTER)
    results = response(TOPIC, CLUSTER, HERE, of_cluster=(of_cluster,))
    assert [each.resource for each in results] == [TOPIC, CLUSTER, HERE]
    assert results[1] is of_cluster
    request = control.DescribeConfigsRequest((TOPIC, CLUSTER, HERE), True, True)
    assert cluster_part(request) == control.DescribeConfigsRequest((CLUSTER,), True, True)
    with pytest.raises(InvalidRequestError, match="at most"):
        cluster_part(control.DescribeConfigsRequest((TOPIC,) * (MAX_RESOURCES + 1)))


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (control.ConfigResource(2, "none"), UnknownTopicOrPartitionError),
        (control.ConfigResource(4, "77"), InvalidRequestError),
        (control.ConfigResource(4, "one"), InvalidRequestError),
        (control.ConfigResource(77, ""), InvalidRequestError),
    ],
)
def test_unknown_resources_have_errors(resource: control.ConfigResource, error: type[Any]) -> None:
    """The other resources are described."""
    wrong, right = response(resource, TOPIC)
    assert wrong.error_code == error.code
    assert not wrong.entries
    assert right.entries


def test_sensitive_values_are_masked_on_every_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the value and in all synonyms; unknown keys are taken for sensitive."""

    @dataclass(frozen=True, kw_only=True)
    class WithSecret(NodeConfig):
        password: str = key("ssl.key.password", "", doc="d", live=True, sensitive=True)

    monkeypatch.setattr(config_entries, "NodeConfig", WithSecret)
    configs = {
        (BROKER_RESOURCE, "1"): {"ssl.key.password": "hush-node", "key.of.tomorrow": "hush-tomorrow"},
        CLUSTER_DEFAULT: {"ssl.key.password": "hush-cluster"},
    }
    node = WithSecret.of({"log.dirs": "/d", "ssl.key.password": "hush-file"})
    request = control.DescribeConfigsRequest((HERE,), include_synonyms=True, include_documentation=True)
    answer = answer_configs(
        image(configs), LiveConfig(node), 1, request, control.DescribeConfigsResponse(()), ProcessLoggers()
    )
    assert "hush" not in repr(answer)
    entries = by_name(answer.results[0])
    password = entries["ssl.key.password"]
    assert (password.value, password.is_sensitive, password.config_type) == (None, True, 9)
    assert levels(password) == [("ssl.key.password", None, source) for source in (2, 3, 4, 5)]
    tomorrow = entries["key.of.tomorrow"]
    assert (tomorrow.value, tomorrow.is_sensitive, tomorrow.source) == (None, True, 2)
    assert "hush" not in repr(node)


def test_an_error_does_not_contain_a_sensitive_value() -> None:
    """Responses go to clients and into logs."""

    @dataclass(frozen=True, kw_only=True)
    class Secretive(Config):
        pin: int = key("pin", 0, doc="d", live=True, sensitive=True)

    from headrace.controller.state import config_rules

    config_rules._REQUIRED[Secretive] = {}
    try:
        with pytest.raises(InvalidConfigError, match="sensitive") as caught:
            Keys("a thing", (Secretive,)).checked({"pin": "hush"})
    finally:
        del config_rules._REQUIRED[Secretive]
    assert "hush" not in str(caught.value)
    assert TOPIC_KEYS.checked({}) == {}
