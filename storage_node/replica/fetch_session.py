"""The leader's state of one follower's fetch session (KIP-227); see replica_fetch.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ...protocol.model import NO_OFFSET
from ...runtime.purgatory import Delayed

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ...protocol.messages.data import FetchPartition
    from .partition import PartitionKey


class ParkedFetch(Delayed, Protocol):
    """The fetch of a session that waits in purgatory."""

    def answer_now(self, now_ms: int) -> None:
        """Respond with what is readable."""


@dataclass(slots=True, eq=False)
class SessionEntry:
    """One partition of a session: `asked` is the follower's last fetch of it."""

    asked: FetchPartition
    sent_high_watermark: int = NO_OFFSET
    sent_log_start: int = NO_OFFSET
    awaits_follower: bool = False  # nothing more is sent until the follower fetches the partition again

    def is_sent(self, high_watermark: int, log_start_offset: int) -> bool:
        """Whether the follower knows this high watermark and log start."""
        return (self.sent_high_watermark, self.sent_log_start) == (high_watermark, log_start_offset)


@dataclass(slots=True, eq=False)
class FetchSession:
    """See the module's docstring."""

    session_id: int
    connection: int
    replica_id: int
    replica_epoch: int
    next_epoch: int = 1
    last_fetch_ms: int = 0
    entries: dict[PartitionKey, SessionEntry] = field(default_factory=dict)
    pending: dict[PartitionKey, None] = field(default_factory=dict)  # may have something to send; in turn
    parked: ParkedFetch | None = None

    @property
    def watch_key(self) -> Hashable:
        """The watch key of its parked fetch."""
        return ("replica fetch", self.session_id)
