"""The index of rules: groups disappear with their last rule; hosts are compared by their canonical text."""

from __future__ import annotations

from headrace.protocol.security.acls import (
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    Resource,
    ResourceType,
)
from headrace.protocol.security.rule_index import Rule, RuleIndex, operations_of, parsed_host


def prefixed(prefix: str, principal: str = "User:a") -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        prefix,
        PatternType.PREFIXED,
        principal,
        "*",
        AclOperation.READ,
        AclPermission.ALLOW,
    )


def found(index: RuleIndex, name: str, *owners: str) -> list[list[AclBinding]]:
    owned = index.patterns_of(ResourceType.TOPIC, owners)
    return [[rule.binding for rule in group] for patterns in owned for group in patterns.about(name)]


def test_patterns_are_found_while_they_have_rules() -> None:
    topic = Resource(ResourceType.TOPIC, "abcd")
    short, long, other = prefixed("ab"), prefixed("abc"), prefixed("ab", "User:b")
    of_all = prefixed("abcd", "User:*")
    index = RuleIndex([short, other, long, short, prefixed("b"), of_all])
    assert len(index) == 5
    assert found(index, "abcd", "User:a", "User:*") == [[long], [short], [of_all]]
    assert found(index, "abcd", "User:*") == [[of_all]]
    for binding in (of_all, short, short, long):
        index.remove(binding)
    assert found(index, "abcd", "User:a", "User:*") == []
    assert found(index, "abcd", "User:b") == [[other]]
    assert [rule.binding for rule in index.of_principal(ResourceType.TOPIC, "User:a")] == [prefixed("b")]
    assert index.has_rule_about(topic)
    index.remove(other)
    assert not index.has_rule_about(topic)
    assert list(index) == [prefixed("b")]


def test_hosts() -> None:
    assert parsed_host("0:0:0:0:0:0:0:1") == ("::1", None)
    address, block = parsed_host("10.0.0.7/8")
    assert (address, str(block)) == ("10.0.0.7/8", "10.0.0.0/8")
    read = 1 << AclOperation.READ
    rule = Rule(prefixed("a")._replace(host="10.0.0.0/8"))
    assert rule.decides("10.255.0.1", read)
    assert not rule.decides("11.0.0.1", read)
    assert not rule.decides("", read)
    assert not rule.decides("10.0.0.1", 1 << AclOperation.WRITE)
    assert not Rule(prefixed("a")._replace(host="x/y")).decides("10.0.0.1", read)


def test_only_rules_that_allow_imply_operations() -> None:
    writing = prefixed("a")._replace(operation=AclOperation.WRITE)
    assert operations_of(writing) == 1 << AclOperation.WRITE | 1 << AclOperation.DESCRIBE
    assert operations_of(writing._replace(permission=AclPermission.DENY)) == 1 << AclOperation.WRITE
