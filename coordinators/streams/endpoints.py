"""Endpoint information: the source partitions of the tasks of each member with an endpoint. Pure.

Members use it to route interactive queries. A response contains it if the member's epoch of the information
is not the current one. The epochs are soft; those of another coordinator are different. Source: Kafka
EndpointToPartitionsManager.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages.streams_groups import EndpointToPartitions, TopicPartitions
from .tasks import Role
from .topology import sources_of

if TYPE_CHECKING:
    from ...protocol.records.streams_group_records import StreamsGroupTopologyValue
    from .configured_topology import PartitionCountOf
    from .streams_group import StreamsGroup
    from .streams_member import Member

_EPOCH_BITS, _SEQUENCE_BITS = 15, 16


class EndpointEpochs:
    """The epoch of each group's endpoint information."""

    def __init__(self, coordinator_epoch: int) -> None:
        self._first = (coordinator_epoch & (1 << _EPOCH_BITS) - 1) << _SEQUENCE_BITS
        self._epochs: dict[str, int] = {}

    def epoch_of(self, group_id: str) -> int:
        return self._epochs.get(group_id, self._first)

    def changed(self, group_id: str, before: Member | None, after: Member | None) -> None:
        """Start the next epoch if the information of this member changed."""
        if _shown(before) != _shown(after):
            next_sequence = self.epoch_of(group_id) + 1 & (1 << _SEQUENCE_BITS) - 1
            self._epochs[group_id] = self._first + next_sequence

    def forget(self, group_id: str) -> None:
        """Drop a deleted group."""
        self._epochs.pop(group_id, None)


def _shown(member: Member | None) -> tuple[object, ...]:
    if member is None or member.user_endpoint is None:
        return ()
    return member.user_endpoint, member.assigned


def partitions_by_endpoint(
    group: StreamsGroup, topology: StreamsGroupTopologyValue, count_of: PartitionCountOf
) -> tuple[EndpointToPartitions, ...]:
    """The information of all members with an endpoint, in the order of their ids. `topology`: without
    expressions."""
    sources = {each.subtopology_id: tuple(sources_of(each)) for each in topology.subtopologies}

    def partitions_of(member: Member, role: Role) -> tuple[TopicPartitions, ...]:
        found: dict[str, list[int]] = {}
        for (subtopology_id, partition), held in sorted(member.assigned.items()):
            for topic in sources.get(subtopology_id, ()) if held is role else ():
                if partition < (count_of(topic) or 0):
                    found.setdefault(topic, []).append(partition)
        return tuple(TopicPartitions(topic, tuple(found[topic])) for topic in sorted(found))

    return tuple(
        EndpointToPartitions(
            member.user_endpoint, partitions_of(member, Role.ACTIVE), partitions_of(member, Role.STANDBY)
        )
        for _, member in sorted(group.members.items())
        if member.user_endpoint is not None
    )
