"""The topics of an application in the cluster. The group coordinator creates the internal ones."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from ...protocol.errors import HeadraceError
from ..errors import InternalTopicError, is_retriable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...clients.admin.admin_types import TopicListing
    from ...clients.sync.admin_io import Admin
    from .clients_io import Clients
    from .plan import AppPlan

log = logging.getLogger("headrace.stream")

_LISTED_S = 30


def existing_topics(admin: Admin) -> dict[str, TopicListing]:
    """All topics by name."""
    return {topic.name: topic for topic in admin.list_topics(internal=True)}


def with_topics(plan: AppPlan, clients: Clients, sub_topologies: Iterable[int]) -> AppPlan:
    """The plan with ids and numbers of partitions of all topics of these sub-topologies, whose tasks the
    coordinator assigns: they exist, but a node lists a new topic only when it has followed the metadata.

    Errors: InternalTopicError if they are not listed in time.
    """
    wanted = {
        topic
        for number in sub_topologies
        for topic in (*plan.sub_topologies[number].changelogs.values(), *plan.sources[number])
    }
    if wanted <= plan.topic_ids.keys():
        return plan
    with clients.admin(plan.client_configs["admin"]) as admin:
        listed = _listed(admin, wanted)
    return replace(
        plan,
        partitions={**plan.partitions, **{
            name: topic.partitions for name, topic in listed.items() if name in plan.partitions
        }},
        topic_ids={**plan.topic_ids, **{name: topic.topic_id.hex() for name, topic in listed.items()}},
    )  # fmt: skip


def _listed(admin: Admin, names: set[str]) -> dict[str, TopicListing]:
    """These topics, once all of them are listed."""
    ends_at, pause = time.monotonic() + _LISTED_S, threading.Event()
    while True:
        missing = names
        try:
            existing = existing_topics(admin)
        except HeadraceError as error:
            if not is_retriable(error):
                raise
            log.warning("the topics of the application are not known yet: %s", error)
        else:
            if names <= existing.keys():
                return {name: existing[name] for name in names}
            missing = names - existing.keys()
        if time.monotonic() > ends_at:
            raise InternalTopicError(f"topics {', '.join(sorted(missing))} are not listed by the cluster")
        pause.wait(0.05)
