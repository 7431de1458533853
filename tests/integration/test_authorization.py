"""Rules of a running cluster, obeyed on both planes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import headrace
import pytest
from beside.wire import Wire
from headrace import NewTopic, stream
from headrace.protocol.errors import ConfigError, TopicAuthorizationFailedError
from headrace.protocol.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from headrace.runtime.waiting_io import until
from headrace.storage_node.configs.authorization_config import STANDARD_AUTHORIZER
from headrace.stream.errors import InternalTopicError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.services.local_io import LocalCluster

# Everyone may use what no rule is about; a rule for alice closes a topic for all others.
RULE = AclBinding(
    ResourceType.TOPIC,
    "secret",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.ALL,
    AclPermission.ALLOW,
)


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalCluster]:
    with headrace.local(
        listeners="PLAINTEXT://127.0.0.1:0",
        authorizer_class_name=STANDARD_AUTHORIZER,
        allow_everyone_if_no_acl_found=True,
    ) as cluster:
        yield cluster


def names(wire: Wire) -> set[str]:
    """The topics that a Kafka client sees."""
    return {topic["name"] for topic in wire.ask("metadata", 9, topics=None)["topics"]}


def test_a_rule_takes_effect_on_both_planes_and_so_does_its_removal(guarded: LocalCluster) -> None:
    """For clients that are connected: a producer in the middle of its work, and a Kafka client."""
    admin = guarded.admin()
    admin.create_topics(NewTopic("open", 1), NewTopic("secret", 1)).raise_for_errors()
    with guarded.producer(linger_ms=0) as producer, Wire(guarded.kafka_bootstrap) as wire:
        for topic in ("open", "secret"):
            producer.send(topic, b"before").result()
        assert names(wire) >= {"open", "secret"}

        admin.create_acls(RULE).raise_for_errors()
        assert until(lambda: "secret" not in names(wire), 10)
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("secret", b"denied").result()
        producer.send("open", b"still allowed").result()
        topics = [{"name": "secret"}, {"name": "open"}]
        asked = wire.ask("metadata", 9, topics=topics, allow_auto_topic_creation=False)
        found = {topic["name"]: topic["error_code"] for topic in asked["topics"]}
        assert found == {"secret": "topic_authorization_failed", "open": "none"}
        assert {topic.name for topic in admin.list_topics()} == {"open"}

        admin.delete_acls(AclFilter(name="secret")).raise_for_errors()
        assert until(lambda: "secret" in names(wire), 10)
        assert producer.send("secret", b"again").result().offset == 1, "a refused record was stored"


def test_a_streams_application_ends_without_its_rights(guarded: LocalCluster, tmp_path: Path) -> None:
    """Without CREATE on its changelog by the status of its group, without READ on its source by the fetch."""

    def rule(topic: str, user: str, operation: AclOperation) -> AclBinding:
        kind = ResourceType.CLUSTER if topic == CLUSTER_NAME else ResourceType.TOPIC
        return AclBinding(kind, topic, PatternType.LITERAL, user, "*", operation, AclPermission.ALLOW)

    def run(reads: str) -> None:
        app = stream.App("guarded", key=headrace.utf8, value=headrace.utf8)
        app.stream(reads).group_by_key().count(store="counts")
        with app.instance(guarded.bootstrap, config={"state.dir": str(tmp_path / reads)}) as instance:
            instance.wait(60)

    rules = (
        rule(CLUSTER_NAME, "User:alice", AclOperation.CREATE),
        rule(CLUSTER_NAME, "User:ANONYMOUS", AclOperation.ALTER),  # of rules
        rule("guarded-counts-changelog", "User:alice", AclOperation.CREATE),
        rule("guarded-counts-changelog", "User:ANONYMOUS", AclOperation.DESCRIBE),
        rule("unread", "User:alice", AclOperation.READ),
        rule("unread", "User:ANONYMOUS", AclOperation.DESCRIBE),
    )
    admin = guarded.admin()
    admin.create_topics(NewTopic("lines", 1), NewTopic("unread", 1)).raise_for_errors()
    admin.create_acls(*rules).raise_for_errors()
    try:
        with pytest.raises(InternalTopicError, match="to CREATE on topics guarded-counts-changelog"):
            run("lines")
        admin.delete_acls(
            AclFilter(name=CLUSTER_NAME), AclFilter(name="guarded-counts-changelog")
        ).raise_for_errors()
        with pytest.raises(TopicAuthorizationFailedError):
            run("unread")
    finally:
        admin.delete_acls(*(AclFilter(name=name) for name in {each.name for each in rules}))


def test_a_node_with_rules_and_an_open_native_plane_does_not_start() -> None:
    """Servers would not know each other: the error says what to set."""
    with pytest.raises(ConfigError, match=r"native\.security\.protocol=SSL or SASL_SSL"):
        headrace.local(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:admin")
