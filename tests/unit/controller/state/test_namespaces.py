"""Namespaces: limits of topics and partitions under a prefix, nested ones, owners, invalid changes."""

from __future__ import annotations

from typing import Any

import pytest
from controller_kit import Driver
from headrace.controller.state import acl_rules, namespaces
from headrace.protocol.errors import (
    DuplicateResourceError,
    InvalidRequestError,
    PolicyViolationError,
    ResourceNotFoundError,
)
from headrace.protocol.messages.control import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    NewTopicSpec,
    PartitionGrowth,
)
from headrace.protocol.messages.roles import (
    CREATE,
    AlterNamespacesRequest,
    AlterRolesRequest,
    DescribeNamespacesRequest,
    NamespaceChange,
    RoleChange,
)
from headrace.protocol.metadata.replay import image_of, image_records
from headrace.protocol.security.acls import AclOperation, PatternType, ResourceType


@pytest.fixture
def shop(driver: Driver) -> Driver:
    """A node, and the namespace `shop.` with at most two topics and four partitions."""
    driver.join(1)
    put(driver, "shop.", max_topics=2, max_partitions=4)
    return driver


def alter(driver: Driver, *changes: NamespaceChange) -> list[tuple[int, str]]:
    results = driver.ask(AlterNamespacesRequest(changes)).results
    return [(result.error_code, result.error_detail) for result in results]


def put(driver: Driver, prefix: str, **facts: Any) -> None:
    assert alter(driver, NamespaceChange(prefix, **facts)) == [(0, "")]


def make(driver: Driver, *topics: tuple[str, int], **facts: Any) -> list[tuple[int, str]]:
    """Create topics with these numbers of partitions by one request."""
    specs = tuple(NewTopicSpec(name, count, 1) for name, count in topics)
    answers = driver.ask(CreateTopicsRequest(specs, **facts)).topics
    return [(each.error_code, each.error_detail) for each in answers]


def grow(driver: Driver, name: str, count: int) -> tuple[int, str]:
    (result,) = driver.ask(CreatePartitionsRequest((PartitionGrowth(name, count),))).results
    return result.error_code, result.error_detail


def test_topics_beyond_a_limit_are_refused(shop: Driver) -> None:
    """Those of one request count together; topics outside of the prefix do not count."""
    wide = (
        PolicyViolationError.code,
        ("namespace 'shop.' may have 4 partitions: it has 2, and 3 more were asked for"),
    )
    assert make(shop, ("shop.a", 2), ("shop.b", 3), ("shopping", 9)) == [(0, ""), wide, (0, "")]
    many = (
        PolicyViolationError.code,
        ("namespace 'shop.' may have 2 topics: it has 2, and 1 more were asked for"),
    )
    assert make(shop, ("shop.b", 1), ("shop.c", 1)) == [(0, ""), many]
    assert "shop.c" not in shop.image.topics


def test_a_check_alone_counts_too(shop: Driver) -> None:
    codes = [code for code, _ in make(shop, *((f"shop.{name}", 1) for name in "abc"), validate_only=True)]
    assert codes == [0, 0, PolicyViolationError.code]
    assert not shop.image.topics


def test_new_partitions_are_limited(shop: Driver) -> None:
    make(shop, ("shop.a", 1), ("shop.b", 1))
    assert grow(shop, "shop.a", 4)[0] == PolicyViolationError.code
    assert grow(shop, "shop.a", 3) == (0, "")
    assert grow(shop, "shop.b", 2) == (
        PolicyViolationError.code,
        "namespace 'shop.' may have 4 partitions: it has 4, and 1 more were asked for",
    )


def test_an_assignment_is_limited(shop: Driver) -> None:
    with pytest.raises(AssertionError):
        shop.place("shop.a", *((1,),) * 5)
    shop.place("shop.a", *((1,),) * 4)


def test_all_namespaces_around_a_topic_count(shop: Driver) -> None:
    """The most specific one is named first; a wider limit inside does not lift the one outside."""
    put(shop, "shop.eu.", max_topics=1)
    assert make(shop, ("shop.eu.a", 1)) == [(0, "")]
    assert "'shop.eu.'" in make(shop, ("shop.eu.b", 1))[0][1]
    put(shop, "shop.eu.", max_topics=9)
    assert make(shop, ("shop.eu.b", 1)) == [(0, "")]
    assert "'shop.' may have 2 topics" in make(shop, ("shop.eu.c", 1))[0][1]


