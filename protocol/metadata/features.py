"""Feature levels of a cluster, under Kafka's names. Pure.

A level is in the metadata log once an operator has changed it; until then the highest one applies. Features
that cannot be disabled have a single level. Source: Kafka Feature.java, MetadataVersion.java; KIP-584, 848,
853, 890, 966, 1071.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .image import MetadataImage

GROUP_VERSION, STREAMS_VERSION, TRANSACTION_VERSION = (
    "group.version",
    "streams.version",
    "transaction.version",
)
# Lowest and highest level. metadata.version is the version of Kafka's own metadata log; the number is that of
# Kafka 4.3, whose APIs are served.
SUPPORTED: dict[str, tuple[int, int]] = {
    "eligible.leader.replicas.version": (1, 1),
    GROUP_VERSION: (0, 1),
    "kraft.version": (1, 1),
    "metadata.version": (30, 30),
    STREAMS_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
}


def level_of(image: MetadataImage, feature: str) -> int:
    """The current level, 0 if disabled."""
    return image.features.get(feature, SUPPORTED.get(feature, (0, 0))[1])
