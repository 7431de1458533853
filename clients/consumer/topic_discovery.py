"""The partitions of a consumer's topics, without a group; also those that are added later. Pure."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...protocol.model import TopicPartition

if TYPE_CHECKING:
    from ..cluster.metadata import ClusterView

log = logging.getLogger("headrace.client.consumer")


class TopicDiscovery:
    """The topics of one consumer and how many partitions of each are known."""

    def __init__(self, topics: tuple[str, ...]) -> None:
        self.topics = topics
        self._counts: dict[str, int] = {}
        self._warned: set[str] = set()

    @property
    def is_complete(self) -> bool:
        """Whether the partitions of all topics are known."""
        return len(self._counts) == len(self.topics)

    def new_partitions(self, view: ClusterView) -> list[tuple[TopicPartition, bool]]:
        """New partitions, and whether each was added to a known topic: such a partition is read from its
        start, because it may have got records before the metadata showed it."""
        added: list[tuple[TopicPartition, bool]] = []
        for name in self.topics:
            topic = view.topics.get(name)
            if topic is None:
                if name in view.missing and name not in self._warned:
                    self._warned.add(name)
                    log.warning("there is no topic %r; waiting for it", name)
                continue
            known = self._counts.get(name)
            for partition in range(known or 0, len(topic.partitions)):
                added.append((TopicPartition(name, partition), known is not None))
            self._counts[name] = max(len(topic.partitions), known or 0)
        return added
