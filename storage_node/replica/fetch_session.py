"""What a leader remembers of one follower between its fetches (KIP-227); see replica_fetch.py."""

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
        """Answer with what there is."""


@dataclass(slots=True, eq=False)
class SessionEntry:
    """One partition of a session, as the follower named it last."""

    asked: FetchPartition
    told_watermark: int = NO_OFFSET
    told_start: int = NO_OFFSET
    is_silent: bool = False  # the follower has yet to react to what it was told


@dataclass(slots=True, eq=False)
class FetchSession:
    """What a leader remembers of one follower between its fetches."""

    session_id: int
    connection: int
    replica_id: int
    replica_epoch: int
    next_epoch: int = 1
    last_fetch_ms: int = 0
    entries: dict[PartitionKey, SessionEntry] = field(default_factory=dict)
    news: dict[PartitionKey, None] = field(default_factory=dict)  # may have something to tell, in turn
    parked: ParkedFetch | None = None

    @property
    def watch_key(self) -> Hashable:
        """What its parked fetch watches."""
        return ("replica fetch", self.session_id)
