"""NodeConfig: refused values, and the defaults of topic keys."""

import re
from typing import Any

import pytest
from headrace.protocol.errors import ConfigError
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.log.config import LogConfig
from headrace.storage_node.log.log_defaults import TOPIC_KEY_SYNONYMS, effective_log_config


def node_config(**values: Any) -> NodeConfig:
    return NodeConfig.of(
        {"log.dirs": "/a"} | {name.replace("_", "."): value for name, value in values.items()}
    )


def test_log_dirs_are_required_and_distinct() -> None:
    """Without a directory, or with one twice, the node does not start."""
    with pytest.raises(ConfigError, match="at least one"):
        NodeConfig()
    with pytest.raises(ConfigError, match="twice"):
        NodeConfig.of({"log.dirs": "/a,/b,/a"})


def test_the_maximum_backoff_is_not_below_the_first() -> None:
    """A check across two keys."""
    with pytest.raises(ConfigError, match=r"controller\.backoff\.max\.ms"):
        node_config(controller_backoff_ms=100, controller_backoff_max_ms=50)


def test_contradicting_defaults_of_topic_keys_are_refused() -> None:
    """At the node's start, not when a topic is created."""
    with pytest.raises(ConfigError, match="jitter"):
        node_config(log_roll_ms=10, log_roll_jitter_ms=11)


def test_broker_keys_become_topic_defaults() -> None:
    """The log.* keys of a node are the defaults of its topics, under the topic's names."""
    config = node_config(log_roll_ms=5_000, message_max_bytes=77, log_durability="fsync")
    defaults = config.log_defaults()
    assert (defaults.segment_ms, defaults.max_message_bytes, defaults.durability) == (5_000, 77, "fsync")


@pytest.mark.parametrize(
    ("name", "values", "wrong"),
    [
        (
            "compression.type",
            ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            ("none", "GZIP", "brotli", ""),
        ),
        ("compression.gzip.level", ("-1", "1", "9"), ("-2", "0", "10", "x")),
        ("compression.lz4.level", ("1", "9", "17"), ("-1", "0", "18")),
        ("compression.zstd.level", ("-131072", "-1", "0", "3", "22"), ("-131073", "23")),
    ],
)
def test_values_of_compression_type(name: str, values: tuple[str, ...], wrong: tuple[str, ...]) -> None:
    """As a topic key and, under the same name, as a node's default."""
    for value in values:
        assert str(LogConfig.of({name: value}).to_mapping()[name]) == value
        assert str(node_config(**{name: value}).log_defaults().to_mapping()[name]) == value
    for value in wrong:
        with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
            LogConfig.of({name: value})
        with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
            node_config(**{name: value})


def test_compression_levels() -> None:
    """Each codec has a key of its own; snappy has no levels."""
    levels = {"compression_gzip_level": 2, "compression_lz4_level": 4, "compression_zstd_level": 6}
    found = {
        name: LogConfig(compression_type=name, **levels).target_level
        for name in ("gzip", "lz4", "zstd", "snappy", "uncompressed", "producer")
    }
    assert found == {"gzip": 2, "lz4": 4, "zstd": 6, "snappy": None, "uncompressed": None, "producer": None}


@pytest.mark.parametrize(
    ("keys", "retention_ms"),
    [
        ({}, 7 * 24 * 3_600_000),
        ({"log_retention_hours": 2}, 7_200_000),
        ({"log_retention_hours": -1}, -1),
        ({"log_retention_hours": 2, "log_retention_minutes": 3}, 180_000),
        ({"log_retention_hours": 2, "log_retention_minutes": -1}, -1),
        ({"log_retention_hours": 2, "log_retention_minutes": 3, "log_retention_ms": 4}, 4),
        ({"log_retention_minutes": 3, "log_retention_ms": "-1"}, -1),
        ({"log_retention_minutes": "3", "log_retention_ms": ""}, 180_000),
    ],
)
def test_milliseconds_come_before_minutes_before_hours(keys: dict[str, Any], retention_ms: int) -> None:
    """Kafka's precedence; the empty string is not set."""
    assert node_config(**keys).log_defaults().retention_ms == retention_ms


