"""Roles, namespaces and feature levels of a running cluster, on both planes and on the command line."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import headrace
import pytest
from beside.wire import Wire
from confluent_kafka.admin import (
    AclBindingFilter,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
)
from confluent_kafka.admin import AclOperation as KafkaOperation
from confluent_kafka.admin import ResourceType as KafkaResourceType
from headrace import NewTopic, errors
from headrace.protocol.security.acls import (
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from headrace.runtime.waiting_io import until
from headrace.storage_node.configs.authorization_config import STANDARD_AUTHORIZER
from kafka_clients import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from command_line import CommandLine
    from headrace.services.local_io import LocalCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Everyone may do what no rule is about."""
    with headrace.local(
        listeners="PLAINTEXT://127.0.0.1:0",
        authorizer_class_name=STANDARD_AUTHORIZER,
        allow_everyone_if_no_acl_found=True,
    ) as made:
        yield made


def rule(topic: str, role: str) -> AclBinding:
    """Only the members of the role are allowed all operations on the topic."""
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        PatternType.LITERAL,
        f"Role:{role}",
        "*",
        AclOperation.ALL,
        AclPermission.ALLOW,
    )


def of_role(role: str) -> AclBindingFilter:
    """The rules of a role, for Kafka's clients."""
    return AclBindingFilter(
        KafkaResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        f"Role:{role}",
        None,
        KafkaOperation.ANY,
        AclPermissionType.ANY,
    )


def sees(wire: Wire, topic: str) -> bool:
    """Whether a Kafka client sees the topic."""
    return topic in {each["name"] for each in wire.ask("metadata", 9, topics=None)["topics"]}


def test_a_role_is_granted_and_revoked_on_both_planes(cluster: LocalCluster) -> None:
    """For clients that are connected; Kafka's admin shows and deletes its rule."""
    admin = cluster.admin()
    admin.create_topics(NewTopic("closed", 1)).raise_for_errors()
    admin.create_roles("writers").raise_for_errors()
    with cluster.producer(linger_ms=0) as producer, Wire(cluster.kafka_bootstrap) as wire:
        producer.send("closed", b"before").result()
        admin.create_acls(rule("closed", "writers")).raise_for_errors()
        assert until(lambda: not sees(wire, "closed"), 10)
        with pytest.raises(errors.TopicAuthorizationFailedError):
            producer.send("closed", b"denied").result()
        admin.grant_role("writers", "User:ANONYMOUS").raise_for_errors()
        assert until(lambda: sees(wire, "closed"), 10)
        assert producer.send("closed", b"allowed").result().offset == 1
        admin.revoke_role("writers", "User:ANONYMOUS").raise_for_errors()
        assert until(lambda: not sees(wire, "closed"), 10)
        with pytest.raises(errors.TopicAuthorizationFailedError):
            producer.send("closed", b"denied again").result()
        kafka = AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})
        (found,) = kafka.describe_acls(of_role("writers")).result(WAIT_S)
        assert (found.name, found.principal) == ("closed", "Role:writers")
        (deleted,) = kafka.delete_acls([of_role("writers")]).values()
        assert len(deleted.result(WAIT_S)) == 1
        assert until(lambda: sees(wire, "closed"), 10)
    admin.delete_roles("writers").raise_for_errors()
    assert not admin.describe_roles()


def test_roles_on_the_command_line(cluster: LocalCluster, shell: CommandLine) -> None:
    assert shell("role", "create", "readers", "others")[0] == 0
    assert shell("role", "grant", "readers", "--user", "alice", "--user", "User:bob")[0] == 0
    asked = ("acl", "create", "--role", "readers", "--operation", "read", "--topic", "orders")
    assert shell(*asked)[0] == 0
    text = "allow Role:readers from * read on topic orders"
    verdict = shell.json("acl", "explain", "--user", "alice", "--operation", "read", "--topic", "orders")
    assert (verdict["allowed"], verdict["rule"]) == (True, text)
    verdict = shell.json("acl", "explain", "--user", "carol", "--operation", "read", "--topic", "orders")
    assert (verdict["allowed"], verdict["rule"]) == (False, None)
    assert shell.json("role", "list", "--user", "bob") == [
        {"role": "readers", "members": ["User:alice", "User:bob"]}
    ]
    assert shell.json("role", "describe", "readers") == {
        "role": "readers",
        "members": ["User:alice", "User:bob"],
        "rules": [text],
        "namespaces": [],
    }
    assert shell("role", "revoke", "readers", "--user", "alice", "--user", "bob")[0] == 0
    (finding,) = shell.json("acl", "lint")
    assert (finding["rule"], finding["reason"]) == (text, "role readers has no members")
    code, _, err = shell("role", "revoke", "readers", "--user", "alice")
    assert (code, "no member of role readers" in err) == (3, True)
    code, _, err = shell("role", "delete", "readers", "others")
    assert (code, "has 0 members and 1 rules" in err) == (4, True)
    assert shell("role", "delete", "readers", "--with-rules")[0] == 0
    assert shell.json("acl", "list", "--role", "readers") == []
    code, _, err = shell("role", "describe", "readers")
    assert (code, "no role 'readers'" in err) == (3, True)
    assert shell("role", "list")[2] == "there are no roles\n"


