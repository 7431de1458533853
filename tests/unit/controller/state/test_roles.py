"""Roles and their members are created, granted, revoked and deleted; each invalid change is refused alone."""

from __future__ import annotations

import pytest
from controller_kit import Driver
from headrace.controller.state import roles
from headrace.protocol.errors import InvalidRequestError, ResourceNotFoundError
from headrace.protocol.messages.roles import (
    CREATE,
    DELETE,
    DELETE_WHOLE,
    GRANT,
    REVOKE,
    AlterNamespacesRequest,
    AlterRolesRequest,
    DescribeRolesRequest,
    NamespaceChange,
    RoleChange,
)
from headrace.protocol.messages.security import CreateAclsRequest
from headrace.protocol.metadata.replay import image_of, image_records
from headrace.protocol.security.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType

RULE = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "Role:readers",
    "*",
    AclOperation.READ,
    AclPermission.ALLOW,
)


def alter(driver: Driver, *changes: RoleChange) -> list[int]:
    """The error code of each change."""
    return [result.error_code for result in driver.ask(AlterRolesRequest(changes)).results]


def reason(driver: Driver, change: RoleChange) -> str:
    """Why a change is refused."""
    before = driver.image
    (result,) = driver.ask(AlterRolesRequest((change,))).results
    assert result.error_code
    assert driver.image is before
    return str(result.error_detail)


def make(driver: Driver) -> None:
    """The role `readers` with two members and a rule."""
    changes = [RoleChange("readers", GRANT, f"User:{name}") for name in ("bob", "alice")]
    assert alter(driver, RoleChange("readers", CREATE), *changes) == [0, 0, 0]
    assert driver.ask(CreateAclsRequest((RULE,))).results[0].error_code == 0


def test_later_changes_of_a_request_see_the_earlier_ones(driver: Driver) -> None:
    make(driver)
    assert list(driver.image.role_members) == [("readers", "User:bob"), ("readers", "User:alice")]
    before = driver.image
    again = RoleChange("readers", CREATE), RoleChange("readers", GRANT, "User:bob")
    assert alter(driver, *again) == [0, 0]
    assert driver.image is before
    answer = driver.ask(AlterRolesRequest((RoleChange("readers", REVOKE, "User:bob"),)))
    assert answer.metadata_offset == driver.image.offset
    assert list(driver.image.role_members) == [("readers", "User:alice")]
    assert image_of(image_records(driver.image), driver.image.offset) == driver.image
    driver.restart()


def test_roles_are_described_by_name_and_by_member(driver: Driver) -> None:
    make(driver)
    alter(driver, RoleChange("writers", CREATE), RoleChange("writers", GRANT, "User:bob"))
    found = driver.ask(DescribeRolesRequest()).roles
    assert [(each.name, each.members) for each in found] == [
        ("readers", ("User:alice", "User:bob")),
        ("writers", ("User:bob",)),
    ]
    assert [each.name for each in driver.ask(DescribeRolesRequest((), "User:alice")).roles] == ["readers"]
    unknown, known = driver.ask(DescribeRolesRequest(("x", "writers"))).roles
    assert (unknown.name, unknown.error_code) == ("x", ResourceNotFoundError.code)
    assert known.members == ("User:bob",)
    repeated = DescribeRolesRequest(("writers",) * 100)
    assert [each.name for each in driver.ask(repeated).roles] == ["writers"]


def test_a_role_in_use_is_deleted_only_with_what_it_has(driver: Driver) -> None:
    make(driver)
    assert "has 2 members and 1 rules" in reason(driver, RoleChange("readers", DELETE))
    assert alter(driver, RoleChange("readers", DELETE_WHOLE), RoleChange("readers", CREATE)) == [0, 0]
    assert not driver.image.role_members
    assert not driver.image.acls
    assert alter(driver, RoleChange("readers", DELETE)) == [0]
    assert not driver.image.roles


def test_an_owner_is_not_deleted(driver: Driver) -> None:
    make(driver)
    driver.ask(AlterNamespacesRequest((NamespaceChange("shop.", owner="readers"),)))
    assert "owns the namespace 'shop.'" in reason(driver, RoleChange("readers", DELETE_WHOLE))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (RoleChange("", CREATE), "must not be empty"),
        (RoleChange("a b", CREATE), "ASCII letters"),
        (RoleChange("x" * 250, CREATE), "250 characters"),
        (RoleChange("readers", 9), "no change 9"),
        (RoleChange("absent", GRANT, "User:a"), "no role 'absent'"),
        (RoleChange("absent", DELETE), "no role 'absent'"),
        (RoleChange("readers", GRANT, "alice"), "type:name"),
        (RoleChange("readers", GRANT, "Role:writers"), "is a user"),
        (RoleChange("readers", GRANT, "User:*"), "rules for all users"),
        (RoleChange("readers", GRANT, "User:" + "x" * 1000), "1000 characters"),
        (RoleChange("readers", REVOKE, "User:carol"), "no member"),
    ],
)
def test_an_invalid_change_is_refused(driver: Driver, change: RoleChange, text: str) -> None:
    make(driver)
    assert text in reason(driver, change)


def test_a_rule_of_an_unknown_role_is_refused(driver: Driver) -> None:
    (result,) = driver.ask(CreateAclsRequest((RULE,))).results
    assert (result.error_code, result.error_detail) == (
        InvalidRequestError.code,
        "there is no role 'readers': create it first",
    )


def test_limits(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "MAX_ROLES", 1)
    with pytest.raises(InvalidRequestError, match="at most 1"):
        driver.ask(DescribeRolesRequest(("a", "b")))
    monkeypatch.setattr(roles, "MAX_MEMBERSHIPS", 2)
    make(driver)
    assert "1 roles already" in reason(driver, RoleChange("writers", CREATE))
    assert "2 memberships" in reason(driver, RoleChange("readers", GRANT, "User:carol"))
    monkeypatch.setattr(roles, "MAX_RECORDS", 2)
    assert "more than 2 members and rules" in reason(driver, RoleChange("readers", DELETE_WHOLE))
    monkeypatch.setattr(roles, "MAX_CHANGES", 1)
    with pytest.raises(InvalidRequestError, match="at most 1"):
        alter(driver, *(RoleChange("readers", CREATE),) * 2)
