"""All rules of a cluster, indexed by resource and principal. Pure.

Rules are added and removed one at a time, as the metadata changes: a change costs the same with 100,000 rules
as with ten. A look-up visits the rules of a user, of all users and of its roles on the patterns that match a
name: the name itself, `*`, and one prefix for each length of the prefixes of each of these principals.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar

from .acls import (
    WILDCARD_HOST,
    WILDCARD_RESOURCE,
    AclOperation,
    AclPermission,
    PatternType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, KeysView, Sequence

    from .acls import AclBinding, Resource, ResourceType

    Network = ipaddress.IPv4Network | ipaddress.IPv6Network

V = TypeVar("V")

EVERY_OPERATION = -1
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
        return bool(self.operations & operation_bit) and self.is_from(host)

    def is_from(self, host: str) -> bool:
        """Whether the rule applies to connections from this host."""
        if self.network is not None:
            return _is_inside(host, self.network)
        return self.address in (host, WILDCARD_HOST)


def operations_of(binding: AclBinding) -> int:
    """The operations to which a rule applies, implied ones included, as a bit set."""
    if binding.operation is AclOperation.ALL:
        return EVERY_OPERATION
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


class RuleGroup:
    """The rules that name one principal and one pattern.

    Invariant: `allowed` and `denied` are bit sets of the operations of the rules for all hosts; `of_hosts`
    are the other rules.
    """

    __slots__ = ("_of_all", "allowed", "denied", "of_hosts")

    def __init__(self) -> None:
        self._of_all: list[Rule] = []  # a few: one for each operation and permission
        self.allowed = self.denied = 0
        self.of_hosts: dict[AclBinding, Rule] | None = None

    def __bool__(self) -> bool:
        return bool(self._of_all or self.of_hosts)

    def __iter__(self) -> Iterator[Rule]:
        yield from self._of_all
        yield from (self.of_hosts or {}).values()

    def add(self, rule: Rule) -> None:
        """Add a rule that is not there."""
        if rule.address == WILDCARD_HOST:
            self._of_all.append(rule)
            self._count(rule)
        else:
            self.of_hosts = self.of_hosts or {}
            self.of_hosts[rule.binding] = rule

    def remove(self, binding: AclBinding) -> None:
        """Remove a rule that is there."""
        if self.of_hosts is not None and self.of_hosts.pop(binding, None) is not None:
            return
        self._of_all = [rule for rule in self._of_all if rule.binding != binding]
        self.allowed = self.denied = 0
        for rule in self._of_all:
            self._count(rule)

    def _count(self, rule: Rule) -> None:
        if rule.is_allowing:
            self.allowed |= rule.operations
        else:
            self.denied |= rule.operations


class Patterns(Generic[V]):
    """Patterns of one resource type, with a value each.

    Invariant: `_length_counts` counts the prefixes of each length, and `_lengths` are its keys.
    """

    __slots__ = ("_length_counts", "_lengths", "_literal", "_prefixed")

    def __init__(self) -> None:
        self._literal: dict[str, V] = {}
        self._prefixed: dict[str, V] = {}
        self._length_counts: dict[int, int] = {}
        self._lengths: Sequence[int] = ()  # longest first

    def __bool__(self) -> bool:
        return bool(self._literal or self._prefixed)

    def values(self) -> Iterator[V]:
        """The values of all patterns."""
        yield from self._literal.values()
        yield from self._prefixed.values()

    def get(self, pattern_type: PatternType, name: str) -> V | None:
        """The value of one pattern."""
        return (self._literal if pattern_type is PatternType.LITERAL else self._prefixed).get(name)

    def set(self, pattern_type: PatternType, name: str, value: V) -> None:
        """Replace the value of one pattern, or add it."""
        if pattern_type is PatternType.LITERAL:
            self._literal[name] = value
        else:
            if name not in self._prefixed:
                self._count(len(name), 1)
            self._prefixed[name] = value

    def remove(self, pattern_type: PatternType, name: str) -> None:
        """Forget a pattern that is there."""
        if pattern_type is PatternType.LITERAL:
            del self._literal[name]
        else:
            del self._prefixed[name]
            self._count(len(name), -1)

    def about(self, name: str) -> list[V]:
        """Of the patterns that concern a resource: its name, prefixes from the longest, `*`."""
        literal = self._literal.get(name)
        found = [] if literal is None else [literal]
        if self._lengths:
            found += self.prefixes(name)
        every = self._literal.get(WILDCARD_RESOURCE)
        if every is not None:
            found.append(every)
        return found

    def prefixes(self, name: str) -> list[V]:
        """Of the prefixes of a name, from the longest."""
        prefixed, size = self._prefixed, len(name)
        starts = [name[:length] for length in self._lengths if length <= size]
        return [prefixed[start] for start in starts if start in prefixed]

    def _count(self, length: int, change: int) -> None:
        counts = self._length_counts
        counts[length] = counts.get(length, 0) + change
        if not counts[length]:
            del counts[length]
        if len(counts) != len(self._lengths):
            self._lengths = sorted(counts, reverse=True)


class RuleIndex:
    """Invariant: no group of rules is empty, and `_counts` has the number of rules of each pattern."""

    def __init__(self, bindings: Iterable[AclBinding] = ()) -> None:
        self._rules: dict[AclBinding, Rule] = {}
        self._of_principals: dict[tuple[ResourceType, str], Patterns[RuleGroup]] = {}
        self._counts: dict[ResourceType, Patterns[int]] = {}
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
        kind, name, pattern_type, principal = binding[:4]
        key = (kind, principal)
        patterns = self._of_principals.get(key)
        if patterns is None:
            patterns = self._of_principals[key] = Patterns()
        group = patterns.get(pattern_type, name)
        if group is None:
            group = RuleGroup()
            patterns.set(pattern_type, name, group)
        group.add(rule)
        counts = self._counts.get(kind)
        if counts is None:
            counts = self._counts[kind] = Patterns()
        counts.set(pattern_type, name, (counts.get(pattern_type, name) or 0) + 1)

    def remove(self, binding: AclBinding) -> None:
        """Remove a rule; no effect if it does not exist."""
        if self._rules.pop(binding, None) is None:
            return
        kind, name, pattern_type, principal = binding[:4]
        patterns = self._of_principals[kind, principal]
        group = patterns.get(pattern_type, name)
        assert group is not None, "no rule is without its group"
        group.remove(binding)
        if not group:
            patterns.remove(pattern_type, name)
            if not patterns:
                del self._of_principals[kind, principal]
        counts = self._counts[kind]
        left = (counts.get(pattern_type, name) or 0) - 1
        if left:
            counts.set(pattern_type, name, left)
        else:
            counts.remove(pattern_type, name)

    def patterns_of(self, resource_type: ResourceType, owners: Iterable[str]) -> list[Patterns[RuleGroup]]:
        """The patterns of the rules of some principals. They are valid until rules are added or removed."""
        found = (self._of_principals.get((resource_type, owner)) for owner in owners)
        return [patterns for patterns in found if patterns is not None]

    def has_rule_about(self, resource: Resource) -> bool:
        """Whether a rule of any principal matches the resource."""
        counts = self._counts.get(resource.type)
        return counts is not None and bool(counts.about(resource.name))

    def covering(self, binding: AclBinding, owners: Iterable[str]) -> Iterator[Rule]:
        """Rules of some principals whose patterns include all resources of this rule's pattern."""
        for patterns in self.patterns_of(binding.resource_type, owners):
            for group in _including(patterns, binding):
                yield from group

    def of_principal(self, resource_type: ResourceType, principal: str) -> Iterator[Rule]:
        """The rules that name this principal, about resources of one type."""
        patterns = self._of_principals.get((resource_type, principal))
        if patterns is not None:
            for group in patterns.values():
                yield from group


def _including(patterns: Patterns[V], binding: AclBinding) -> list[V]:
    """Of the patterns that include all resources of the rule's pattern."""
    name = binding.name
    if binding.pattern_type is PatternType.LITERAL and name != WILDCARD_RESOURCE:
        return patterns.about(name)
    every = patterns.get(PatternType.LITERAL, WILDCARD_RESOURCE)
    found = [] if every is None else [every]
    return found if binding.pattern_type is PatternType.LITERAL else patterns.prefixes(name) + found
