"""Dynamic configs: they take effect at once, survive restarts, and reach nodes that start later."""

import time
from pathlib import Path
from typing import Any

import pytest
from headrace.clients.admin.admin_types import EARLIEST, LATEST, ConfigSource, NewTopic, Resource
from headrace.protocol.errors import (
    ApiTimeoutError,
    InvalidConfigError,
    InvalidRequestError,
    MessageTooLargeError,
)
from headrace.protocol.model import TopicPartition
from headrace.services.local_io import LocalCluster, local

CLUSTER, NODE_1, NODE_2, NODE_3 = Resource.broker(), *(Resource.broker(n) for n in (1, 2, 3))
MIB = 1024 * 1024


def is_refused(cluster: LocalCluster, topic: str, size: int) -> bool:
    """Whether a record of this size is refused now."""
    with cluster.producer() as producer:
        try:
            producer.send(topic, b"v" * size).result(60)
        except MessageTooLargeError:
            return True
    return False


def segments(path: Path, topic: str) -> int:
    return len(list(path.rglob(f"{topic}-0/*.log")))


def alter(cluster: LocalCluster, resource: Resource, **values: Any) -> None:
    with cluster.admin() as admin:
        changes = {name.replace("_", "."): value for name, value in values.items()}
        admin.alter_configs({resource: changes}).raise_for_errors()


def value(cluster: LocalCluster, resource: Resource, name: str) -> tuple[str | None, ConfigSource]:
    with cluster.admin() as admin:
        found = admin.describe_configs(resource)[resource][name]
    return found.value, found.source


def test_message_size_is_overridden_by_node_and_topic(tmp_path: Path) -> None:
    """The cluster's, the node's over it, the topic's over both; each deletion restores the level below."""
    with local(data_dir=str(tmp_path)) as cluster:
        with cluster.admin() as admin:
            admin.create_topics(NewTopic("t", 1)).raise_for_errors()
        topic = Resource.topic("t")
        assert not is_refused(cluster, "t", 5_000)
        alter(cluster, CLUSTER, message_max_bytes=1_000)
        assert is_refused(cluster, "t", 5_000)
        alter(cluster, NODE_1, message_max_bytes=6_000)
        assert not is_refused(cluster, "t", 5_000)
        alter(cluster, topic, max_message_bytes=2_000)
        assert is_refused(cluster, "t", 5_000)
        cluster.restart_node(0)
        cluster.restart_controller()
        assert is_refused(cluster, "t", 5_000)
        alter(cluster, topic, max_message_bytes=None)
        assert not is_refused(cluster, "t", 5_000)
        alter(cluster, NODE_1, message_max_bytes=None)
        assert is_refused(cluster, "t", 5_000)
        alter(cluster, CLUSTER, message_max_bytes=None)
        assert not is_refused(cluster, "t", 5_000)


