"""All rules of a cluster, indexed by resource and principal. Pure.

Rules are added and removed one at a time, as the metadata changes: a change costs the same with 100,000 rules
as with ten. A look-up visits the rules of a user, of all users and of its roles on the patterns that match a
name: the name itself, `*`, and one prefix per distinct prefix length.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from .acls import (
    WILDCARD_HOST,
    WILDCARD_RESOURCE,
    AclOperation,
    AclPermission,
    PatternType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, KeysView

    from .acls import AclBinding, Resource, ResourceType

    Network = ipaddress.IPv4Network | ipaddress.IPv6Network
    _Rules = dict["AclBinding", "Rule"]

K = TypeVar("K")

_EVERY_OPERATION = -1
_DESCRIBE = 1 << AclOperation.DESCRIBE
_IMPLIED = {  # by an allow rule
    AclOperation.READ: _DESCRIBE,
    AclOperation.WRITE: _DESCRIBE,
    AclOperation.DELETE: _DESCRIBE,
    AclOperation.ALTER: _DESCRIBE,
    AclOperation.ALTER_CONFIGS: 1 << AclOperation.DESCRIBE_CONFIGS,
}


class Rule:
    """A rule in the form for evaluation. `operations`: a bit set of the operations to which it applies."""

    __slots__ = ("address", "binding", "is_allowing", "network", "operations")

    def __init__(self, binding: AclBinding) -> None:
        self.binding = binding
        self.is_allowing = binding.permission is AclPermission.ALLOW
        self.operations = operations_of(binding)
        self.address, self.network = parsed_host(binding.host)

    def decides(self, host: str, operation_bit: int) -> bool:
        """Whether the rule applies to this operation from this host."""
        if not self.operations & operation_bit:
            return False
        if self.network is not None:
            return _is_inside(host, self.network)
        return self.address in (host, WILDCARD_HOST)


def operations_of(binding: AclBinding) -> int:
    """The operations to which a rule applies, implied ones included, as a bit set."""
    if binding.operation is AclOperation.ALL:
        return _EVERY_OPERATION
    implied = _IMPLIED.get(binding.operation, 0) if binding.permission is AclPermission.ALLOW else 0
    return (1 << binding.operation) | implied


@lru_cache(maxsize=1024)
def parsed_host(host: str) -> tuple[str, Network | None]:
    """The host of a rule as canonical text, and its block of addresses; None if it is not a block. A text
    that is not an address matches no connection.
    """
    try:
        if "/" in host:
            return host, ipaddress.ip_network(host, strict=False)
        return str(ipaddress.ip_address(host)), None
    except ValueError:
        return host, None


def _is_inside(host: str, network: Network) -> bool:
    try:
        return ipaddress.ip_address(host) in network
    except ValueError:  # the address of the connection is not known
        return False


class RuleIndex:
    """Invariant: no group of rules is empty, and `_prefix_counts` counts the prefixes of each length."""

    def __init__(self, bindings: Iterable[AclBinding] = ()) -> None:
        self._rules: _Rules = {}
        self._patterns: dict[tuple[PatternType, ResourceType, str], dict[str, _Rules]] = {}
        self._of_principals: dict[tuple[ResourceType, str], _Rules] = {}
        self._prefix_counts: dict[ResourceType, dict[int, int]] = {}
        self._prefix_lengths: dict[ResourceType, tuple[int, ...]] = {}  # longest first
        for binding in bindings:
            self.add(binding)

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[AclBinding]:
        return iter(self._rules)

    def keys(self) -> KeysView[AclBinding]:
        """The rules as a set."""
        return self._rules.keys()

    def add(self, binding: AclBinding) -> None:
        """Add a rule; no effect if it exists."""
        if binding in self._rules:
            return
        rule = self._rules[binding] = Rule(binding)
        key = (binding.pattern_type, binding.resource_type, binding.name)
        principals = self._patterns.get(key)
        if principals is None:
            principals = self._patterns[key] = {}
            if binding.pattern_type is PatternType.PREFIXED:
                self._count_prefix(binding, 1)
        principals.setdefault(binding.principal, {})[binding] = rule
        self._of_principals.setdefault((binding.resource_type, binding.principal), {})[binding] = rule

    def remove(self, binding: AclBinding) -> None:
        """Remove a rule; no effect if it does not exist."""
        if self._rules.pop(binding, None) is None:
            return
        key = (binding.pattern_type, binding.resource_type, binding.name)
        principals = self._patterns[key]
        _drop(principals, binding.principal, binding)
        _drop(self._of_principals, (binding.resource_type, binding.principal), binding)
        if not principals:
            del self._patterns[key]
            if binding.pattern_type is PatternType.PREFIXED:
                self._count_prefix(binding, -1)

    def patterns_of(self, resource: Resource) -> list[dict[str, _Rules]]:
        """The rules by principal of each pattern that matches the resource: its name, prefixes from the
        longest, `*`."""
        return self._matching(PatternType.LITERAL, resource.type, resource.name)

    def covering(self, binding: AclBinding, owners: Iterable[str]) -> Iterator[Rule]:
        """Rules of some principals whose patterns include all resources of this rule's pattern."""
        if binding.pattern_type is PatternType.LITERAL and binding.name == WILDCARD_RESOURCE:
            patterns = self._found([(PatternType.LITERAL, binding.resource_type, WILDCARD_RESOURCE)])
        else:
            patterns = self._matching(binding.pattern_type, binding.resource_type, binding.name)
        for principals in patterns:
            for principal in owners:
                yield from principals.get(principal, {}).values()

    def of_principal(self, resource_type: ResourceType, principal: str) -> Iterable[Rule]:
        """The rules of this principal for resources of one type."""
        return self._of_principals.get((resource_type, principal), {}).values()

    def _matching(self, pattern_type: PatternType, kind: ResourceType, name: str) -> list[dict[str, _Rules]]:
        keys = [(PatternType.LITERAL, kind, name)] if pattern_type is PatternType.LITERAL else []
        size = len(name)
        lengths = self._prefix_lengths.get(kind, ())
        keys += [(PatternType.PREFIXED, kind, name[:length]) for length in lengths if length <= size]
        keys.append((PatternType.LITERAL, kind, WILDCARD_RESOURCE))
        return self._found(keys)

    def _found(self, keys: list[tuple[PatternType, ResourceType, str]]) -> list[dict[str, _Rules]]:
        patterns = self._patterns
        return [found for key in keys if (found := patterns.get(key)) is not None]

    def _count_prefix(self, binding: AclBinding, change: int) -> None:
        counts = self._prefix_counts.setdefault(binding.resource_type, {})
        length = len(binding.name)
        counts[length] = counts.get(length, 0) + change
        if counts[length] == 0:
            del counts[length]
        self._prefix_lengths[binding.resource_type] = tuple(sorted(counts, reverse=True))


def _drop(groups: dict[K, _Rules], key: K, binding: AclBinding) -> None:
    """Remove the rule from its group, and the group if it is empty."""
    del groups[key][binding]
    if not groups[key]:
        del groups[key]