@pytest.mark.parametrize("key", ["log_retention_hours", "log_retention_minutes", "log_retention_ms"])
def test_retention_of_0_ms_is_refused(key: str) -> None:
    """As in Kafka a node's default is -1 or at least 1 ms."""
    with pytest.raises(ConfigError, match="at least 1"):
        node_config(**{key: 0})


def test_log_roll_hours_are_converted() -> None:
    """For the time and its jitter."""
    defaults = node_config(log_roll_hours=3, log_roll_jitter_hours=2).log_defaults()
    assert (defaults.segment_ms, defaults.segment_jitter_ms) == (3 * 3_600_000, 2 * 3_600_000)
    keys = {"log_roll_hours": 3, "log_roll_jitter_hours": 2, "log_roll_ms": 9, "log_roll_jitter_ms": 0}
    defaults = node_config(**keys).log_defaults()
    assert (defaults.segment_ms, defaults.segment_jitter_ms) == (9, 0)


def test_default_node_configs_give_the_default_topic_configs() -> None:
    """A node without any key gives topics the documented defaults."""
    assert node_config().log_defaults() == LogConfig()


def test_every_topic_key_has_a_broker_wide_default() -> None:
    """A new topic key without a synonym could not be set for a whole node. Exceptions: throttled replicas,
    and unclean elections, whose default is the cluster's."""
    without = {
        "unclean.leader.election.enable",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    }
    assert sorted(TOPIC_KEY_SYNONYMS.values()) == sorted(LogConfig.keys().keys() - without)
    assert set(TOPIC_KEY_SYNONYMS) <= set(NodeConfig.keys())


def test_an_out_of_range_default_is_refused_under_the_nodes_key() -> None:
    """Not under the topic's."""
    for name, topic_key in TOPIC_KEY_SYNONYMS.items():
        high = LogConfig.keys()[topic_key].high
        if high is not None:
            with pytest.raises(ConfigError, match=f"^{re.escape(name)} must be at most"):
                NodeConfig.of({"log.dirs": "/d", name: int(high) + 1})


def test_unknown_keys_and_values_are_ignored() -> None:
    """A newer controller may have allowed them."""
    values = {"remote.storage.enable": "true", "durability": "paranoid", "segment.ms": "1234"}
    config, faults = effective_log_config(LogConfig(), values)
    assert config == LogConfig(segment_ms=1_234)
    assert len(faults) == 1
    assert "paranoid" in faults[0]


def test_a_topics_values_are_checked_together() -> None:
    """Each alone would contradict the default of the other."""
    days = 24 * 3_600_000
    values = {"segment.jitter.ms": str(30 * days), "segment.ms": str(90 * days)}
    assert effective_log_config(LogConfig(), values) == (
        LogConfig(segment_jitter_ms=30 * days, segment_ms=90 * days),
        (),
    )


def test_the_advertised_address_is_specific() -> None:
    """By default the listener's; with a wildcard listener another host is required."""
    assert NodeConfig.of({"log.dirs": "/d"}).host == "127.0.0.1"
    both = {"log.dirs": "/d", "listener.host": "0.0.0.0", "advertised.host": "node-1.example"}
    assert NodeConfig.of(both).host == "node-1.example"
    for listener, advertised in (("0.0.0.0", ""), ("::", ""), ("", ""), ("10.0.0.1", "0.0.0.0")):
        with pytest.raises(ConfigError, match=r"advertised\.host"):
            NodeConfig.of({"log.dirs": "/d", "listener.host": listener, "advertised.host": advertised})


@pytest.mark.parametrize("key", ["offsets.topic.segment.bytes", "transaction.state.log.segment.bytes"])
def test_an_invalid_segment_size_of_an_internal_topic_is_refused(key: str) -> None:
    """At the start, not when the topic is created."""
    smallest = LogConfig.of({"segment.bytes": 1 << 20}).segment_bytes
    NodeConfig.of({"log.dirs": "/d", key: smallest})
    with pytest.raises(ConfigError, match=r"at least"):
        NodeConfig.of({"log.dirs": "/d", key: smallest - 1})
