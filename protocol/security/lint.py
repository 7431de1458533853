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
from .rule_index import Rule, RuleIndex

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

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
        return f"{binding.host!r} is not an address: rules are matched with the IP address of the connection"
    try:
        principal = parse_principal(binding.principal)
    except ValueError as error:
        return str(error)
    if principal.kind not in principal_types:
        return f"no connection has a principal of type {principal.kind}"
    if binding.principal in super_users:
        return f"{binding.principal} is a super user, to whom no rule applies"
    return None


def _names_the_cluster(binding: AclBinding) -> bool:
    if binding.pattern_type is PatternType.PREFIXED:
        return CLUSTER_NAME.startswith(binding.name)
    return binding.name in (CLUSTER_NAME, WILDCARD_RESOURCE)


def _is_host(host: str) -> bool:
    return host == WILDCARD_HOST or _block(host) is not None


def _shadowed(index: RuleIndex, binding: AclBinding) -> Iterator[Finding]:
    """At most one finding: a rule with the same permission that covers this one, or a deny rule that does.

    Of two rules that are exactly equivalent, only the one that sorts later is reported.
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
