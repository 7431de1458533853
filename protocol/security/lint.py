"""Rules without effect: they can never match, or other rules make them redundant. Pure."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, NamedTuple

from .acls import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    WILDCARD_HOST,
    WILDCARD_RESOURCE,
    AclOperation,
    PatternType,
    ResourceType,
)
from .principals import USER_TYPE, parse_principal
from .role_index import RoleIndex
from .roles import role_of
from .rule_index import Rule, RuleIndex

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from .acls import AclBinding


class Finding(NamedTuple):
    """A rule without effect, the reason, and the rule that makes it redundant if there is one."""

    rule: AclBinding
    reason: str
    because_of: AclBinding | None = None


def lint(
    bindings: Iterable[AclBinding],
    super_users: Collection[str] = (),
    principal_types: Collection[str] = (USER_TYPE,),
    members: Mapping[str, Collection[str]] | None = None,
) -> Iterator[Finding]:
    """The rules without effect, each once, in the order of `bindings`. `principal_types`: the types that
    connections may have. `members`: the principals of each role."""
    index, of_roles = RuleIndex(bindings), members or {}
    roles = RoleIndex((name, member) for name, those in of_roles.items() for member in those)
    for binding in index:
        reason = _never_matches(binding, super_users, principal_types, of_roles)
        if reason:
            yield Finding(binding, reason)
        else:
            yield from _shadowed(index, binding, roles.owners_of(binding.principal))


def _never_matches(
    binding: AclBinding,
    super_users: Collection[str],
    principal_types: Collection[str],
    members: Mapping[str, Collection[str]],
) -> str | None:
    if role_of(binding.principal) is not None:
        return _no_resource(binding) or _no_host(binding) or _no_member(binding, super_users, members)
    return _no_resource(binding) or _no_connection(binding, super_users, principal_types)


def _no_member(
    binding: AclBinding, super_users: Collection[str], members: Mapping[str, Collection[str]]
) -> str | None:
    name = role_of(binding.principal) or ""
    if name not in members:
        return f"there is no role {name}"
    if not members[name]:
        return f"role {name} has no members"
    if all(member in super_users for member in members[name]):
        return f"all members of role {name} are super users, for whom no rule counts"
    return None


def _no_resource(binding: AclBinding) -> str | None:
    kind, operation = binding.resource_type, binding.operation
    if operation is not AclOperation.ALL and operation not in OPERATIONS_OF.get(kind, ()):
        return f"no request needs {operation.name} of a {kind.name}"
    if kind is ResourceType.CLUSTER and not _names_the_cluster(binding):
        return f"the only name of a CLUSTER is {CLUSTER_NAME}"
    return None


def _no_connection(
    binding: AclBinding, super_users: Collection[str], principal_types: Collection[str]
) -> str | None:
    if (fault := _no_host(binding)) is not None:
        return fault
    try:
        principal = parse_principal(binding.principal)
    except ValueError as error:
        return str(error)
    if principal.kind not in principal_types:
        return f"no connection has a principal of type {principal.kind}"
    if binding.principal in super_users:
        return f"{binding.principal} is a super user, to whom no rule applies"
    return None


def _no_host(binding: AclBinding) -> str | None:
    if binding.host == WILDCARD_HOST or _block(binding.host) is not None:
        return None
    return f"{binding.host!r} is not an address: rules are matched with the IP address of the connection"


def _names_the_cluster(binding: AclBinding) -> bool:
    if binding.pattern_type is PatternType.PREFIXED:
        return CLUSTER_NAME.startswith(binding.name)
    return binding.name in (CLUSTER_NAME, WILDCARD_RESOURCE)


def _shadowed(index: RuleIndex, binding: AclBinding, owners: tuple[str, ...]) -> Iterator[Finding]:
    """At most one finding: a rule with the same permission that covers this one, or a deny rule that does.
    `owners`: the principal, and others whose rules also apply to it.

    Of two rules that are exactly equivalent, only the one that sorts later is reported.
    """
    own = Rule(binding)
    for other in index.covering(binding, owners):
        if other.binding == binding or not _covers(other, own):
            continue
        if other.is_allowing is not own.is_allowing:
            if own.is_allowing:
                yield Finding(binding, "another rule denies all of it", other.binding)
                return
        elif binding > other.binding or not _is_equal(other, own):
            yield Finding(binding, "another rule with the same permission covers all of it", other.binding)
            return


def _is_equal(one: Rule, other: Rule) -> bool:
    """Whether two rules, of which one covers the other, are equivalent."""
    key = (one.binding.pattern_type, one.binding.name, one.binding.principal)
    same = key == (other.binding.pattern_type, other.binding.name, other.binding.principal)
    return same and _covers(other, one) and _covers(one, other)


def _covers(one: Rule, other: Rule) -> bool:
    """Whether a rule that covers the resources and principals of another one also covers its operations and
    hosts."""
    return not other.operations & ~one.operations and _covers_hosts(one, other)


def _covers_hosts(one: Rule, other: Rule) -> bool:
    if one.address == WILDCARD_HOST:
        return True
    if other.address == WILDCARD_HOST:
        return False
    inner, outer = _block(other.address), _block(one.address)
    if inner is None or outer is None or inner.version != outer.version:
        return False
    return inner.subnet_of(outer)  # type: ignore[arg-type]


def _block(host: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """The addresses that the host of a rule matches."""
    try:
        return ipaddress.ip_network(host, strict=False)
    except ValueError:
        return None