def test_segments_roll_by_the_cluster_default(tmp_path: Path) -> None:
    """For an existing topic without its own segment.bytes."""
    with local(data_dir=str(tmp_path)) as cluster:
        with cluster.admin() as admin:
            admin.create_topics(NewTopic("t", 1)).raise_for_errors()

        def fill() -> None:
            with cluster.producer() as producer:
                for _ in range(4):
                    producer.send("t", b"v" * (MIB // 2)).result(60)

        fill()
        assert segments(tmp_path, "t") == 1
        alter(cluster, CLUSTER, log_segment_bytes=MIB)
        fill()
        assert segments(tmp_path, "t") >= 4


def test_cluster_default_of_retention_applies_at_once(tmp_path: Path) -> None:
    """To an existing topic: its oldest records are deleted within seconds, not after five minutes."""
    with local(data_dir=str(tmp_path), log_segment_bytes=MIB) as cluster, cluster.admin() as admin:
        admin.create_topics(NewTopic("t", 1)).raise_for_errors()
        with cluster.producer() as producer:
            for _ in range(6):
                producer.send("t", b"v" * (MIB // 2)).result(60)
        alter(cluster, CLUSTER, log_retention_bytes=MIB, log_retention_check_interval_ms=100)
        place, end_s = TopicPartition("t", 0), time.monotonic() + 120
        while not admin.list_offsets({place: EARLIEST})[place].offset:
            assert time.monotonic() < end_s, "no segment is deleted"
        assert admin.list_offsets({place: LATEST})[place].offset == 6


def test_restarted_and_new_nodes_have_dynamic_configs(tmp_path: Path) -> None:
    """Cluster defaults apply to nodes that join later; a node's own configs stay with it."""
    with local(nodes=2, data_dir=str(tmp_path)) as cluster:
        cluster.kill_node(1)
        alter(cluster, CLUSTER, message_max_bytes=1_000, num_partitions=2)
        alter(cluster, NODE_1, background_threads=2)
        cluster.restart_node(1)
        assert value(cluster, NODE_2, "message.max.bytes") == ("1000", ConfigSource.CLUSTER_DEFAULT)
    with local(nodes=3, data_dir=str(tmp_path)) as cluster:
        with cluster.admin() as admin:
            admin.create_topics(NewTopic("later", assignments={0: (3,), 1: (2,)})).raise_for_errors()
            admin.create_topics(NewTopic("by-default")).raise_for_errors()
            assert len(admin.describe_topics("by-default")["by-default"].partitions) == 2
        assert is_refused(cluster, "later", 5_000)
        assert value(cluster, NODE_3, "message.max.bytes") == ("1000", ConfigSource.CLUSTER_DEFAULT)
        assert value(cluster, NODE_1, "background.threads") == ("2", ConfigSource.BROKER)
        assert value(cluster, NODE_3, "background.threads") == ("4", ConfigSource.BUILT_IN)


def test_each_server_describes_its_own_file() -> None:
    """The client sends the request to the described node itself."""
    with local(nodes=3, log_roll_ms=77_000, num_partitions=5) as cluster, cluster.admin() as admin:
        admin.create_topics(NewTopic("t", 1)).raise_for_errors()
        resources = (NODE_1, NODE_2, NODE_3, CLUSTER, Resource.topic("t"))
        response = admin.describe_configs(*resources, synonyms=True)
        ids = [response[node]["node.id"] for node in resources[:3]]
        assert [(each.value, each.is_read_only) for each in ids] == [("1", True), ("2", True), ("3", True)]
        # As in Kafka: a topic key without a built-in synonym, since log.roll.hours has the default.
        for resource, name, synonyms in (
            (NODE_2, "log.roll.ms", [ConfigSource.STATIC, ConfigSource.BUILT_IN]),
            (Resource.topic("t"), "segment.ms", [ConfigSource.STATIC]),
        ):
            found = response[resource][name]
            assert (found.value, found.source) == ("77000", ConfigSource.STATIC)
            assert [each.source for each in found.synonyms] == synonyms
        assert (response[CLUSTER]["num.partitions"].value, response[CLUSTER]["num.partitions"].source) == (
            "5",
            4,
        )
        assert not any(found.doc for found in response[NODE_1].values())
        assert all(found.doc for found in admin.describe_configs(NODE_1, docs=True)[NODE_1].values())
        alter(cluster, NODE_3, log_roll_ms=88_000)
        alter(cluster, Resource.topic("t"), segment_ms=99_000)
        configured = admin.list_config_resources(configured_only=True)
        assert set(configured) == {CLUSTER, NODE_3, Resource.topic("t")}
        assert set(admin.list_config_resources()) == {NODE_1, NODE_2, NODE_3, Resource.topic("t")}


def test_description_includes_the_last_change_on_every_node() -> None:
    """After a change through one node, the description by another node waits for it."""
    with local(nodes=3) as cluster, cluster.admin() as admin:
        admin.create_topics(NewTopic("t", 1)).raise_for_errors()
        for number in range(1, 30):
            admin.alter_configs({"t": {"retention.ms": number}}).raise_for_errors()
            (values,) = admin.describe_configs("t").values()
            assert values["retention.ms"].value == str(number)


def test_refused_changes_have_no_effect(tmp_path: Path) -> None:
    """Read-only keys, unknown nodes, values that a topic cannot have; also with validate_only."""
    with local(data_dir=str(tmp_path)) as cluster, cluster.admin() as admin:
        admin.create_topics(NewTopic("t", 1, configs={"segment.jitter.ms": 5_000})).raise_for_errors()
        wrong: dict[Resource | str, dict[str, Any]] = {
            NODE_1: {"log.dirs": "/elsewhere"},
            CLUSTER: {"log.roll.ms": 4_999},
            Resource.broker(77): {"background.threads": 1},
        }
        errors = admin.alter_configs(wrong).errors
        kinds = (InvalidConfigError, InvalidConfigError, InvalidRequestError)
        assert [type(errors[resource]) for resource in wrong] == list(kinds)  # type: ignore[index]
        assert "restart it" in str(errors[NODE_1])
        assert "topic t" in str(errors[CLUSTER])
        tried: dict[Resource | str, dict[str, Any]] = {CLUSTER: {"background.threads": 1}}
        admin.alter_configs(tried, validate_only=True).raise_for_errors()
        assert admin.list_config_resources(configured_only=True) == [Resource.topic("t"), CLUSTER]
        (response,) = admin.describe_configs(CLUSTER).values()
        assert response["background.threads"].source is ConfigSource.BUILT_IN


def test_topics_and_the_node_are_described_without_a_controller() -> None:
    """From the node's metadata; a description that needs the controller waits for it."""
    with local(controllers=1) as cluster, cluster.admin(default_api_timeout_ms=60_000) as admin:
        admin.create_topics(NewTopic("t", 1)).raise_for_errors()
        alter(cluster, Resource.topic("t"), retention_ms=5)
        cluster.kill_controller(0)
        (values,) = admin.describe_configs("t").values()
        assert values["retention.ms"].value == "5"
        with pytest.raises(ApiTimeoutError):
            _ = admin.describe_configs(CLUSTER, timeout=2)[CLUSTER]


def test_connection_and_thread_limits_change_on_a_running_node() -> None:
    """Open connections stay, further ones are refused until there is room; fsyncs use other threads."""
    with local() as cluster, cluster.admin() as admin:
        (node,) = cluster._cores._nodes
        wanted: dict[Resource | str, dict[str, Any]] = {
            NODE_1: {"max.connections": 1, "background.threads": 7}
        }
        admin.alter_configs(wanted).raise_for_errors()
        assert node._workers._sync._max_workers == 7
        with cluster.admin(default_api_timeout_ms=500) as other, pytest.raises(ApiTimeoutError):
            other.list_topics()
        admin.alter_configs({NODE_1: dict.fromkeys(wanted[NODE_1])}).raise_for_errors()
        with cluster.admin() as other:
            assert other.list_topics() == []
        assert node._workers._sync._max_workers == 4
