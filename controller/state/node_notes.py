"""What happens to storage nodes, in words for the controller's log. Pure: the shell writes the lines.

Each note names the node, its broker epoch, the reason, and how many leaderships move and where.
Bound: notes that the shell has not taken; a simulation never takes them.
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
    from .sessions import Silence

MAX_NOTES = 1_000


class Note(NamedTuple):
    """A line of the log; `is_warning` if an operator should see it without looking for it."""

    text: str
    is_warning: bool = False


class NodeNotes:
    """The notes since the shell last took them, in order."""

    def __init__(self) -> None:
        self._notes: deque[Note] = deque(maxlen=MAX_NOTES)

    def take(self) -> tuple[Note, ...]:
        """All of them; they are not given again."""
        notes = tuple(self._notes)
        self._notes.clear()
        return notes

    def say(self, text: str, *, is_warning: bool = False) -> None:
        """Note something that moves no leadership."""
        self._notes.append(Note(text, is_warning))

    def moved(
        self,
        image: MetadataImage,
        what: str,
        records: Sequence[MetadataRecord],
        *,
        is_warning: bool = False,
    ) -> None:
        """Note what happens to a node, and what `records`, which follow `image`, move because of it."""
        self._notes.append(Note(f"{what}; {leader_moves(image, records)}", is_warning))


def named(broker: BrokerRegistration) -> str:
    """The node as every note names it."""
    return f"node {broker.node_id} (broker epoch {broker.broker_epoch})"


def leader_moves(image: MetadataImage, records: Sequence[MetadataRecord]) -> str:
    """How many partitions get another leader by `records`, by the new leader."""
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


def why_silent(silence: Silence) -> str:
    """Why a session has run out."""
    heard = f"last heartbeat {silence.silent_ms} ms ago"
    if silence.is_reported_dead:
        return f"its process has ended, as Ray reports; {heard}"
    if silence.silent_ms < silence.timeout_ms:
        return f"its connection ended {silence.gone_ms} ms ago and no heartbeat came since; {heard}"
    late = f"its heartbeats of the last minute were up to {silence.longest_late_ms} ms late"
    return f"session timeout: {heard}, expected within {silence.timeout_ms} ms ({late})"
