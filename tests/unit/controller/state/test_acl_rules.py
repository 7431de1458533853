"""Rules are created, deleted and described; each invalid rule or filter is refused alone."""

from __future__ import annotations

import pytest
from controller_kit import Driver
from headrace.controller.state import acl_rules
from headrace.protocol.errors import InvalidRequestError
from headrace.protocol.messages.security import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from headrace.protocol.metadata.replay import image_of, image_records
from headrace.protocol.security.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)

RULE = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermission.ALLOW,
)
EXACT = AclFilter(*RULE)


def create(driver: Driver, *rules: AclBinding) -> list[tuple[int, str]]:
    results = driver.ask(CreateAclsRequest(rules)).results
    return [(result.error_code, result.error_detail) for result in results]


def test_rules_are_created_once_described_and_deleted(driver: Driver) -> None:
    prefixed = RULE._replace(name="ord", pattern_type=PatternType.PREFIXED)
    assert create(driver, RULE, prefixed, RULE) == [(0, "")] * 3
    count = len(driver.records)
    assert create(driver, RULE) == [(0, "")]
    assert len(driver.records) == count
    assert image_of(image_records(driver.image), driver.image.offset) == driver.image
    driver.restart()
    matching = AclFilter(ResourceType.TOPIC, "orders", PatternType.MATCH)
    assert driver.ask(DescribeAclsRequest(matching)).rules == (prefixed, RULE)
    assert driver.ask(DescribeAclsRequest(EXACT)).rules == (RULE,)
    answer = driver.ask(DeleteAclsRequest((EXACT, EXACT._replace(host="10.0.0.1"), matching)))
    assert [result.rules for result in answer.results] == [(RULE,), (), (prefixed, RULE)]
    assert answer.metadata_offset == driver.image.offset
    assert driver.ask(DescribeAclsRequest()).rules == ()
    assert not driver.image.acls


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"resource_type": ResourceType.ANY}, "resourceType ANY"),
        ({"resource_type": ResourceType.UNKNOWN}, "resourceType UNKNOWN"),
        ({"pattern_type": PatternType.MATCH}, "patternType MATCH"),
        ({"operation": AclOperation.ANY}, "operation ANY"),
        ({"permission": AclPermission.UNKNOWN}, "permissionType UNKNOWN"),
        ({"name": ""}, "name should not be empty"),
        ({"name": "x" * 1001}, "more than 1000"),
        ({"resource_type": ResourceType.CLUSTER}, "kafka-cluster"),
        ({"principal": "alice"}, "type:name"),
        ({"host": ""}, "Host should not be empty"),
        ({"host": "10.0.0.0/64"}, "10.0.0.0/64"),
    ],
)
def test_an_invalid_rule_is_refused_alone(driver: Driver, change: dict[str, object], reason: str) -> None:
    refused, made = create(driver, RULE._replace(**change), RULE)
    assert refused[0] == InvalidRequestError.code
    assert reason in refused[1]
    assert made == (0, "")
    assert list(driver.image.acls) == [RULE]


def test_filters_with_unknown_values_are_refused(driver: Driver) -> None:
    create(driver, RULE)
    bad = [
        AclFilter(ResourceType.UNKNOWN),
        AclFilter(pattern_type=PatternType.UNKNOWN),
        AclFilter(operation=AclOperation.UNKNOWN),
        AclFilter(permission=AclPermission.UNKNOWN),
    ]
    answer = driver.ask(DeleteAclsRequest((*bad, EXACT)))
    assert [result.error_code for result in answer.results] == [InvalidRequestError.code] * 4 + [0]
    assert driver.ask(DescribeAclsRequest(bad[0])).error_code == InvalidRequestError.code


def test_rules_changes_and_comparisons_are_bounded(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_rules, "MAX_RULES", 2)
    monkeypatch.setattr(acl_rules, "MAX_CHANGES", 2)
    monkeypatch.setattr(acl_rules, "MAX_COMPARISONS", 3)
    rules = [RULE._replace(name=name) for name in "abc"]
    with pytest.raises(InvalidRequestError, match="at most 2"):
        create(driver, *rules)
    assert [code for code, _ in create(driver, *rules[:2])] == [0, 0]
    ((code, reason),) = create(driver, rules[2])
    assert (code, reason) == (InvalidRequestError.code, "there are 2 rules already")
    assert create(driver, rules[1]) == [(0, "")]
    with pytest.raises(InvalidRequestError, match="at most 2"):
        driver.ask(DeleteAclsRequest((EXACT,) * 3))
    with pytest.raises(InvalidRequestError, match="2 filters"):
        driver.ask(DeleteAclsRequest((AclFilter(), AclFilter())))
    monkeypatch.setattr(acl_rules, "MAX_CHANGES", 1)
    with pytest.raises(InvalidRequestError, match="cannot delete 2"):
        driver.ask(DeleteAclsRequest((AclFilter(),)))
    assert len(driver.image.acls) == 2
