"""Rules without effect: those that can never match, and those that other rules make useless. Pure."""

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
from .rule_index import Rule, RuleIndex

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from .acls import AclBinding


class Finding(NamedTuple):
    """A rule without effect, why, and the rule that makes it so if there is one."""

    rule: AclBinding
    reason: str
    because_of: AclBinding | None = None


def lint(
    bindings: Iterable[AclBinding],
    super_users: Collection[str] = (),
    principal_types: Collection[str] = (USER_TYPE,),
) -> Iterator[Finding]:
    """The rules without effect, each once, in the order of `bindings`. `principal_types`: the types that
    connections may have."""
    index = RuleIndex(bindings)
    for binding in index:
        reason = _never_matches(binding, super_users, principal_types)
        if reason:
            yield Finding(binding, reason)
        else:
            yield from _shadowed(index, binding)


def _never_matches(
    binding: AclBinding, super_users: Collection[str], principal_types: Collection[str]
) -> str | None:
    return _no_resource(binding) or _no_connection(binding, super_users, principal_types)


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
    if not _is_host(binding.host):
        return f"{binding.host!r} is no address: connections are compared by address"
    try:
        principal = parse_principal(binding.principal)
    except ValueError as error:
        return str(error)
    if principal.kind not in principal_types:
        return f"no connection has a principal of type {principal.kind}"
    if binding.principal in super_users:
        return f"{binding.principal} is a super user, for whom no rule counts"
    return None


def _names_the_cluster(binding: AclBinding) -> bool:
    if binding.pattern_type is PatternType.PREFIXED:
        return CLUSTER_NAME.startswith(binding.name)
    return binding.name in (CLUSTER_NAME, WILDCARD_RESOURCE)


def _is_host(host: str) -> bool:
    return host == WILDCARD_HOST or _block(host) is not None


def _shadowed(index: RuleIndex, binding: AclBinding) -> Iterator[Finding]:
    """At most one finding: a rule of the same kind that decides as much, or a denial that comes first.

    Of two rules that decide exactly the same, only the one that sorts later is found.
    """
    own = Rule(binding)
    for other in index.covering(binding):
        if other.binding == binding or not _covers(other, own):
            continue
        if other.is_allowing is not own.is_allowing:
            if own.is_allowing:
                yield Finding(binding, "another rule denies all of it", other.binding)
                return
        elif binding > other.binding or not _is_equal(other, own):
            yield Finding(binding, "another rule decides all of it alike", other.binding)
            return


def _is_equal(one: Rule, other: Rule) -> bool:
    """Whether rules of which one covers the other decide the same."""
    key = (one.binding.pattern_type, one.binding.name, one.binding.principal)
    same = key == (other.binding.pattern_type, other.binding.name, other.binding.principal)
    return same and _covers(other, one) and _covers(one, other)


def _covers(one: Rule, other: Rule) -> bool:
    """Whether a rule about all resources and principals of another also decides its operations and hosts."""
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
    """The addresses that a host of a rule stands for."""
    try:
        return ipaddress.ip_network(host, strict=False)
    except ValueError:
        return None
