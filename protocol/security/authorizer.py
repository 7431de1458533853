"""Authorizes operations of connections by rules, exactly as Kafka's StandardAuthorizer. Pure.

The rules of a user are its own, those of all users, and those of its roles; deny rules take precedence.
Decisions are cached until the rules change. The first decision about a resource decides all operations, so
that further ones cost one look-up. Source: Kafka StandardAuthorizerData.java, Authorizer.java
(authorizeByResourceType).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ..errors import LeaderNotAvailableError
from .acls import WILDCARD_RESOURCE, AclOperation, PatternType, Resource
from .principals import parse_principal
from .role_index import RoleIndex
from .roles import role_of
from .rule_index import EVERY_OPERATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .acls import AclBinding, ResourceType
    from .identity import Identity
    from .principals import Principal
    from .role_index import Membership
    from .rule_index import Patterns, Rule, RuleGroup, RuleIndex

# Bound: principals and decisions in memory; 100,000 take 16 to 56 MB. A full cache is cleared.
MAX_DECISIONS = 100_000
_SOME_NAME = "hardcode"  # a resource name that no rule has, as in Kafka


class Reason(Enum):
    """Why a connection may do something, or may not."""

    RULE = "by a rule"
    SUPER_USER = "a super user may do everything"
    SERVER = "another server of this cluster may do everything"
    NO_RULES = "there are no rules about the resource, and allow.everyone.if.no.acl.found is true"
    DEFAULT = "no rule allows it"


class Verdict(NamedTuple):
    """A decision, with the rule that made it if there is one."""

    is_allowed: bool
    reason: Reason
    rule: AclBinding | None = None


class _Asker:
    """A principal at a host, with its cached decisions."""

    __slots__ = ("is_super_user", "kinds", "operations", "patterns", "principal")

    def __init__(self, principal: str, is_super_user: bool) -> None:
        self.principal, self.is_super_user = principal, is_super_user
        # Of the rules of the principal, of all users and of its roles.
        self.patterns: dict[ResourceType, Sequence[Patterns[RuleGroup]]] = {}
        self.operations: dict[Resource, int] = {}  # bit sets of the allowed operations
        self.kinds: dict[tuple[AclOperation, ResourceType], bool] = {}  # whether allowed on some resource


class RuleAuthorizer:
    """Implements Authorizer. `change` adds and removes rules, `change_members` members of roles.

    Invariant: `_askers` cache decisions by the current rules; `_kept` is the number of both.
    """

    def __init__(
        self,
        rules: RuleIndex,
        super_users: Iterable[str] = (),
        *,
        allow_if_no_rules: bool = False,
        is_ready: bool = True,
        memberships: Iterable[Membership] = (),
    ) -> None:
        """Until `is_ready`, only super users and servers are allowed operations; other clients retry."""
        self.rules = rules
        self.roles = RoleIndex(memberships)
        self.super_users = frozenset(super_users)
        self.allow_if_no_rules = allow_if_no_rules
        self.is_ready = is_ready
        self._askers: dict[tuple[Principal, str], _Asker] = {}
        self._kept = 0

    def change(self, added: Iterable[AclBinding], removed: Iterable[AclBinding]) -> None:
        """Remove rules and add rules."""
        for binding in removed:
            self.rules.remove(binding)
        for binding in added:
            self.rules.add(binding)
        self._forget()

    def change_members(self, added: Iterable[Membership], removed: Iterable[Membership]) -> None:
        """Remove members of roles and add members."""
        self.roles.change(added, removed)
        self._forget()

    def allows(self, identity: Identity, operation: AclOperation, resource: Resource) -> bool:
        """Whether the connection is allowed the operation on the resource.

        Errors: LeaderNotAvailableError while the rules are not known.
        """
        if identity.is_server:
            return True
        asker = self._askers.get((identity.principal, identity.host)) or self._new_asker(identity)
        if asker.is_super_user:
            return True
        operations = asker.operations.get(resource) if self.is_ready else None
        if operations is None:
            operations = asker.operations[resource] = self._decide(asker, identity.host, resource)
            self._count_kept()
        return operations & (1 << operation) != 0

    def allows_some(self, identity: Identity, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the connection is allowed the operation on at least one resource of this type.

        As in Kafka, implied operations do not count here, and neither do rules that a prefixed or literal
        rule for the same resources denies. Errors: LeaderNotAvailableError while the rules are not known.
        """
        if self.allows(identity, operation, Resource(resource_type, _SOME_NAME)):
            return True
        asker = self._askers.get((identity.principal, identity.host)) or self._new_asker(identity)
        decided = asker.kinds.get((operation, resource_type))
        if decided is None:
            decided = self._allows_some_rule(identity, operation, resource_type)
            asker.kinds[operation, resource_type] = decided
            self._count_kept()
        return decided

    def explain(self, identity: Identity, operation: AclOperation, resource: Resource) -> Verdict:
        """The decision and its reason. Of several rules the one about the most specific pattern is named.

        Errors: LeaderNotAvailableError while the rules are not known.
        """
        if identity.is_server:
            return Verdict(True, Reason.SERVER)
        principal = str(identity.principal)
        if principal in self.super_users:
            return Verdict(True, Reason.SUPER_USER)
        self._check_ready()
        deciding = [
            rule
            for patterns in self.rules.patterns_of(resource.type, self.roles.owners_of(principal))
            for group in patterns.about(resource.name)
            for rule in group
            if rule.decides(identity.host, 1 << operation)
        ]
        if deciding:
            denying = [rule for rule in deciding if not rule.is_allowing]
            rule = max(denying or deciding, key=_specificity)
            return Verdict(rule.is_allowing, Reason.RULE, rule.binding)
        if self.allow_if_no_rules and not self.rules.has_rule_about(resource):
            return Verdict(True, Reason.NO_RULES)
        return Verdict(False, Reason.DEFAULT)

    def _decide(self, asker: _Asker, host: str, resource: Resource) -> int:
        """The operations that `explain` allows, as a bit set."""
        self._check_ready()
        kind, name = resource
        owned = asker.patterns.get(kind)
        if owned is None:
            owners = self.roles.owners_of(asker.principal)
            owned = asker.patterns[kind] = self.rules.patterns_of(kind, owners)
        allowed = denied = 0
        for patterns in owned:
            for group in patterns.about(name):
                allowed |= group.allowed
                denied |= group.denied
                for rule in group.of_hosts.values() if group.of_hosts else ():
                    if not rule.is_from(host):
                        continue
                    if rule.is_allowing:
                        allowed |= rule.operations
                    else:
                        denied |= rule.operations
        if self.allow_if_no_rules and not (allowed or denied or self.rules.has_rule_about(resource)):
            return EVERY_OPERATION
        return allowed & ~denied

    def _allows_some_rule(
        self, identity: Identity, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether a rule allows the operation on resources that no rule denies entirely."""
        allowed: list[AclBinding] = []
        denied: set[tuple[PatternType, str]] = set()
        for owner in self.roles.owners_of(str(identity.principal)):
            for rule in self.rules.of_principal(resource_type, owner):
                binding = rule.binding
                if binding.operation not in (operation, AclOperation.ALL):
                    continue
                if not rule.decides(identity.host, 1 << operation):
                    continue
                if rule.is_allowing:
                    allowed.append(binding)
                else:
                    denied.add((binding.pattern_type, binding.name))
        if (PatternType.LITERAL, WILDCARD_RESOURCE) in denied:
            return False
        return any(_is_left(binding, denied) for binding in allowed)

    def _check_ready(self) -> None:
        if not self.is_ready:
            raise LeaderNotAvailableError(
                "this node does not have the present rules: it is starting, or no controller has answered its"
                " heartbeats for authorizer.metadata.max.age.ms"
            )

    def _new_asker(self, identity: Identity) -> _Asker:
        principal = str(identity.principal)
        asker = _Asker(principal, principal in self.super_users)
        self._askers[identity.principal, identity.host] = asker
        self._count_kept()
        return asker

    def _count_kept(self) -> None:
        self._kept += 1
        if self._kept >= MAX_DECISIONS:
            self._forget()

    def _forget(self) -> None:
        self._askers.clear()
        self._kept = 0


def _specificity(rule: Rule) -> tuple[bool, int]:
    """Orders patterns that concern the same resource: `*`, prefixes, its name."""
    binding = rule.binding
    if binding.pattern_type is PatternType.PREFIXED:
        return False, len(binding.name)
    return (False, 0) if binding.name == WILDCARD_RESOURCE else (True, 0)


def _is_left(binding: AclBinding, denied: set[tuple[PatternType, str]]) -> bool:
    """Whether some resource of an allowing rule may be left by the denied patterns."""
    name = binding.name
    if binding.pattern_type is PatternType.LITERAL:
        if name == WILDCARD_RESOURCE:
            return True
        if (PatternType.LITERAL, name) in denied:
            return False
    return not any((PatternType.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))


def parse_super_users(text: str) -> tuple[str, ...]:
    """The principals of a value of `super.users`, `User:alice;User:bob`. Errors: ValueError."""
    parts = [part.strip() for part in text.split(";")]
    if any(role_of(part) is not None for part in parts):
        raise ValueError(f"super users are users, not roles: {text!r}")
    return tuple(str(parse_principal(part)) for part in parts if part)
