"""Range: of every topic, each member gets one run of neighbouring partitions.

Members stand in one order, static ones first by instance id, then the others by member id; topics with equal
partition counts and equal readers are therefore cut alike, so that partition n of one is with partition n of
the other. That order, not the assignment before, makes it sticky: a static member that returns under another
member id finds its old place. Source: Kafka RangeAssignor.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .model import MemberSpec, Partitions


def assign_ranges(members: Mapping[str, MemberSpec], topics: Mapping[bytes, int]) -> dict[str, Partitions]:
    """Runs of neighbours; the first members get one partition more where it does not come out even."""
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
