"""The topics of an application in the cluster: which exist, and the creation of internal ones."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from ...clients.admin.admin_types import NewTopic, TopicListing
from ...protocol.errors import TopicAlreadyExistsError
from ..errors import InternalTopicError
from .topic_plan import plan_topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...clients.sync.admin_io import Admin
    from ..config import StreamsConfig
    from ..topology.built import BuiltTopology

log = logging.getLogger("headrace.stream")

_LISTED_S = 30


def existing_topics(admin: Admin) -> dict[str, TopicListing]:
    """All topics by name."""
    return {topic.name: topic for topic in admin.list_topics(internal=True)}


def create_internal_topics(
    admin: Admin, built: BuiltTopology, config: StreamsConfig, topic_defaults: Mapping[str, str]
) -> dict[str, TopicListing]:
    """Create the internal topics that are missing; all topics of the application, once each is listed.

    Several instances may start at once: a topic that another one has created is checked like an old one.
    Errors: InternalTopicError.
    """
    infos = {number: built.topics_of(number) for number in built.sub_topology_ids}
    groups = built.copartition_groups()
    existing = existing_topics(admin)
    planned = plan_topics(infos, groups, _partitions(existing))
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
        for name, error in admin.create_topics(*missing).errors.items():
            if not isinstance(error, TopicAlreadyExistsError):
                raise InternalTopicError(f"internal topic {name} cannot be created: {error}") from error
        log.info("created internal topics %s", ", ".join(sorted(topic.name for topic in missing)))
        existing = _listed(admin, {topic.name for topic in missing})
        planned = plan_topics(infos, groups, _partitions(existing))
    names = {topic.name for topic, _ in planned}.union(*(info.source_topics for info in infos.values()))
    return {name: existing[name] for name in names}


def _partitions(topics: Mapping[str, TopicListing]) -> dict[str, int]:
    return {name: topic.partitions for name, topic in topics.items()}


def _listed(admin: Admin, names: set[str]) -> dict[str, TopicListing]:
    """All topics, once these are among them: a node lists a new topic when it has followed the metadata."""
    ends_at, pause = time.monotonic() + _LISTED_S, threading.Event()
    while True:
        existing = existing_topics(admin)
        if names <= existing.keys():
            return existing
        if time.monotonic() > ends_at:
            missing = ", ".join(sorted(names - existing.keys()))
            raise InternalTopicError(f"internal topics {missing} were created and are not listed")
        pause.wait(0.05)
