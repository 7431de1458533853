"""Roles and namespaces: sent to any node, decided by the controller. Their rules are in `security`."""

from __future__ import annotations

import msgspec

from ..metadata.namespaces import Namespace
from .control import ItemError

# Actions of a RoleChange. DELETE_WHOLE: with members and rules.
CREATE, DELETE, GRANT, REVOKE, DELETE_WHOLE = 1, 2, 3, 4, 5


class RoleChange(msgspec.Struct, array_like=True, frozen=True):
    """`action`: 1 create, 2 delete, 3 grant to `member`, 4 revoke from `member`, 5 delete with members and
    rules."""

    role: str
    action: int
    member: str = ""


class AlterRolesRequest(msgspec.Struct, array_like=True, frozen=True):
    """Change roles and memberships in this order; each change succeeds or fails on its own."""

    changes: tuple[RoleChange, ...]


class AlterRolesResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request; the item name is the role's name."""

    results: tuple[ItemError, ...]
    metadata_offset: int = -1


class DescribeRolesRequest(msgspec.Struct, array_like=True, frozen=True):
    """The named roles, or all; with a `member` only those that it is a member of."""

    roles: tuple[str, ...] = ()
    member: str = ""


class DescribedRole(msgspec.Struct, array_like=True, frozen=True):
    """A role and its members, sorted, or the error."""

    name: str
    error_code: int = 0
    error_detail: str = ""
    members: tuple[str, ...] = ()


class DescribeRolesResponse(msgspec.Struct, array_like=True, frozen=True):
    """The roles in the order of the request; all are sorted by name."""

    error_code: int = 0
    error_detail: str = ""
    roles: tuple[DescribedRole, ...] = ()


class NamespaceChange(msgspec.Struct, array_like=True, frozen=True):
    """Create, change or delete the namespace of a prefix. A null limit or owner stays as it is; a limit of -1
    is none, and so is an empty owner."""

    prefix: str
    max_topics: int | None = None
    max_partitions: int | None = None
    owner: str | None = None
    is_deleted: bool = False


class AlterNamespacesRequest(msgspec.Struct, array_like=True, frozen=True):
    """Change namespaces; each prefix may be named once and succeeds or fails on its own."""

    changes: tuple[NamespaceChange, ...]


class AlterNamespacesResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request; the item name is the prefix."""

    results: tuple[ItemError, ...]
    metadata_offset: int = -1


class DescribeNamespacesRequest(msgspec.Struct, array_like=True, frozen=True):
    """The namespaces with these prefixes, or all."""

    prefixes: tuple[str, ...] = ()


class DescribedNamespace(msgspec.Struct, array_like=True, frozen=True):
    """A namespace with its present topics and partitions, or the error."""

    prefix: str
    error_code: int = 0
    error_detail: str = ""
    namespace: Namespace | None = None
    topics: int = 0
    partitions: int = 0


class DescribeNamespacesResponse(msgspec.Struct, array_like=True, frozen=True):
    """The namespaces in the order of the request; all are sorted by prefix."""

    error_code: int = 0
    error_detail: str = ""
    namespaces: tuple[DescribedNamespace, ...] = ()
