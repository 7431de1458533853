"""Converts decisions about requests to events of the audit topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.clock_io import wall_ms
from .audit_buffer import Decision

if TYPE_CHECKING:
    from ...protocol.security.acls import AclBinding, AclOperation, Resource
    from ...protocol.transport.replies import Incoming
    from ..node import StorageNode


class AuditNotes:
    """Implements Audit of the node's gate."""

    def __init__(self, core: StorageNode) -> None:
        self._core = core

    @property
    def wants_allowed(self) -> bool:
        """Part of Audit."""
        config = self._core.config.now
        return config.audit_enable and bool(config.audit_allowed_operations)

    def note(self, request: Incoming, operation: AclOperation, resource: Resource, is_allowed: bool) -> None:
        """Part of Audit."""
        peer, authorizer = request.peer, self._core.authorization.authorizer
        if is_allowed and not self.wants_allowed:
            return
        rule = ""
        if authorizer is not None:
            verdict = authorizer.explain(peer.identity, operation, resource)
            rule = verdict.reason.value if verdict.rule is None else rule_text(verdict.rule)
        decision = Decision(
            peer.identity, peer.client_id, request.api.name, operation, resource, is_allowed, rule
        )
        self._core.audit.record(decision, wall_ms())


def rule_text(rule: AclBinding) -> str:
    """A rule as one line."""
    kind, name = rule.resource_type.name, rule.name
    pattern = rule.pattern_type.name.lower()
    return (
        f"{rule.permission.name} {rule.principal} from {rule.host}: {rule.operation.name} on"
        f" {pattern} {kind} {name}"
    )
