"""Feature levels of a cluster: Kafka's, and `security.version` of headrace. Pure.

A level is in the metadata log once an operator has changed it; until then the highest one applies. Features
that cannot be disabled have a single level. The level of `security.version` is in the log of a new cluster
from the start: a log without it is of a version that did not know the feature.

Nodes report the levels that they support when they register. A level applies only while all registered nodes
support it, so that no node gets records that it does not know. Source: Kafka Feature.java,
MetadataVersion.java, FeatureControlManager.java; KIP-584, 848, 853, 890, 966, 1071.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model import FeatureRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .image import MetadataImage

GROUP_VERSION, SECURITY_VERSION, STREAMS_VERSION, TRANSACTION_VERSION = (
    "group.version",
    "security.version",
    "streams.version",
    "transaction.version",
)
# Levels of security.version: records of rules, SCRAM credentials and delegation tokens; and those of roles,
# memberships and namespaces.
RULES_LEVEL, ROLES_LEVEL = 1, 2
# Lowest and highest level. metadata.version is the version of Kafka's own metadata log; the number is that of
# Kafka 4.3, whose APIs are served.
SUPPORTED: dict[str, tuple[int, int]] = {
    "eligible.leader.replicas.version": (1, 1),
    GROUP_VERSION: (0, 1),
    "kraft.version": (1, 1),
    "metadata.version": (30, 30),
    SECURITY_VERSION: (0, ROLES_LEVEL),
    STREAMS_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
}
# The highest level of versions that did not write the feature's level, and did not report it.
_BEFORE = {SECURITY_VERSION: RULES_LEVEL}


# What a node of this version reports.
OWN_RANGES: tuple[FeatureRange, ...] = tuple(FeatureRange(name, *SUPPORTED[name]) for name in SUPPORTED)


def level_of(image: MetadataImage, feature: str) -> int:
    """The current level, 0 if disabled."""
    level = image.features.get(feature)
    return highest_unreported(feature) if level is None else level


def highest_unreported(feature: str) -> int:
    """The highest level of a node that reports none, and of a log that has none."""
    return _BEFORE.get(feature, SUPPORTED.get(feature, (0, 0))[1])


def range_of(ranges: Iterable[FeatureRange], feature: str) -> tuple[int, int]:
    """The lowest and highest level that a node supports, by its report."""
    for each in ranges:
        if each.name == feature:
            return each.min_level, each.max_level
    return SUPPORTED.get(feature, (0, 0))[0], highest_unreported(feature)
