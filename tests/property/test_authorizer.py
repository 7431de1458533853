"""The authorizer decides as a scan of all rules does, written from Kafka's text, while rules come and go."""

from __future__ import annotations

import ipaddress

from headrace.protocol.security.acls import (
    OPERATIONS_OF,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    Resource,
    ResourceType,
)
from headrace.protocol.security.authorizer import RuleAuthorizer
from headrace.protocol.security.identity import Identity
from headrace.protocol.security.lint import lint
from headrace.protocol.security.principals import user
from headrace.protocol.security.rule_index import RuleIndex
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = ["*", "a", "ab", "abc", "abd", "b"]
HOSTS = [
    "*",
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.0/30",
    "10.0.0.0/31",
    "::1",
    "0:0:0:0:0:0:0:1",
    "::/0",
    "a.host",
]
OPERATIONS = [operation for operation in AclOperation if operation > AclOperation.ALL]
TYPES = [ResourceType.TOPIC, ResourceType.GROUP]

rules = st.builds(
    AclBinding,
    st.sampled_from(TYPES),
    st.sampled_from(NAMES),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice", "Role:r", "Role:s"]),
    st.sampled_from(HOSTS),
    st.sampled_from([AclOperation.ALL, *OPERATIONS]),
    st.sampled_from([AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY]),
)
identities = st.builds(
    lambda principal, host: Identity(principal, host),
    st.sampled_from([user("alice"), user("bob"), user("root")]),
    st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.9", "::1", ""]),
)
resources = st.builds(Resource, st.sampled_from(TYPES), st.sampled_from(NAMES))

memberships = st.tuples(st.sampled_from(["r", "s"]), st.sampled_from(["User:alice", "User:bob"]))
Members = set[tuple[str, str]]

READ_KINDS = {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}


def _host_matches(rule: AclBinding, host: str) -> bool:
    if rule.host == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(rule.host)
    except ValueError:
        return False


def _is_about(rule: AclBinding, resource: Resource) -> bool:
    if rule.resource_type != resource.type:
        return False
    if rule.pattern_type is PatternType.PREFIXED:
        return resource.name.startswith(rule.name)
    return rule.name in ("*", resource.name)


def _is_of(rule: AclBinding, identity: Identity, members: Members) -> bool:
    """The rule is one of the user, of all users, or of a role of the user."""
    name = str(identity.principal)
    kind, _, role = rule.principal.partition(":")
    return rule.principal in (name, "User:*") or (kind == "Role" and (role, name) in members)


def _matches(rule: AclBinding, identity: Identity, operation: AclOperation, members: Members) -> bool:
    if not _is_of(rule, identity, members) or not _host_matches(rule, identity.host):
        return False
    if rule.operation in (AclOperation.ALL, operation):
        return True
    if rule.permission is AclPermission.DENY:
        return False
    if operation is AclOperation.DESCRIBE:
        return rule.operation in READ_KINDS
    return operation is AclOperation.DESCRIBE_CONFIGS and rule.operation is AclOperation.ALTER_CONFIGS


def scanned(
    every: set[AclBinding],
    client: Identity,
    operation: AclOperation,
    resource: Resource,
    members: Members,
    *,
    default: bool,
) -> bool:
    if client.principal == user("root"):
        return True
    about = [rule for rule in every if _is_about(rule, resource)]
    permissions = {rule.permission for rule in about if _matches(rule, client, operation, members)}
    if AclPermission.DENY in permissions:
        return False
    return AclPermission.ALLOW in permissions or (default and not about)


