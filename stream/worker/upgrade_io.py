"""Whether an application may start with its topology, compared with the one that its group has.

The group remembers the topology also when all members have left.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.application_topics import is_internal_topic
from ...protocol.errors import GroupIdNotFoundError, UnsupportedVersionError
from ..errors import IncompatibleTopologyError
from ..topology.changes import Effect, TopologyChanges, compare, topics_of_group, topics_of_topology
from .topics_io import existing_topics

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from ...clients.admin.admin_types import TopicListing
    from ...clients.admin.streams_groups import StreamsGroupDescription
    from ...clients.sync.admin_io import Admin
    from ..config import StreamsConfig
    from ..topology.built import BuiltTopology
    from ..topology.topology import Topology
    from .plan import AppPlan

log = logging.getLogger("headrace.stream")


class Upgrade(NamedTuple):
    """The differences to the group's topology; `members` of the group now, and the epoch of its topology."""

    changes: TopologyChanges
    members: int
    epoch: int

    @property
    def is_refused(self) -> bool:
        """Whether it needs `allow.topology.change`, or that members stop first."""
        return self.changes.effect >= (Effect.STOP if self.members else Effect.LOSS)


def built_with(
    topology: Topology, config: StreamsConfig, existing: Mapping[str, TopicListing]
) -> BuiltTopology:
    """The topology with the topics that match its patterns now. Errors: TopologyError."""
    matched = [
        name
        for name, topic in existing.items()
        if not topic.is_internal and not is_internal_topic(name, config.application_id)
    ]
    return topology.build(config.application_id, caching=config.cache_bytes > 0, matched=matched)


def find_upgrade(
    admin: Admin, application_id: str, built: BuiltTopology, existing: Container[str]
) -> Upgrade | None:
    """Compared with the group of the application; None if there is no streams group with a topology. Errors:
    HeadraceError."""
    found = admin.describe_streams_groups(application_id)
    error = found.errors.get(application_id)
    if isinstance(error, (GroupIdNotFoundError, UnsupportedVersionError)):
        return None
    if error is not None:
        raise error
    group: StreamsGroupDescription = found[application_id]
    if group.topology_epoch < 0:
        return None
    if group.subtopologies is None:  # topics are missing: the coordinator compares
        return Upgrade(TopologyChanges(()), len(group.members), group.topology_epoch)
    # Internal topics of a group with members exist, or are being created
    before = topics_of_group(group, None if group.members else existing)
    changes = compare(application_id, before, topics_of_topology(built))
    return Upgrade(changes, len(group.members), group.topology_epoch)


def preview(admin: Admin, topology: Topology, config: StreamsConfig) -> Upgrade | None:
    """`find_upgrade` for a program that does not run. Errors: TopologyError, HeadraceError."""
    existing = existing_topics(admin)
    return find_upgrade(admin, config.application_id, built_with(topology, config, existing), existing.keys())


def with_epoch(admin: Admin, plan: AppPlan, existing: Container[str]) -> AppPlan:
    """The plan with the topology epoch at which its members join: that of the group, or the next one if the
    topology differs. Errors: IncompatibleTopologyError."""
    config = plan.config
    upgrade = find_upgrade(admin, config.application_id, plan.built, existing)
    if upgrade is None:
        return plan
    effect = upgrade.changes.effect
    may_lose = config.allow_topology_change and not upgrade.members
    if upgrade.is_refused and not may_lose:
        raise IncompatibleTopologyError(refusal(config.application_id, upgrade))
    for line in upgrade.changes.lines():
        log.warning("application %s has another topology than before: %s", config.application_id, line)
    epoch = upgrade.epoch + (effect is not Effect.SAME)
    return replace(plan, group_topology=plan.group_topology._replace(epoch=epoch))


def refusal(application_id: str, upgrade: Upgrade) -> str:
    """Why the application does not start, and what to do."""
    least = Effect.STOP if upgrade.members else Effect.LOSS
    text = f"application {application_id!r} has another topology than before:\n  "
    text += "\n  ".join(upgrade.changes.lines(least))
    if upgrade.members:
        text += f"\nStop its {upgrade.members} running threads before this version starts"
        text += "" if upgrade.changes.effect is Effect.STOP else ", and then"
    if upgrade.changes.effect is Effect.LOSS:
        text += (
            f"\nGive operators and stores the names above, or use another application id; to accept the loss,"
            f" `headrace stream reset {application_id}`, or start with allow.topology.change=true"
        )
    return text
