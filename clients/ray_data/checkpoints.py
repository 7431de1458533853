"""Where a stream goes on: what its group has committed, and which topics that was said of. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..group.group_metadata import OffsetAndMetadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.model import TopicPartition
    from ..pipeline.offsets import Offsets

_NOTE = "topic id "


class Checkpoint(NamedTuple):
    """The next offsets, and the ids of their topics as far as they are known: another id, another topic."""

    offsets: Offsets
    topic_ids: dict[str, str]

    @classmethod
    def of(cls, committed: Mapping[TopicPartition, OffsetAndMetadata | None]) -> Checkpoint:
        """Out of what a group has committed."""
        found = cls({}, {})
        for tp, at in committed.items():
            if at is not None:
                found.offsets[tp] = at.offset
                if at.metadata.startswith(_NOTE):
                    found.topic_ids[tp.topic] = at.metadata.removeprefix(_NOTE)
        return found

    def beginning(self, initial: Mapping[TopicPartition, int]) -> Offsets:
        """Where to go on. Topics of which nothing is committed begin at `initial`; partitions that came
        later to the others have no place here, and begin at their first record."""
        known = {tp.topic for tp in self.offsets}
        new = {tp: offset for tp, offset in initial.items() if tp.topic not in known}
        return new | {tp: offset for tp, offset in self.offsets.items() if tp in initial}

    def renewed(self, topic_ids: Mapping[str, str]) -> list[str]:
        """Topics that were created again since."""
        return [name for name, known in self.topic_ids.items() if topic_ids.get(name, known) != known]

    def without(self, topics: list[str]) -> Checkpoint:
        """Nothing is known of those: they begin at their first records."""
        return Checkpoint(
            {tp: offset for tp, offset in self.offsets.items() if tp.topic not in topics},
            {name: known for name, known in self.topic_ids.items() if name not in topics},
        )

    def notes(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """As a group commits them."""
        return {
            tp: OffsetAndMetadata(
                offset, _NOTE + self.topic_ids[tp.topic] if tp.topic in self.topic_ids else ""
            )
            for tp, offset in self.offsets.items()
        }


def clipped(ends: Mapping[TopicPartition, int], target: Mapping[TopicPartition, int] | None) -> Offsets:
    """Ends that do not lie behind a target; without one as they are."""
    if target is None:
        return dict(ends)
    return {tp: min(end, target[tp]) for tp, end in ends.items() if tp in target}
