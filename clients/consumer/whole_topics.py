"""Reading all partitions of topics, later ones too, without a group. Pure."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...protocol.model import TopicPartition

if TYPE_CHECKING:
    from ..cluster.metadata import ClusterView

log = logging.getLogger("headrace.client.consumer")


class WholeTopics:
    """What is known of some topics."""

    def __init__(self, topics: tuple[str, ...]) -> None:
        self.topics = topics
        self._counts: dict[str, int] = {}  # partitions known of each
        self._warned: set[str] = set()

    @property
    def is_known(self) -> bool:
        """Whether the partitions of all topics are known."""
        return len(self._counts) == len(self.topics)

    def news(self, view: ClusterView) -> list[tuple[TopicPartition, bool]]:
        """Partitions that were not known before, and whether each came later than the topic: that is read
        from its start, for its first records came before we knew it."""
        found: list[tuple[TopicPartition, bool]] = []
        for name in self.topics:
            topic = view.topics.get(name)
            if topic is None:
                if name in view.missing and name not in self._warned:
                    self._warned.add(name)
                    log.warning("there is no topic %r; waiting for it", name)
                continue
            known = self._counts.get(name)
            for partition in range(known or 0, len(topic.partitions)):
                found.append((TopicPartition(name, partition), known is not None))
            self._counts[name] = max(len(topic.partitions), known or 0)
        return found