def test_namespaces_limit_clients_of_both_planes(cluster: LocalCluster, shell: CommandLine) -> None:
    admin = cluster.admin()
    assert shell("namespace", "set", "shop.", "--max-topics", "1", "--max-partitions", "3")[0] == 0
    assert shell("namespace", "set", "shop.eu.", "--max-topics", "5")[0] == 0
    admin.create_topics(NewTopic("shop.eu.a", 2)).raise_for_errors()
    text = "namespace 'shop.' may have 1 topics: it has 1, and 1 more were asked for"
    refused = admin.create_topics(NewTopic("shop.b", 1)).errors["shop.b"]
    assert isinstance(refused, errors.PolicyViolationError)
    assert text in str(refused)
    code, _, err = shell("topic", "add-partitions", "shop.eu.a", "4")
    assert (code, "may have 3 partitions: it has 2" in err) == (1, True)
    with Wire(cluster.kafka_bootstrap) as wire:
        topic = {"name": "shop.b", "num_partitions": 1, "replication_factor": 1}
        asked = {**topic, "assignments": [], "configs": []}
        answer = wire.ask("create_topics", 5, topics=[asked], timeout_ms=10_000, validate_only=False)
        (result,) = answer["topics"]
        assert (result["error_code"], result["error_message"]) == ("policy_violation", text)
    row = {"prefix": "shop.eu.", "topics": 1, "max_topics": 5, "partitions": 2, "max_partitions": None}
    assert shell.json("namespace", "describe", "shop.eu.") == {**row, "owner": None, "within": ["shop."]}
    assert [each["prefix"] for each in shell.json("namespace", "list")] == ["shop.", "shop.eu."]
    admin.create_roles("sellers").raise_for_errors()
    admin.set_namespace("shop.eu.", owner="sellers")
    assert admin.describe_namespaces("shop.eu.")["shop.eu."].owner == "sellers"
    assert shell.json("role", "describe", "sellers")["namespaces"] == ["shop.eu."]
    verdict = shell.json("acl", "list", "--role", "sellers", "--topic", "shop.eu.")
    assert [(each["pattern"], each["operation"]) for each in verdict] == [("prefixed", "all")]
    code, _, err = shell("namespace", "delete", "shop.", "shop.eu.", "other")
    assert (code, "no namespace 'other'" in err) == (4, True)
    assert shell("namespace", "list")[2] == "there are no namespaces\n"
    assert shell.json("acl", "list") == []
    admin.delete_roles("sellers").raise_for_errors()


def test_records_need_the_level_of_the_feature(cluster: LocalCluster, shell: CommandLine) -> None:
    admin = cluster.admin()
    assert admin.describe_features()["security.version"] == (2, 0, 2)
    with pytest.raises(errors.InvalidUpdateVersionError, match="no downgrade was asked for"):
        admin.update_features({"security.version": 1})
    assert shell("feature", "set", "security.version", "1", "--downgrade")[0] == 0
    assert until(lambda: admin.describe_features()["security.version"].level == 1, 10)
    with Wire(cluster.kafka_bootstrap) as wire:
        verdict = wire.ask("api_versions", 4, client_software_name="x", client_software_version="1")
        levels = {each["name"]: each["max_version_level"] for each in verdict["finalized_features"]}
        assert levels["security.version"] == 1
    with pytest.raises(errors.UnsupportedVersionError, match="roles need level 2 of feature"):
        admin.create_roles("late")
    code, _, err = shell("namespace", "set", "late.")
    assert (code, "namespaces need level 2 of feature security.version" in err) == (1, True)
    assert shell("feature", "set", "security.version", "2", "--dry-run")[0] == 0
    assert shell("feature", "set", "security.version", "2")[0] == 0
    admin.create_roles("late").raise_for_errors()
    code, _, err = shell("feature", "set", "security.version", "1", "--downgrade")
    assert (code, "1 roles" in err) == (1, True)
    admin.delete_roles("late").raise_for_errors()
    rows = {each["feature"]: each["level"] for each in shell.json("feature", "list")}
    assert rows["group.version"] == 1


def test_without_an_authorizer_there_are_no_roles() -> None:
    with headrace.local() as cluster, cluster.admin() as admin:
        with pytest.raises(errors.SecurityDisabledError):
            admin.create_roles("readers")
        with pytest.raises(errors.SecurityDisabledError):
            admin.describe_roles()
        admin.set_namespace("a.", max_topics=0)
        (refused,) = admin.create_topics(NewTopic("a.b", 1)).errors.values()
        assert isinstance(refused, errors.PolicyViolationError)


def test_controllers_of_a_quorum_report_what_they_support() -> None:
    """The level is set once the other two have fetched from the leader."""
    with headrace.local(controllers=3) as cluster, cluster.admin() as admin:

        def is_set(level: int) -> bool:
            with suppress(errors.InvalidUpdateVersionError):  # until then
                admin.update_features({"security.version": level}, allow_downgrade=True)
                return True
            return False

        assert until(lambda: is_set(1), 10)
        assert until(lambda: admin.describe_features()["security.version"].level == 1, 10)
        assert is_set(2)
