"""Decisions of the authorizer: which rule is named, super users, servers, the kept decisions."""

from __future__ import annotations

import pytest
from headrace.protocol.security import authorizer as module
from headrace.protocol.security.acls import (
    CLUSTER,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    Resource,
    ResourceType,
)
from headrace.protocol.security.authorizer import Reason, RuleAuthorizer, parse_super_users
from headrace.protocol.security.identity import ANONYMOUS_IDENTITY, Identity
from headrace.protocol.security.principals import user
from headrace.protocol.security.rule_index import RuleIndex

ALICE = Identity(user("alice"), "10.0.0.1")
ORDERS = Resource(ResourceType.TOPIC, "orders")


def rule(
    name: str = "orders",
    operation: AclOperation = AclOperation.READ,
    permission: AclPermission = AclPermission.ALLOW,
    pattern_type: PatternType = PatternType.LITERAL,
    principal: str = "User:alice",
    host: str = "*",
) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, pattern_type, principal, host, operation, permission)


def authorizer(*rules: AclBinding, allow_if_no_rules: bool = False) -> RuleAuthorizer:
    return RuleAuthorizer(RuleIndex(rules), ["User:root"], allow_if_no_rules=allow_if_no_rules)


def test_verdict_names_denials_first_and_most_specific_patterns_first() -> None:
    literal, prefixed = rule(), rule("ord", pattern_type=PatternType.PREFIXED)
    wildcard = rule("*", principal="User:*")
    verdict = authorizer(wildcard, prefixed, literal).explain(ALICE, AclOperation.READ, ORDERS)
    assert verdict == (True, Reason.RULE, literal)
    denial = rule("*", permission=AclPermission.DENY, principal="User:*")
    verdict = authorizer(denial, prefixed, literal).explain(ALICE, AclOperation.READ, ORDERS)
    assert verdict == (False, Reason.RULE, denial)


def test_decisions_without_a_rule() -> None:
    strict = authorizer(rule())
    lenient = authorizer(rule(), allow_if_no_rules=True)
    other = Resource(ResourceType.TOPIC, "other")
    assert strict.explain(ALICE, AclOperation.WRITE, ORDERS) == (False, Reason.DEFAULT, None)
    assert lenient.explain(ALICE, AclOperation.WRITE, ORDERS) == (False, Reason.DEFAULT, None)
    assert lenient.explain(ALICE, AclOperation.WRITE, other) == (True, Reason.NO_RULES, None)
    root = Identity(user("root"))
    assert strict.explain(root, AclOperation.ALTER, CLUSTER) == (True, Reason.SUPER_USER, None)
    server = Identity(is_server=True)
    assert strict.explain(server, AclOperation.CLUSTER_ACTION, CLUSTER) == (True, Reason.SERVER, None)
    assert not strict.allows(ANONYMOUS_IDENTITY, AclOperation.CLUSTER_ACTION, CLUSTER)
    assert strict.allows(server, AclOperation.CLUSTER_ACTION, CLUSTER)


def test_rules_of_a_role_count_for_its_members_and_a_denial_comes_first() -> None:
    of_role = rule(principal="Role:readers")
    changing = authorizer(of_role)
    assert not changing.allows(ALICE, AclOperation.READ, ORDERS)
    assert not changing.allows_some(ALICE, AclOperation.READ, ResourceType.TOPIC)
    changing.change_members([("readers", "User:alice")], [])
    assert changing.explain(ALICE, AclOperation.READ, ORDERS) == (True, Reason.RULE, of_role)
    assert changing.allows(ALICE, AclOperation.READ, ORDERS)
    assert changing.allows_some(ALICE, AclOperation.READ, ResourceType.TOPIC)
    assert not changing.allows(Identity(user("bob")), AclOperation.READ, ORDERS)
    denial = rule("ord", permission=AclPermission.DENY, pattern_type=PatternType.PREFIXED)
    for principal in ("User:alice", "Role:blocked"):
        changing.change([denial._replace(principal=principal)], [])
        changing.change_members([("blocked", "User:alice")], [])
        explained = changing.explain(ALICE, AclOperation.READ, ORDERS)
        assert explained == (False, Reason.RULE, denial._replace(principal=principal))
        changing.change([], [denial._replace(principal=principal)])
    changing.change_members([], [("readers", "User:alice")])
    assert not changing.allows(ALICE, AclOperation.READ, ORDERS)
    assert not changing.allows_some(ALICE, AclOperation.READ, ResourceType.TOPIC)


def test_a_removed_rule_is_obeyed_no_longer() -> None:
    changing = authorizer(rule(), rule("ord", pattern_type=PatternType.PREFIXED))
    changing.change([], [rule("ord", pattern_type=PatternType.PREFIXED), rule("unknown")])
    assert not changing.allows(ALICE, AclOperation.READ, Resource(ResourceType.TOPIC, "ordinary"))
    assert changing.allows(ALICE, AclOperation.READ, ORDERS)
    assert changing.allows_some(ALICE, AclOperation.READ, ResourceType.TOPIC)
    changing.change([], [rule()])
    assert not changing.allows(ALICE, AclOperation.READ, ORDERS)
    assert not changing.allows_some(ALICE, AclOperation.READ, ResourceType.TOPIC)
    assert len(changing.rules) == 0


def test_kept_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DECISIONS", 5)
    bounded = authorizer(rule())
    for number in range(20):
        bob = Identity(user("bob"), f"10.0.0.{number % 3}")
        assert not bounded.allows_some(bob, AclOperation.READ, ResourceType.TOPIC)
        assert not bounded.allows(bob, AclOperation.READ, Resource(ResourceType.TOPIC, str(number)))
        askers = bounded._askers.values()
        assert sum(1 + len(asker.operations) + len(asker.kinds) for asker in askers) < 5
    assert bounded.allows(ALICE, AclOperation.READ, ORDERS)


def test_super_users_are_separated_by_semicolons() -> None:
    assert parse_super_users("") == ()
    assert parse_super_users("User:a; User:CN=b,O=c;") == ("User:a", "User:CN=b,O=c")
    with pytest.raises(ValueError, match="type:name"):
        parse_super_users("alice")
    with pytest.raises(ValueError, match="not roles"):
        parse_super_users("User:a;Role:admins")
