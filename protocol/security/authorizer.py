"""Authorizes operations of connections by rules, exactly as Kafka's StandardAuthorizer. Pure.

The rules of a user are its own, those of all users, and those of its roles; deny rules take precedence.
Decisions are cached until the rules change, so that a repeated decision costs one look-up. Source: Kafka
StandardAuthorizerData.java, Authorizer.java (authorizeByResourceType).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ..errors import LeaderNotAvailableError
from .acls import WILDCARD_RESOURCE, AclOperation, PatternType, Resource
from .principals import parse_principal
from .role_index import RoleIndex
from .roles import role_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .acls import AclBinding, ResourceType
    from .identity import Identity
    from .role_index import Membership
    from .rule_index import Rule, RuleIndex

# Bound: decisions in memory; 100,000 take about 40 MB. A full cache is dropped.
MAX_DECISIONS = 100_000
_SOME_NAME = "hardcode"  # a resource name that no rule has, as in Kafka


class Reason(Enum):
    """Why an operation is allowed or denied."""

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


class RuleAuthorizer:
    """Implements Authorizer. `change` adds and removes rules, `change_members` members of roles."""

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
        self._decisions: dict[tuple[object, ...], bool] = {}

    def change(self, added: Iterable[AclBinding], removed: Iterable[AclBinding]) -> None:
        """Remove rules and add rules."""
        for binding in removed:
            self.rules.remove(binding)
        for binding in added:
            self.rules.add(binding)
        self._decisions.clear()

    def change_members(self, added: Iterable[Membership], removed: Iterable[Membership]) -> None:
        """Remove members of roles and add members."""
        self.roles.change(added, removed)
        self._decisions.clear()

    def allows(self, identity: Identity, operation: AclOperation, resource: Resource) -> bool:
        """Whether the connection is allowed the operation on the resource."""
        key = (identity.principal, identity.host, operation, resource, identity.is_server)
        decided = self._decisions.get(key) if self.is_ready else None
        if decided is None:
            decided = self._keep(key, self.explain(identity, operation, resource).is_allowed)
        return decided

    def allows_some(self, identity: Identity, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the connection is allowed the operation on at least one resource of this type.

        As in Kafka, implied operations do not count here, and neither do rules that a prefixed or literal
        rule for the same resources denies.
        """
        key = (identity.principal, identity.host, operation, resource_type, identity.is_server)
        decided = self._decisions.get(key) if self.is_ready else None
        if decided is None:
            some = Resource(resource_type, _SOME_NAME)
            is_allowed = self.allows(identity, operation, some) or self._allows_some_rule(
                identity, operation, resource_type
            )
            decided = self._keep(key, is_allowed)
        return decided

    def explain(self, identity: Identity, operation: AclOperation, resource: Resource) -> Verdict:
        """The decision and its reason. Of several rules it has the one with the most specific pattern.

        Errors: LeaderNotAvailableError while the rules are not loaded.
        """
        if identity.is_server:
            return Verdict(True, Reason.SERVER)
        principal = str(identity.principal)
        if principal in self.super_users:
            return Verdict(True, Reason.SUPER_USER)
        if not self.is_ready:
            raise LeaderNotAvailableError(
                "this node does not have the present rules: it is starting, or no controller has answered its"
                " heartbeats for authorizer.metadata.max.age.ms"
            )
        patterns = self.rules.patterns_of(resource)
        if not patterns and self.allow_if_no_rules:
            return Verdict(True, Reason.NO_RULES)
        owners, bit = self.roles.owners_of(principal), 1 << operation
        allowing: Rule | None = None
        for principals in patterns:
            for owner in owners:
                for rule in principals.get(owner, {}).values():
                    if rule.is_allowing and allowing is not None:
                        continue
                    if not rule.decides(identity.host, bit):
                        continue
                    if not rule.is_allowing:
                        return Verdict(False, Reason.RULE, rule.binding)
                    allowing = rule
        if allowing is not None:
            return Verdict(True, Reason.RULE, allowing.binding)
        return Verdict(False, Reason.DEFAULT)

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

    def _keep(self, key: tuple[object, ...], is_allowed: bool) -> bool:
        if len(self._decisions) >= MAX_DECISIONS:
            self._decisions.clear()
        self._decisions[key] = is_allowed
        return is_allowed


def _is_left(binding: AclBinding, denied: set[tuple[PatternType, str]]) -> bool:
    """Whether the denied patterns leave some resource of an allow rule."""
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
