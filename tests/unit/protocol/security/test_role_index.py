"""The roles of principals follow memberships; names of roles and members."""

from __future__ import annotations

import pytest
from headrace.protocol.security.role_index import RoleIndex
from headrace.protocol.security.roles import member_fault, role, role_name_fault, role_of


def test_roles_of_a_member_come_after_itself_and_all_users() -> None:
    index = RoleIndex([("b", "User:alice"), ("a", "User:alice"), ("b", "User:bob")])
    assert index.owners_of("User:alice") == ("User:alice", "User:*", "Role:a", "Role:b")
    assert index.owners_of("User:bob") == ("User:bob", "User:*", "Role:b")
    assert index.owners_of("User:carol") == ("User:carol", "User:*")
    assert index.owners_of("User:*") == ("User:*",)


def test_memberships_come_and_go() -> None:
    index = RoleIndex()
    index.change([("a", "User:alice"), ("a", "User:alice"), ("b", "User:alice")], [("x", "User:alice")])
    assert set(index.keys()) == {("a", "User:alice"), ("b", "User:alice")}
    index.change([], [("a", "User:alice")])
    assert index.owners_of("User:alice") == ("User:alice", "User:*", "Role:b")
    index.change([("a", "User:alice")], [("b", "User:alice"), ("b", "User:alice")])
    assert index.owners_of("User:alice") == ("User:alice", "User:*", "Role:a")
    index.change([], [("a", "User:alice")])
    assert index.owners_of("User:alice") == ("User:alice", "User:*")
    assert not index.keys()


def test_principals_of_roles() -> None:
    assert str(role("readers")) == "Role:readers"
    assert role_of("Role:a:b") == "a:b"
    assert role_of("User:alice") is None
    assert role_name_fault("readers") is None
    assert role_name_fault("") == "a role's name must not be empty"


@pytest.mark.parametrize("principal", ["alice", "Role:a", "Group:a", "User:*", "User:", ""])
def test_only_users_are_members(principal: str) -> None:
    assert member_fault(principal)
    assert member_fault("User:alice") is None
