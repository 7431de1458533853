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
    """One member, with the requests of it that wait.

    Invariant: it waits for a join only while the group prepares a rebalance, for a sync only while the group
    completes one.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]  # the assignors it can use, the best first
    assignment: bytes = b""
    joining: Token | None = None  # its JoinGroup that waits
    syncing: Token | None = None  # its SyncGroup that waits
    is_new: bool = False  # it has never had an answer to a JoinGroup, so it does not heartbeat

    @property
    def waiting(self) -> list[Token]:
        """Its requests that are not answered."""
        return [token for token in (self.joining, self.syncing) if token is not None]

    @property
    def waits(self) -> bool:
        """It is not expected to heartbeat. One that is new is given up some time, even while it waits: it may
        have joined again under another id."""
        return not self.is_new and bool(self.waiting)

    def metadata(self, protocol: str | None) -> bytes:
        """What it says for this assignor; nothing if it does not have it."""
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """The best of its assignors among these, which all members have."""
        return next(each.name for each in self.protocols if each.name in candidates)

    def as_record(self, protocol: str | None, assignment: bytes) -> GroupMember:
        """As the log remembers it."""
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
