"""Expressions of consumer groups (KIP-848) and streams groups (KIP-1071) by users with different rights."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import headrace
import pytest
from beside.wire import Wire
from headrace.protocol.security.acls import (
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from headrace.services.local_io import LocalCluster
from headrace.storage_node.configs.authorization_config import STANDARD_AUTHORIZER
from kafka_clients import WAIT_S
from waiting import wait_for

USERS = {"alice": "alice-secret", "bob": "bob-secret"}
TOPICS = ("data-of-all", "data-of-alice")


def rule(kind: ResourceType, name: str, name_of_user: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        kind, name, PatternType.LITERAL, f"User:{name_of_user}", "*", operation, AclPermission.ALLOW
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A node with users of both planes, name_of_user may read one topic or two."""
    users = " ".join(f'user_{name}="{secret}"' for name, secret in USERS.items())
    config: dict[str, Any] = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
        "listener.name.native.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_x="x";'
        ),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin",
    }
    with headrace.local(security=headrace.Security(users=USERS), **config) as made:
        with made.admin() as admin:
            admin.create_topics(*map(headrace.NewTopic, TOPICS)).raise_for_errors()
            rules = [rule(ResourceType.GROUP, "*", name, AclOperation.READ) for name in USERS]
            rules += [rule(ResourceType.TOPIC, TOPICS[0], name, AclOperation.READ) for name in USERS]
            admin.create_acls(*rules, rule(ResourceType.TOPIC, TOPICS[1], "alice", AclOperation.READ))
        yield made


def logged_in(cluster: LocalCluster, user: str) -> Wire:
    wire = Wire(cluster.status()["nodes"][0]["kafka"]["listeners"]["SASL_PLAINTEXT"], WAIT_S)
    wire.ask("sasl_handshake", 1, mechanism="PLAIN")
    secret = f"\0{user}\0{USERS[user]}".encode()
    assert wire.ask("sasl_authenticate", 2, auth_bytes=secret)["error_code"] == "none"
    return wire


@pytest.mark.parametrize(("user", "assigned"), [("alice", 2), ("bob", 1)])
def test_an_expression_assigns_what_its_member_may_describe(
    cluster: LocalCluster, user: str, assigned: int
) -> None:
    """The hidden topic is not in the target assignment either, where its partitions would have no reader."""
    with logged_in(cluster, user) as wire:

        def join() -> dict[str, Any]:
            return wire.ask(
                "consumer_group_heartbeat",
                1,
                group_id=user,
                member_id=str(uuid.UUID(int=1)),
                member_epoch=0,
                rebalance_timeout=60_000,
                subscribed_topic_names=[],
                subscribed_topic_regex="data-.*",
                topic_partitions=[],
            )

        answers: list[dict[str, Any]] = []

        def has_joined() -> bool:
            wire.ask("find_coordinator", 2, key=user, key_type=0)  # creates the coordinator's topic
            answers.append(join())
            return bool(answers[-1]["error_code"] == "none")

        wait_for(has_joined, "the member joins", evidence=lambda: str(answers[-1]))
        topics = answers[-1]["assignment"]["topic_partitions"]
        assert len(topics) == assigned
    with cluster.admin() as admin:
        described = admin.describe_groups(user)[user]
        (member,) = described.members
        assert len({each.topic for each in member.target}) == assigned


@pytest.mark.parametrize(("user", "sources"), [("alice", TOPICS), ("bob", TOPICS[:1])])
def test_an_expression_of_a_topology_matches_what_its_member_may_describe(
    cluster: LocalCluster, user: str, sources: tuple[str, ...]
) -> None:
    """The hidden topic is neither a source topic in the description, nor does it have tasks."""
    group = f"{user}-streams"
    subtopology = {"subtopology_id": "0", "source_topic_regex": ["data-.*"]}
    answers: list[dict[str, Any]] = []
    with logged_in(cluster, user) as wire:

        def has_joined() -> bool:
            wire.ask("find_coordinator", 2, key=group, key_type=0)  # creates the coordinator's topic
            answers.append(
                wire.ask(
                    "streams_group_heartbeat",
                    0,
                    group_id=group,
                    member_id=str(uuid.UUID(int=1)),
                    member_epoch=0,
                    rebalance_timeout=60_000,
                    topology={"epoch": 0, "subtopologies": [subtopology]},
                    process_id="p",
                    active_tasks=[],
                    standby_tasks=[],
                    warmup_tasks=[],
                    client_tags=[],
                )
            )
            return bool(answers[-1]["error_code"] == "none")

        wait_for(has_joined, "the member joins", evidence=lambda: str(answers[-1]))
    with cluster.admin() as admin:
        described = admin.describe_streams_groups(group)[group]
    (found,) = described.subtopologies or ()
    assert sorted(found.source_topics) == sorted(sources)