def scanned_type(
    every: set[AclBinding],
    client: Identity,
    operation: AclOperation,
    kind: ResourceType,
    members: Members,
    *,
    default: bool,
) -> bool:
    """authorizeByResourceType of Authorizer.java."""
    if scanned(every, client, operation, Resource(kind, "hardcode"), members, default=default):
        return True
    about = [
        rule
        for rule in every
        if rule.resource_type is kind
        and _is_of(rule, client, members)
        and rule.operation in (operation, AclOperation.ALL)
        and _host_matches(rule, client.host)
    ]
    denied = {(rule.pattern_type, rule.name) for rule in about if rule.permission is AclPermission.DENY}
    if (PatternType.LITERAL, "*") in denied:
        return False
    for rule in about:
        if rule.permission is AclPermission.DENY:
            continue
        if (rule.pattern_type, rule.name) == (PatternType.LITERAL, "*"):
            return True
        prefixes = {(PatternType.PREFIXED, rule.name[:end]) for end in range(1, len(rule.name) + 1)}
        is_denied = rule.pattern_type is PatternType.LITERAL and (PatternType.LITERAL, rule.name) in denied
        if not is_denied and not prefixes & denied:
            return True
    return False


@settings(deadline=None, max_examples=60)
@given(st.data(), st.booleans())
def test_decisions_are_those_of_a_scan(data: st.DataObject, default: bool) -> None:
    authorizer = RuleAuthorizer(RuleIndex(), ["User:root"], allow_if_no_rules=default)
    current: set[AclBinding] = set()
    members: Members = set()
    for _ in range(3):
        added = set(data.draw(st.lists(rules, max_size=12)))
        removed = {rule for rule in sorted(current) if data.draw(st.booleans())}
        authorizer.change(sorted(added), sorted(removed))
        current = (current - removed) | added
        assert set(authorizer.rules) == current
        joined = set(data.draw(st.lists(memberships, max_size=4)))
        left = {each for each in sorted(members) if data.draw(st.booleans())}
        authorizer.change_members(sorted(joined), sorted(left))
        members = (members - left) | joined
        assert set(authorizer.roles.keys()) == members
        questions = st.tuples(identities, st.sampled_from(OPERATIONS), resources)
        for client, operation, resource in data.draw(st.lists(questions, min_size=8, max_size=8)):
            expected = scanned(current, client, operation, resource, members, default=default)
            for _ in range(2):  # the second answer is the kept one
                assert authorizer.allows(client, operation, resource) is expected
            verdict = authorizer.explain(client, operation, resource)
            assert verdict.is_allowed is expected
            assert verdict.rule is None or _matches(verdict.rule, client, operation, members)
            some = scanned_type(current, client, operation, resource.type, members, default=default)
            assert authorizer.allows_some(client, operation, resource.type) is some


@settings(deadline=None, max_examples=60)
@given(
    st.sets(rules, max_size=12),
    st.sets(memberships),
    st.lists(st.tuples(identities, st.sampled_from(OPERATIONS), resources)),
)
def test_rules_that_lint_finds_decide_nothing(
    every: set[AclBinding], members: Members, questions: list[tuple[Identity, AclOperation, Resource]]
) -> None:
    """Without all of them at once every decision about operations that the type has is the same."""
    of_roles = {name: [member for role, member in sorted(members) if role == name] for name in "rs"}
    found = {finding.rule for finding in lint(every, ["User:root"], members=of_roles)}
    all_of_them = RuleAuthorizer(RuleIndex(every), ["User:root"], memberships=members)
    rest = RuleAuthorizer(RuleIndex(every - found), ["User:root"], memberships=members)
    for client, operation, resource in questions:
        verdict = all_of_them.explain(client, operation, resource)
        if verdict.rule is not None and verdict.rule in found and not _is_used(resource, operation):
            continue
        assert rest.allows(client, operation, resource) is verdict.is_allowed


def _is_used(resource: Resource, operation: AclOperation) -> bool:
    return operation in OPERATIONS_OF[resource.type]


@given(rule=rules, name=st.sampled_from([None, *NAMES]))
def test_filters_select_by_pattern(rule: AclBinding, name: str | None) -> None:
    for pattern_type in (PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED):
        chosen = AclFilter(name=name, pattern_type=pattern_type).matches(rule)
        if pattern_type is PatternType.MATCH:
            expected = name is None or _is_about(rule, Resource(rule.resource_type, name))
        else:
            expected = pattern_type in (PatternType.ANY, rule.pattern_type) and name in (None, rule.name)
        assert chosen is expected, pattern_type