def test_a_limit_below_what_exists_stops_creation_alone(shop: Driver) -> None:
    make(shop, ("shop.a", 2), ("shop.b", 1))
    put(shop, "shop.", max_topics=0)
    assert make(shop, ("shop.c", 1))[0][0] == PolicyViolationError.code
    assert grow(shop, "shop.b", 2) == (0, "")
    put(shop, "shop.", max_topics=-1)
    assert shop.image.namespaces["shop."].max_partitions == 4
    assert alter(shop, NamespaceChange("shop.", is_deleted=True)) == [(0, "")]
    assert set(shop.image.topics) == {"shop.a", "shop.b"}
    assert grow(shop, "shop.b", 9) == (0, "")


def test_usage_is_described(shop: Driver) -> None:
    make(shop, ("shop.a", 2), ("other", 3))
    unknown, known = shop.ask(DescribeNamespacesRequest(("x", "shop."))).namespaces
    assert (unknown.prefix, unknown.error_code) == ("x", ResourceNotFoundError.code)
    assert (known.topics, known.partitions, known.namespace) == (1, 2, ("shop.", 2, 4, ""))
    repeated = DescribeNamespacesRequest(("shop.",) * 100)
    assert len(shop.ask(repeated).namespaces) == 1
    put(shop, "o")
    put(shop, "shop.a")
    put(shop, "shop.b")
    found = shop.ask(DescribeNamespacesRequest()).namespaces
    assert [(each.prefix, each.topics, each.partitions) for each in found] == [
        ("o", 1, 3),
        ("shop.", 1, 2),
        ("shop.a", 1, 2),
        ("shop.b", 0, 0),
    ]


def test_rules_come_and_go_with_the_owner(shop: Driver) -> None:
    shop.ask(AlterRolesRequest((RoleChange("sellers", CREATE), RoleChange("others", CREATE))))
    put(shop, "shop.", owner="sellers")
    kinds = {ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID}
    assert {rule.resource_type for rule in shop.image.acls} == kinds
    assert {rule[1:6] for rule in shop.image.acls} == {
        ("shop.", PatternType.PREFIXED, "Role:sellers", "*", AclOperation.ALL)
    }
    assert image_of(image_records(shop.image), shop.image.offset) == shop.image
    shop.restart()
    put(shop, "shop.", max_topics=7)
    put(shop, "shop.", owner="others")
    assert {rule.principal for rule in shop.image.acls} == {"Role:others"}
    assert alter(shop, NamespaceChange("shop.", is_deleted=True)) == [(0, "")]
    assert not shop.image.acls


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (NamespaceChange(""), InvalidRequestError, "must not be empty"),
        (NamespaceChange("a b"), InvalidRequestError, "ASCII letters"),
        (NamespaceChange("x" * 250), InvalidRequestError, "250 characters"),
        (NamespaceChange("a", max_topics=-2), InvalidRequestError, "topics, or -1 for no limit, not -2"),
        (NamespaceChange("a", max_partitions=1 << 31), InvalidRequestError, "partitions, or -1"),
        (NamespaceChange("a", owner="absent"), ResourceNotFoundError, "no role 'absent'"),
        (NamespaceChange("a", is_deleted=True), ResourceNotFoundError, "no namespace 'a'"),
    ],
)
def test_an_invalid_change_is_refused_alone(
    driver: Driver, change: NamespaceChange, error: type, text: str
) -> None:
    (code, detail), made = alter(driver, change, NamespaceChange("ok"))
    assert code == error.code
    assert text in detail
    assert made == (0, "")
    assert list(driver.image.namespaces) == ["ok"]


def test_limits_and_repeated_prefixes(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    twice = alter(driver, NamespaceChange("a"), NamespaceChange("a"))
    assert [code for code, _ in twice] == [DuplicateResourceError.code] * 2
    monkeypatch.setattr(namespaces, "MAX_NAMESPACES", 2)
    with pytest.raises(InvalidRequestError, match="at most 2"):
        alter(driver, *map(NamespaceChange, "abc"))
    with pytest.raises(InvalidRequestError, match="at most 2"):
        driver.ask(DescribeNamespacesRequest(("a", "b", "c")))
    put(driver, "a")
    assert [code for code, _ in alter(driver, NamespaceChange("b"), NamespaceChange("c"))] == [
        0,
        InvalidRequestError.code,
    ]
    put(driver, "a", max_topics=3)
    monkeypatch.setattr(acl_rules, "MAX_RULES", 2)
    driver.ask(AlterRolesRequest((RoleChange("r", CREATE),)))
    assert "2 rules already" in alter(driver, NamespaceChange("a", owner="r"))[0][1]
    monkeypatch.setattr(acl_rules, "MAX_RULES", 5)
    first, second = alter(driver, NamespaceChange("a", owner="r"), NamespaceChange("b", owner="r"))
    assert first == (0, "")
    assert "5 rules already" in second[1]
    assert len(driver.image.acls) == 3
