"""Input and output types of assignors.

The partitions of a member: topic id -> sorted partitions, never empty. An assignor gets the members by id
with their subscriptions and the partition count of every existing topic, and returns the partitions of every
member. It is a function of its arguments alone: the same members get the same assignment in every process.
Source: Kafka's api/assignor package (GroupSpec, MemberSubscription, SubscribedTopicDescriber).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

Partitions = Mapping[bytes, tuple[int, ...]]


class MemberSpec(NamedTuple):
    """One member: the ids of its subscribed topics and its current target. `subscribed` holds existing topics
    only; members with equal subscriptions may share one object, which saves comparing them."""

    subscribed: frozenset[bytes]
    target: Partitions
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, MemberSpec], Mapping[bytes, int]], dict[str, Partitions]]


def by_subscription(members: Mapping[str, MemberSpec]) -> dict[frozenset[bytes], list[str]]:
    """Sorted member ids by subscription; most groups have one entry."""
    found: dict[frozenset[bytes], list[str]] = {}
    for member_id in sorted(members):
        found.setdefault(members[member_id].subscribed, []).append(member_id)
    return found
