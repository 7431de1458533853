"""Log lines of the controller about storage nodes. Pure: the shell writes them.

Each names the node, its broker epoch, the reason, and how many leaderships move to which nodes.
Bound: the newest MAX_NOTES lines are kept until the shell takes them; a simulation never does.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.metadata.records import PartitionChangeRecord
from ...protocol.model import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.metadata.image import BrokerRegistration, MetadataImage
    from ...protocol.metadata.records import MetadataRecord
    from .sessions import SessionExpiry

MAX_NOTES = 1_000


class Note(NamedTuple):
    """One line, at level WARNING or INFO."""

    text: str
    is_warning: bool = False


class NodeNotes:
    """The lines that the shell has not written yet, in order."""

    def __init__(self) -> None:
        self._notes: deque[Note] = deque(maxlen=MAX_NOTES)

    def take(self) -> tuple[Note, ...]:
        """Remove and return all lines."""
        notes = tuple(self._notes)
        self._notes.clear()
        return notes

    def add(self, text: str, *, is_warning: bool = False) -> None:
        """Add a line as it is."""
        self._notes.append(Note(text, is_warning))

    def moved(
        self,
        image: MetadataImage,
        event: str,
        records: Sequence[MetadataRecord],
        *,
        is_warning: bool = False,
    ) -> None:
        """Add a line about `event` and the leaderships that `records`, decided on `image`, move."""
        self._notes.append(Note(f"{event}; {leader_moves(image, records)}", is_warning))


def named(broker: BrokerRegistration) -> str:
    """The node's id and broker epoch, for a line."""
    return f"node {broker.node_id} (broker epoch {broker.broker_epoch})"


def leader_moves(image: MetadataImage, records: Sequence[MetadataRecord]) -> str:
    """The numbers of partitions that `records` give another leader, by the new leader."""
    moves: Counter[int] = Counter()
    for record in records:
        if isinstance(record, PartitionChangeRecord) and record.leader is not None:
            topic = image.topics[image.topic_names[record.topic_id]]
            if topic.partitions[record.partition].leader != record.leader:
                moves[record.leader] += 1
    leaderless = moves.pop(NO_NODE, 0)
    parts = [f"{count} to node {node_id}" for node_id, count in sorted(moves.items())]
    text = f"{sum(moves.values())} leaderships move"
    text += f": {', '.join(parts)}" if parts else ""
    return text + (f"; {leaderless} partitions are left without a leader" if leaderless else "")


def why_expired(expiry: SessionExpiry) -> str:
    """The reason of an expired session, for a line."""
    last = f"last heartbeat {expiry.silent_ms} ms ago"
    if expiry.is_reported_dead:
        return f"Ray reported the end of its process; {last}"
    if expiry.silent_ms < expiry.timeout_ms:
        return f"its connection closed {expiry.disconnected_ms} ms ago, no heartbeat since; {last}"
    late = f"its heartbeats of the last minute were up to {expiry.max_lateness_ms} ms late"
    return f"session timeout of {expiry.timeout_ms} ms: {last} ({late})"
