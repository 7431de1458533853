"""The topics of an application in the cluster: which exist, and the creation of internal ones."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...clients.admin.admin_types import NewTopic
from ...protocol.errors import TopicAlreadyExistsError
from ..errors import InternalTopicError
from .topic_plan import plan_topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...clients.sync.admin_io import Admin
    from ..config import StreamsConfig
    from ..topology.built import BuiltTopology

log = logging.getLogger("headrace.stream")


def existing_topics(admin: Admin) -> dict[str, int]:
    """The number of partitions of each topic."""
    return {topic.name: topic.partitions for topic in admin.list_topics(internal=True)}


def create_internal_topics(
    admin: Admin, built: BuiltTopology, config: StreamsConfig, topic_defaults: Mapping[str, str]
) -> dict[str, int]:
    """Create the internal topics that are missing; the number of partitions of each source topic.

    Several instances may start at once: a topic that another one has created is checked like an old one.
    Errors: InternalTopicError.
    """
    infos = {number: built.topics_of(number) for number in built.sub_topology_ids}
    groups = built.copartition_groups()
    existing = existing_topics(admin)
    planned = plan_topics(infos, groups, existing)
    missing = [
        NewTopic(
            topic.name,
            partitions,
            None if config.replication_factor < 0 else config.replication_factor,
            topic.configs(topic_defaults, config.window_store_additional_retention_ms),
        )
        for topic, partitions in planned
        if topic.name not in existing
    ]
    if missing:
        outcome = admin.create_topics(*missing)
        for name, error in outcome.errors.items():
            if not isinstance(error, TopicAlreadyExistsError):
                raise InternalTopicError(f"internal topic {name} cannot be created: {error}") from error
        log.info("created internal topics %s", ", ".join(sorted(topic.name for topic in missing)))
        planned = plan_topics(infos, groups, {**existing_topics(admin), **_counts(missing)})
    counts = existing | {topic.name: partitions for topic, partitions in planned}
    return {name: counts[name] for info in infos.values() for name in info.source_topics}


def _counts(topics: list[NewTopic]) -> dict[str, int]:
    """Nodes may not list a new topic yet: it has what was asked for."""
    return {topic.name: topic.partitions or 1 for topic in topics}
