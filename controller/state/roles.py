"""AlterRoles and DescribeRoles. Pure.

Invariants: a member belongs to a role that exists; a role with members, with rules or with a namespace is not
deleted, unless its members and rules are deleted with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRequestError, KafkaError, ResourceNotFoundError
from ...protocol.messages.control import ItemError
from ...protocol.messages.roles import (
    CREATE,
    DELETE,
    DELETE_WHOLE,
    GRANT,
    REVOKE,
    AlterRolesResponse,
    DescribedRole,
    DescribeRolesResponse,
)
from ...protocol.metadata.records import (
    RemoveAccessControlEntryRecord,
    RemoveRoleMemberRecord,
    RemoveRoleRecord,
    RoleMemberRecord,
    RoleRecord,
)
from ...protocol.security.roles import member_fault, role_name_fault, role_of
from .acl_rules import MAX_NAME
from .decision import Decision

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from ...protocol.messages.roles import AlterRolesRequest, DescribeRolesRequest, RoleChange
    from ...protocol.metadata.image import MetadataImage
    from ...protocol.metadata.records import MetadataRecord
    from ...protocol.security.acls import AclBinding

# Bounds: roles and memberships in all, which are part of every snapshot; changes of one request, and the
# members and rules that it deletes with roles.
MAX_ROLES = 10_000
MAX_MEMBERSHIPS = 100_000
MAX_CHANGES = 10_000
MAX_RECORDS = 20_000


def decide_alter_roles(image: MetadataImage, request: AlterRolesRequest) -> Decision:
    """Later changes of a request see the earlier ones. Errors: InvalidRequestError for too many."""
    if len(request.changes) > MAX_CHANGES:
        raise InvalidRequestError(f"{len(request.changes)} changes, at most {MAX_CHANGES} are allowed")
    draft = _Draft(image)
    results = []
    for change in request.changes:
        try:
            draft.change(change)
        except KafkaError as error:
            results.append(ItemError(change.role, error.code, error.detail))
        else:
            results.append(ItemError(change.role))
    end = image.offset + len(draft.records)
    return Decision(tuple(draft.records), AlterRolesResponse(tuple(results), end))


class _Draft:
    """Members and rules of all roles with the changes so far, and the records of these."""

    def __init__(self, image: MetadataImage) -> None:
        self._members: dict[str, dict[str, None]] = {name: {} for name in image.roles}
        for name, member in image.role_members:
            self._members[name][member] = None
        self._count = len(image.role_members)
        self._rules: dict[str, list[AclBinding]] = {}
        for rule in image.acls:
            owner = role_of(rule.principal)
            if owner is not None:
                self._rules.setdefault(owner, []).append(rule)
        self._owned = {each.owner: each.prefix for each in image.namespaces.values()}
        self.records: list[MetadataRecord] = []

    def change(self, change: RoleChange) -> None:
        """Errors: InvalidRequestError, ResourceNotFoundError."""
        work = _CHANGES.get(change.action)
        if work is None:
            raise InvalidRequestError(f"there is no change {change.action} of a role")
        if change.action != CREATE:
            _check_known(self._members, change.role)
        work(self, change)

    def create(self, change: RoleChange) -> None:
        """A role that exists stays."""
        fault = role_name_fault(change.role)
        if fault is not None:
            raise InvalidRequestError(fault)
        if change.role in self._members:
            return
        if len(self._members) >= MAX_ROLES:
            raise InvalidRequestError(f"there are {MAX_ROLES} roles already")
        self._members[change.role] = {}
        self.records.append(RoleRecord(change.role))

    def delete(self, change: RoleChange) -> None:
        """Errors: InvalidRequestError for a role that is in use."""
        name = change.role
        if name in self._owned:
            raise InvalidRequestError(f"role {name} owns the namespace {self._owned[name]!r}")
        members, rules = sorted(self._members[name]), sorted(self._rules.get(name, ()))
        if change.action == DELETE and (members or rules):
            raise InvalidRequestError(
                f"role {name} has {len(members)} members and {len(rules)} rules: take them away first, or"
                " delete the role with them"
            )
        if len(self.records) + len(members) + len(rules) > MAX_RECORDS:
            raise InvalidRequestError(
                f"more than {MAX_RECORDS} members and rules at once: take some away first"
            )
        self.records += [RemoveAccessControlEntryRecord(rule) for rule in rules]
        self.records += [RemoveRoleMemberRecord(name, member) for member in members]
        self.records.append(RemoveRoleRecord(name))
        self._count -= len(members)
        del self._members[name]
        self._rules.pop(name, None)

    def grant(self, change: RoleChange) -> None:
        """No effect on an existing membership."""
        if len(change.member) > MAX_NAME:
            raise InvalidRequestError(f"a principal has at most {MAX_NAME} characters")
        fault = member_fault(change.member)
        if fault is not None:
            raise InvalidRequestError(fault)
        members = self._members[change.role]
        if change.member in members:
            return
        if self._count >= MAX_MEMBERSHIPS:
            raise InvalidRequestError(f"there are {MAX_MEMBERSHIPS} memberships of roles already")
        self._count += 1
        members[change.member] = None
        self.records.append(RoleMemberRecord(change.role, change.member))

    def revoke(self, change: RoleChange) -> None:
        """Errors: ResourceNotFoundError."""
        members = self._members[change.role]
        if change.member not in members:
            raise ResourceNotFoundError(f"{change.member[:100]!r} is no member of role {change.role}")
        self._count -= 1
        del members[change.member]
        self.records.append(RemoveRoleMemberRecord(change.role, change.member))


_CHANGES: dict[int, Callable[[_Draft, RoleChange], None]] = {
    CREATE: _Draft.create,
    DELETE: _Draft.delete,
    GRANT: _Draft.grant,
    REVOKE: _Draft.revoke,
    DELETE_WHOLE: _Draft.delete,
}


def describe_roles(image: MetadataImage, request: DescribeRolesRequest) -> Decision:
    """Roles with their members. Errors: InvalidRequestError for too many."""
    if len(request.roles) > MAX_ROLES:
        raise InvalidRequestError(f"{len(request.roles)} roles, at most {MAX_ROLES} are allowed")
    members: dict[str, list[str]] = {}
    for name, member in sorted(image.role_members):
        members.setdefault(name, []).append(member)
    names = tuple(dict.fromkeys(request.roles)) or tuple(sorted(image.roles))
    if request.member:
        names = tuple(name for name in names if (name, request.member) in image.role_members)
    roles = tuple(_described(image, name, tuple(members.get(name, ()))) for name in names)
    return Decision((), DescribeRolesResponse(roles=roles))


def _described(image: MetadataImage, name: str, members: tuple[str, ...]) -> DescribedRole:
    try:
        _check_known(image.roles, name)
    except KafkaError as error:
        return DescribedRole(name, error.code, error.detail)
    return DescribedRole(name, members=members)


def _check_known(roles: Container[str], name: str) -> None:
    """Errors: ResourceNotFoundError."""
    if name not in roles:
        raise ResourceNotFoundError(f"there is no role {name[:100]!r}")
