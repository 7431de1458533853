"""Roles: named sets of rules. A rule of the principal `Role:name` counts for all members of the role. Pure.

Members are users. Connections have no principal of this type, and roles are not members of roles.
"""

from __future__ import annotations

from ..model import topic_name_fault
from .principals import USER_TYPE, WILDCARD_NAME, Principal, parse_principal

ROLE_TYPE = "Role"


def role(name: str) -> Principal:
    """The principal of a role's rules."""
    return Principal(ROLE_TYPE, name)


def role_of(principal: str) -> str | None:
    """The name of the role whose rules have this principal, None if it is no role."""
    kind, _, name = principal.partition(":")
    return name if kind == ROLE_TYPE else None


def role_name_fault(name: str) -> str | None:
    """The reason why `name` is not a valid name of a role, or None: names are as those of topics."""
    fault = topic_name_fault(name)
    return None if fault is None else fault.replace("topic name", "role's name")


def member_fault(principal: str) -> str | None:
    """The reason why a principal cannot be a member of a role, or None."""
    try:
        kind, name = parse_principal(principal)
    except ValueError as error:
        return str(error)
    if kind != USER_TYPE:
        return f"a member of a role is a user, not {principal[:100]!r}"
    if name == WILDCARD_NAME:
        return "rules for all users are rules of User:*, not of a role"
    return None
