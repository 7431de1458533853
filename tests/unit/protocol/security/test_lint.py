"""Rules without effect are found, each for its reason; others are not."""

from __future__ import annotations

import pytest
from headrace.protocol.security.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from headrace.protocol.security.lint import lint

RULE = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "10.0.0.1",
    AclOperation.READ,
    AclPermission.ALLOW,
)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"operation": AclOperation.CLUSTER_ACTION}, "no request needs CLUSTER_ACTION of a TOPIC"),
        ({"resource_type": ResourceType.CLUSTER, "operation": AclOperation.ALTER}, "kafka-cluster"),
        (
            {
                "resource_type": ResourceType.CLUSTER,
                "operation": AclOperation.ALL,
                "pattern_type": PatternType.PREFIXED,
            },
            "kafka-cluster",
        ),
        ({"host": "a.host"}, "not an address"),
        ({"host": "10.0.0.0/33"}, "not an address"),
        ({"principal": "alice"}, "type:name"),
        ({"principal": "Group:alice"}, "type Group"),
        ({"principal": "User:root"}, "super user"),
    ],
)
def test_rules_that_never_match(change: dict[str, object], reason: str) -> None:
    (finding,) = lint([RULE._replace(**change)], ["User:root"])
    assert reason in finding.reason
    assert finding.because_of is None


@pytest.mark.parametrize(
    "change",
    [
        {"host": "*"},
        {"host": "10.0.0.0/8"},
        {"operation": AclOperation.ALL},
        {"principal": "User:*"},
        {"name": "ord", "pattern_type": PatternType.PREFIXED},
        {"name": "*"},
    ],
)
def test_a_rule_within_another(change: dict[str, object]) -> None:
    wider = RULE._replace(**change)
    assert [(each.rule, each.because_of) for each in lint([RULE, wider])] == [(RULE, wider)]
    denial = wider._replace(permission=AclPermission.DENY, operation=AclOperation.ALL)
    (finding,) = lint([RULE, denial])
    assert (finding.rule, finding.because_of) == (RULE, denial)
    assert "denies" in finding.reason


def test_rules_not_covered_by_another_are_not_reported() -> None:
    denial_of_a_part = RULE._replace(permission=AclPermission.DENY, host="*")  # DESCRIBE is left
    assert list(lint([RULE, denial_of_a_part])) == []
    allowed = RULE._replace(operation=AclOperation.ALL, host="*")
    assert list(lint([allowed, denial_of_a_part])) == []
    assert list(lint([RULE, RULE._replace(host="::/0")])) == []
    assert list(lint([RULE, RULE._replace(name="order", pattern_type=PatternType.LITERAL)])) == []
    cluster = RULE._replace(
        resource_type=ResourceType.CLUSTER, name="kafka", pattern_type=PatternType.PREFIXED
    )
    assert list(lint([cluster._replace(operation=AclOperation.ALTER)])) == []


def test_only_later_of_two_equal_rules_is_reported() -> None:
    same = RULE._replace(host="10.0.0.1/32")
    assert [each.rule for each in lint([same, RULE])] == [same]


def test_a_rule_with_an_invalid_host_covers_nothing() -> None:
    assert [each.rule for each in lint([RULE, RULE._replace(host="a.host")])] == [
        RULE._replace(host="a.host")
    ]


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({}, "there is no role readers"),
        ({"readers": ()}, "role readers has no members"),
        ({"readers": ("User:root",)}, "all members of role readers are super users"),
    ],
)
def test_rules_of_roles_that_never_match(members: dict[str, tuple[str, ...]], reason: str) -> None:
    of_role = RULE._replace(principal="Role:readers")
    (finding,) = lint([of_role], ["User:root"], members=members)
    assert reason in finding.reason
    assert list(lint([of_role], ["User:root"], members={"readers": ("User:root", "User:alice")})) == []
    (finding,) = lint([of_role._replace(host="a.host")], members={"readers": ("User:alice",)})
    assert "not an address" in finding.reason


def test_a_rule_of_a_member_within_one_of_its_role() -> None:
    """The rule of the role has an effect for other members."""
    of_role = RULE._replace(principal="Role:readers")
    members = {"readers": ("User:alice", "User:bob")}
    found = [(each.rule, each.because_of) for each in lint([RULE, of_role], members=members)]
    assert found == [(RULE, of_role)]
    other = RULE._replace(principal="User:carol")
    assert list(lint([other, of_role], members=members)) == []
    of_all_users = RULE._replace(principal="User:*")
    found = [(each.rule, each.because_of) for each in lint([of_role, of_all_users], members=members)]
    assert found == [(of_role, of_all_users)]
