"""What the members of all modern groups have: consumer groups (KIP-848) and streams groups (KIP-1071). Pure.

Source: Kafka ModernGroupMember.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from enum import Enum

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2  # temporary leave of a static member, which keeps its assignment until it rejoins
NO_EPOCH = -1


class ModernMember(Protocol):
    """One member of a modern group."""

    @property
    def member_id(self) -> str:
        """Chosen by the client, or by the coordinator for clients of the first version."""

    @property
    def metadata(self) -> Any:
        """Its metadata record."""

    @property
    def instance_id(self) -> str | None:
        """group.instance.id; None: a dynamic member."""

    @property
    def epoch(self) -> int:
        """The group epoch of the target assignment that the member has or changes to."""

    @property
    def previous_epoch(self) -> int:
        """An epoch that the member may still use, since the response with the newer one can be lost."""

    @property
    def state(self) -> Enum:
        """Its reconciliation state."""
