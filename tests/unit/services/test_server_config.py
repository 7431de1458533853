"""The keys of a cluster, assigned to its kinds of servers."""

import pytest
from headrace.protocol.errors import ConfigError
from headrace.services.server_config import of_node, replicated, scaled, split_config


def test_keys_are_assigned_to_the_servers_that_declare_them() -> None:
    """Dotted or underscored; a key that both declare is set for both."""
    node, controller = split_config(
        {"num_partitions": 6, "log.segment.bytes": "1048576", "listener_host": "h"}
    )
    assert node == {"log.segment.bytes": "1048576", "listener.host": "h"}
    assert controller == {"num.partitions": 6, "listener.host": "h"}


def test_unknown_key_gets_a_suggestion() -> None:
    """The nearest name of either, written as the typo was: a keyword argument has no dots."""
    with pytest.raises(ConfigError, match=r"did you mean 'num\.partitions'"):
        split_config({"num.partition": 6})
    with pytest.raises(ConfigError, match="did you mean 'num_partitions'"):
        split_config({"num_partition": 6})


@pytest.mark.parametrize(
    "name", ["node.id", "log_dirs", "metadata.log.dir", "listener_port", "controller.id"]
)
def test_keys_that_the_host_sets_are_refused(name: str) -> None:
    """Two nodes with one id or one folder would fail much later."""
    with pytest.raises(ConfigError, match="host"):
        split_config({name: "1"})


def test_value_out_of_range_fails_before_a_server_starts() -> None:
    """Not in a process on another machine."""
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        split_config({"num.partitions": 0})


def test_replicas_of_internal_topics_are_limited_by_the_nodes() -> None:
    """Unless the key is set."""
    names = (
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
    )
    found = {nodes: tuple(scaled({}, nodes)[name] for name in names) for nodes in (1, 2, 3, 9)}
    assert found == {1: (1, 1, 1), 2: (2, 2, 2), 3: (3, 3, 2), 9: (3, 3, 2)}
    asked = scaled({names[0]: "3", "num.partitions": "4"}, 1)
    assert (asked[names[0]], asked[names[1]], asked["num.partitions"]) == ("3", 1, "4")


def test_kafka_ports_count_up_per_node() -> None:
    """From the configured one; 0 stays any free port."""
    node = {"listeners": "PLAINTEXT://:9092,OTHER://h:0", "advertised.listeners": ("PLAINTEXT://out:19092",)}
    found = of_node(node, 3, "/d")
    assert found["listeners"] == ("PLAINTEXT://:9094", "OTHER://h:0")
    assert found["advertised.listeners"] == ("PLAINTEXT://out:19094",)
    assert (found["node.id"], found["log.dirs"]) == (3, "/d")
    assert "listeners" not in of_node({}, 2, "/d")


def test_default_replication_factor_of_several_nodes() -> None:
    """As Kafka's operators set it; the command line overrides it."""
    names = ("default.replication.factor", "min.insync.replicas")
    found = {nodes: tuple(replicated({}, nodes)[name] for name in names) for nodes in (1, 2, 3, 9)}
    assert found == {1: (1, 1), 2: (2, 1), 3: (3, 2), 9: (3, 2)}
    asked = replicated({"default.replication.factor": "2", "num.partitions": "4"}, 3)
    assert asked == {"default.replication.factor": "2", "min.insync.replicas": 2, "num.partitions": "4"}


def test_references_are_resolved_by_the_server() -> None:
    """This machine may not have the file; the keys of providers go to all servers."""
    pairs = {"listener.host": "${file:/absent:host}", "config.providers": "file"}
    node, controller = split_config(pairs)
    assert node == controller == pairs
