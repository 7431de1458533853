"""A member of a classic group. Pure. Source: Kafka ClassicGroupMember.java."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol.records.group_records import GroupMember

if TYPE_CHECKING:
    from ...protocol.messages.groups import GroupProtocol
    from ..runtime.ports import Token


@dataclass(slots=True)
class ClassicMember:
    """One member and its waiting requests.

    Invariant: a JoinGroup waits only in PreparingRebalance, a SyncGroup only in CompletingRebalance.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]  # the assignors that it supports, in order of preference
    assignment: bytes = b""
    joining: Token | None = None  # its waiting JoinGroup
    syncing: Token | None = None  # its waiting SyncGroup
    is_new: bool = False  # it has had no JoinGroup response yet, so it cannot heartbeat

    @property
    def waiting(self) -> list[Token]:
        """Its waiting JoinGroup and SyncGroup."""
        return [token for token in (self.joining, self.syncing) if token is not None]

    @property
    def waits(self) -> bool:
        """Whether a waiting request replaces its heartbeats. Not for new members: the client may have
        rejoined under another member id, so their session still expires."""
        return not self.is_new and bool(self.waiting)

    def metadata(self, protocol: str | None) -> bytes:
        """The member's subscription for this assignor; empty if it does not support it."""
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """The most preferred of its assignors among `candidates`."""
        return next(each.name for each in self.protocols if each.name in candidates)

    def as_record(self, protocol: str | None, assignment: bytes) -> GroupMember:
        return GroupMember(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )
