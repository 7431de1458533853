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


def test_patterns_are_found_while_they_have_rules() -> None:
    index = RuleIndex([prefixed("ab"), prefixed("ab", "User:b"), prefixed("abc"), prefixed("ab")])
    topic = Resource(ResourceType.TOPIC, "abcd")
    assert len(index) == 3
    assert [sorted(found) for found in index.patterns_of(topic)] == [["User:a"], ["User:a", "User:b"]]
    index.remove(prefixed("ab"))
    index.remove(prefixed("ab"))
    index.remove(prefixed("abc"))
    assert [sorted(found) for found in index.patterns_of(topic)] == [["User:b"]]
    assert list(index.of_principal(ResourceType.TOPIC, "User:a")) == []
    index.remove(prefixed("ab", "User:b"))
    assert index.patterns_of(topic) == []
    assert list(index) == []


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
