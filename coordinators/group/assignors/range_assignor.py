"""Range: each member gets one run of consecutive partitions of every topic.

Members are ordered: static members by instance id, then the others by member id. Topics with equal partition
counts and equal subscribers are therefore divided alike, so that partition n of one topic is on the same
member as partition n of the other. Stickiness comes from that order, not from the previous assignment: a
static member that returns under another member id gets its old partitions. Source: Kafka RangeAssignor.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .model import MemberSpec, Partitions


def assign_ranges(members: Mapping[str, MemberSpec], topics: Mapping[bytes, int]) -> dict[str, Partitions]:
    """Consecutive runs; if the count does not divide evenly, the first members get one partition more."""
    ordered = sorted(members, key=lambda member_id: _place(member_id, members[member_id]))
    given: dict[str, dict[bytes, tuple[int, ...]]] = {member_id: {} for member_id in ordered}
    readers: dict[bytes, list[str]] = {}
    for member_id in ordered:
        for topic in members[member_id].subscribed:
            readers.setdefault(topic, []).append(member_id)
    for topic in sorted(readers):
        each, more = divmod(topics[topic], len(readers[topic]))
        start = 0
        for place, member_id in enumerate(readers[topic]):
            end = start + each + (place < more)
            if end == start:
                break
            given[member_id][topic] = tuple(range(start, end))
            start = end
    return dict(given)


def _place(member_id: str, member: MemberSpec) -> tuple[bool, str]:
    instance_id = member.instance_id
    return (instance_id is None, member_id if instance_id is None else instance_id)
