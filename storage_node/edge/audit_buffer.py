"""Decisions of the authorizer, collected until they are written to the audit topic. Pure.

Equal decisions between two flushes are one event with a count, so that a client that retries a rejected
request in a loop causes one record per flush. The buffer is bounded: decisions that do not fit are counted,
and the next flush has their number. Recording never fails and never waits.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from ...protocol.security.acls import AclOperation, Resource
    from ...protocol.security.identity import Identity

# Bound: characters of a name that a client chose, in one event.
MAX_NAME = 512


class AuditEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of one record of the audit topic, as JSON.

    `time_ms`, `last_time_ms`: wall clock of the first and the last of `count` equal decisions. `rule`: the
    rule that decided, or the reason for a decision without a rule. `missing`: the number of earlier decisions
    that are in no event.
    """

    time_ms: int
    node_id: int
    principal: str
    host: str
    client_id: str
    mechanism: str
    api: str
    operation: str
    resource_type: str
    resource: str
    allowed: bool
    rule: str = ""
    count: int = 1
    last_time_ms: int | None = None
    missing: int = 0


class Decision(NamedTuple):
    """One decision about a request. Equal decisions are counted together."""

    identity: Identity
    client_id: str
    api: str
    operation: AclOperation
    resource: Resource
    allowed: bool
    rule: str = ""


class _Times:
    __slots__ = ("count", "first_ms", "last_ms")

    def __init__(self, wall_ms: int) -> None:
        self.first_ms = self.last_ms = wall_ms
        self.count = 1


class AuditBuffer:
    """The decisions of one node since the last flush, at most `limit` different ones."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._decisions: dict[Decision, _Times] = {}
        self._missing = 0
        self.missing_total = 0

    def __len__(self) -> int:
        return len(self._decisions)

    def record(self, decision: Decision, wall_ms: int) -> None:
        """Count the decision."""
        times = self._decisions.get(decision)
        if times is not None:
            times.count += 1
            times.last_ms = wall_ms
        elif len(self._decisions) < self._limit:
            self._decisions[decision] = _Times(wall_ms)
        else:
            self._missing += 1
            self.missing_total += 1

    def take(self, node_id: int, most: int) -> list[AuditEvent]:
        """The oldest events, at most `most`; the last one has the number of missing decisions."""
        taken = list(islice(self._decisions.items(), most))
        events = [_event(node_id, decision, times) for decision, times in taken]
        for decision, _ in taken:
            del self._decisions[decision]
        if events and self._missing:
            events[-1] = msgspec.structs.replace(events[-1], missing=self._missing)
            self._missing = 0
        return events

    def give_back(self, count: int) -> None:
        """Count `count` taken decisions that could not be written."""
        self._missing += count
        self.missing_total += count


def _event(node_id: int, decision: Decision, times: _Times) -> AuditEvent:
    identity = decision.identity
    return AuditEvent(
        times.first_ms,
        node_id,
        str(identity.principal)[:MAX_NAME],
        identity.host,
        decision.client_id[:MAX_NAME],
        identity.mechanism,
        decision.api,
        decision.operation.name,
        decision.resource.type.name,
        decision.resource.name[:MAX_NAME],
        decision.allowed,
        decision.rule,
        times.count,
        times.last_ms if times.count > 1 else None,
    )
