"""The delta between two metadata images, for a reader whose image is replaced by a snapshot. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from .image import MetadataDelta, MetadataImage, TopicImage

if TYPE_CHECKING:
    from collections.abc import Mapping

K = TypeVar("K")
V = TypeVar("V")


def difference(old: MetadataImage, new: MetadataImage) -> MetadataDelta:
    """The changes between two images, as when a snapshot replaces the old one.

    Order: created topics are sorted by name. Topics are compared by id, so a topic that was deleted and
    created again is both removed and created.
    """
    removed = tuple(t for t in _by_name(old.topics) if t.topic_id not in new.topic_names)
    created = tuple(t.topic_id for t in _by_name(new.topics) if t.topic_id not in old.topic_names)
    partitions = tuple(
        (topic.topic_id, number)
        for topic in _by_name(new.topics)
        for number in _changed_partitions(old, topic)
    )
    return MetadataDelta(
        brokers=frozenset(_changed_keys(old.brokers, new.brokers)),
        topics_created=created,
        topics_removed=removed,
        partitions=partitions,
        configs=tuple(sorted(_changed_keys(old.configs, new.configs))),
        acls=tuple(sorted(old.acls.keys() ^ new.acls.keys())),
        role_members=tuple(sorted(old.role_members.keys() ^ new.role_members.keys())),
    )


def _by_name(topics: Mapping[str, TopicImage]) -> list[TopicImage]:
    return [topics[name] for name in sorted(topics)]


def _changed_keys(old: Mapping[K, V], new: Mapping[K, V]) -> set[K]:
    gone = {key for key in old if key not in new}
    return gone | {key for key, value in new.items() if old.get(key) != value}


def _changed_partitions(old: MetadataImage, topic: TopicImage) -> list[int]:
    name = old.topic_names.get(topic.topic_id)
    before = old.topics[name].partitions if name is not None else ()
    return [
        number
        for number, partition in enumerate(topic.partitions)
        if number >= len(before) or before[number] != partition
    ]
