"""Partitions in a metadata image, by topic id."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.metadata.image import MetadataImage, PartitionRegistration
    from .partition import PartitionKey


def registration_of(image: MetadataImage, topic_id: bytes, index: int) -> PartitionRegistration | None:
    """The partition's registration, None if there is no such partition."""
    name = image.topic_names.get(topic_id)
    if name is None or not 0 <= index < len(image.topics[name].partitions):
        return None
    return image.topics[name].partitions[index]


def all_partitions(image: MetadataImage) -> Iterator[PartitionKey]:
    """The keys of all partitions of all topics."""
    for topic in image.topics.values():
        for index in range(len(topic.partitions)):
            yield topic.topic_id, index


def has_partition(image: MetadataImage, topic_id: bytes, index: int) -> bool:
    """Whether the image has the partition."""
    return registration_of(image, topic_id, index) is not None
