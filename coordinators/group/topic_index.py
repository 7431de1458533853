"""Topic ids, names, partition counts and hashes for groups, derived once per metadata image.

The hash of a topic covers its id, name, partition count and the racks of each partition's replicas; the
metadata hash of a group covers all subscribed topics. It is in the log, so every process must compute the
same value. Source: Kafka coordinator/group/Utils.java computeTopicHash, computeGroupHash (with another hash
function).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.metadata.image import MetadataImage, TopicImage

NO_TOPICS_HASH = 0


class TopicIndex:
    """Lookups over the topics of one image at a time."""

    def __init__(self) -> None:
        self._image: MetadataImage | None = None
        self._racks: dict[int, str] = {}
        self._hashes: dict[str, tuple[TopicImage, bytes]] = {}

    def look_at(self, image: MetadataImage) -> None:
        """Switch to another image."""
        if image is self._image:
            return
        self._image = image
        racks = {node: broker.rack for node, broker in image.brokers.items() if broker.rack is not None}
        if racks != self._racks:
            self._racks = racks
            self._hashes = {}
        else:
            self._hashes = {
                name: kept for name, kept in self._hashes.items() if image.topics.get(name) is kept[0]
            }

    def ids_of(self, names: Iterable[str]) -> frozenset[bytes]:
        """The ids of those topics that exist."""
        topics = self._topics
        return frozenset(topics[name].topic_id for name in names if name in topics)

    def id_of(self, name: str) -> bytes | None:
        """None: the topic does not exist."""
        topic = self._topics.get(name)
        return None if topic is None else topic.topic_id

    def partition_counts(self, ids: Iterable[bytes]) -> dict[bytes, int]:
        """Partition counts of existing topics."""
        image = self._image
        assert image is not None
        return {each: len(image.topics[image.topic_names[each]].partitions) for each in ids}

    def name_of(self, topic_id: bytes) -> str | None:
        """None: the topic does not exist any more."""
        image = self._image
        assert image is not None
        return image.topic_names.get(topic_id)

    @property
    def names(self) -> Iterable[str]:
        return self._topics.keys()

    def hash_of(self, names: Iterable[str]) -> int:
        """Signed 64 bits; NO_TOPICS_HASH if none of the topics exists."""
        topics = self._topics
        parts = [self._topic_hash(topics[name]) for name in sorted(names) if name in topics]
        if not parts:
            return NO_TOPICS_HASH
        return int.from_bytes(blake2b(b"".join(parts), digest_size=8).digest(), "big", signed=True)

    def _topic_hash(self, topic: TopicImage) -> bytes:
        kept = self._hashes.get(topic.name)
        if kept is not None:
            return kept[1]
        racks = self._racks
        places = [
            sorted({racks[node] for node in partition.replicas if node in racks})
            for partition in topic.partitions
        ]
        facts = msgspec.msgpack.encode((topic.topic_id, topic.name, places))
        found = blake2b(facts, digest_size=16).digest()
        self._hashes[topic.name] = (topic, found)
        return found

    @property
    def _topics(self) -> Mapping[str, TopicImage]:
        assert self._image is not None
        return self._image.topics
