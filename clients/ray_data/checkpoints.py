"""The position of a stream: the committed offsets of its group, with topic ids in their metadata. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..group.group_metadata import OffsetAndMetadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.model import TopicPartition
    from ..pipeline.offsets import Offsets

_NOTE = "topic id "


class Checkpoint(NamedTuple):
    """The next offsets, and known topic ids: another id means another topic."""

    offsets: Offsets
    topic_ids: dict[str, str]

    @classmethod
    def of(cls, committed: Mapping[TopicPartition, OffsetAndMetadata | None]) -> Checkpoint:
        """From the committed offsets of a group."""
        found = cls({}, {})
        for tp, at in committed.items():
            if at is not None:
                found.offsets[tp] = at.offset
                if at.metadata.startswith(_NOTE):
                    found.topic_ids[tp.topic] = at.metadata.removeprefix(_NOTE)
        return found

    def beginning(self, initial: Mapping[TopicPartition, int]) -> Offsets:
        """The offsets to continue from. Topics without committed offsets start at `initial`; partitions that
        were added to the others have no offset here, and start at their first record."""
        known = {tp.topic for tp in self.offsets}
        new = {tp: offset for tp, offset in initial.items() if tp.topic not in known}
        return new | {tp: offset for tp, offset in self.offsets.items() if tp in initial}

    def renewed(self, topic_ids: Mapping[str, str]) -> list[str]:
        """Topics that were created again since."""
        return [name for name, known in self.topic_ids.items() if topic_ids.get(name, known) != known]

    def without(self, topics: list[str]) -> Checkpoint:
        """A copy without these topics: they start at their first records."""
        return Checkpoint(
            {tp: offset for tp, offset in self.offsets.items() if tp.topic not in topics},
            {name: known for name, known in self.topic_ids.items() if name not in topics},
        )

    def notes(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets with topic ids as metadata."""
        return {
            tp: OffsetAndMetadata(
                offset, _NOTE + self.topic_ids[tp.topic] if tp.topic in self.topic_ids else ""
            )
            for tp, offset in self.offsets.items()
        }


def clipped(ends: Mapping[TopicPartition, int], target: Mapping[TopicPartition, int] | None) -> Offsets:
    """Ends limited to a target; without one unchanged."""
    if target is None:
        return dict(ends)
    return {tp: min(end, target[tp]) for tp, end in ends.items() if tp in target}
