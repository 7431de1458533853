"""Options of `headrace acl` as rules and filters."""

from __future__ import annotations

from typing import Any

import click
import pytest
from headrace.protocol.security.acls import (
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    Resource,
    ResourceType,
)
from headrace.services.cli.acl_options import filter_of, member_of, one_resource, principal_text, rules_of

NOTHING: dict[str, Any] = {
    "topic": None,
    "group": None,
    "transactional_id": None,
    "delegation_token": None,
    "on_user": None,
    "on_cluster": False,
    "users": (),
    "roles": (),
    "hosts": (),
    "operations": (),
    "prefixed": False,
    "deny": None,
}


def test_rules_are_all_combinations() -> None:
    given = {**NOTHING, "topic": "t", "group": "g", "users": ("a", "User:b"), "operations": ("read",)}
    rules = rules_of({**given, "hosts": ("10.0.0.1", "10.0.0.2"), "deny": True, "prefixed": True})
    assert len(set(rules)) == 8
    assert {rule.principal for rule in rules} == {"User:a", "User:b"}
    assert {rule.pattern_type for rule in rules} == {PatternType.PREFIXED}
    assert {rule.permission for rule in rules} == {AclPermission.DENY}
    plain = rules_of({**NOTHING, "on_cluster": True, "users": ("*",), "operations": ("all",)})
    assert plain[0][1:5] == ("kafka-cluster", PatternType.LITERAL, "User:*", "*")


@pytest.mark.parametrize("missing", ["users", "operations", "topic"])
def test_incomplete_rules_are_refused(missing: str) -> None:
    given = {**NOTHING, "topic": "t", "users": ("a",), "operations": ("read",)}
    with pytest.raises(click.UsageError):
        rules_of({**given, missing: NOTHING[missing]})


def test_filters() -> None:
    assert filter_of(NOTHING).is_everything
    given = {**NOTHING, "topic": "t", "users": ("a",), "hosts": ("h",), "operations": ("Write",)}
    found = filter_of({**given, "deny": False, "prefixed": True})
    kind, pattern_type = ResourceType.TOPIC, PatternType.PREFIXED
    wanted = AclFilter(kind, "t", pattern_type, "User:a", "h", AclOperation.WRITE, AclPermission.ALLOW)
    assert found == wanted
    assert not found.is_everything
    assert filter_of({**given, "matching": True}).pattern_type is PatternType.MATCH
    for twice in ({"group": "g"}, {"users": ("a", "b")}):
        with pytest.raises(click.UsageError, match="a filter has one"):
            filter_of({**given, **twice})


def test_operation_names_in_any_notation() -> None:
    for text in ("DescribeConfigs", "describe-configs", "DESCRIBE_CONFIGS"):
        assert member_of(AclOperation, text) is AclOperation.DESCRIBE_CONFIGS
    for text in ("unknown", "fly"):
        with pytest.raises(click.UsageError, match="idempotent-write"):
            member_of(AclOperation, text)
    assert principal_text("alice") == "User:alice"
    assert principal_text("Group:a") == "Group:a"
    assert one_resource({**NOTHING, "on_user": "User:a"}) == Resource(ResourceType.USER, "User:a")
    with pytest.raises(click.UsageError, match="--on-cluster"):
        one_resource(NOTHING)
