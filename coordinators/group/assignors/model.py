"""What assignors take and give.

Partitions of a member: topic id -> its partitions, sorted, never empty. An assignor gets the members by id
with what each reads, and the partition count of every topic that exists, and gives every member its
partitions. It is a function of its arguments alone: the same members give the same assignment in every
process. Source: Kafka's api/assignor package (GroupSpec, MemberSubscription, SubscribedTopicDescriber).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

Partitions = Mapping[bytes, tuple[int, ...]]


class MemberSpec(NamedTuple):
    """One member: topics that it reads, by id, and the target that it has now. Topics that do not exist are
    not among `subscribed`; equal subscriptions may be the same object, which saves comparing them."""

    subscribed: frozenset[bytes]
    target: Partitions
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, MemberSpec], Mapping[bytes, int]], dict[str, Partitions]]


def by_subscription(members: Mapping[str, MemberSpec]) -> dict[frozenset[bytes], list[str]]:
    """Member ids by what they read, each list sorted; most groups have one entry."""
    found: dict[frozenset[bytes], list[str]] = {}
    for member_id in sorted(members):
        found.setdefault(members[member_id].subscribed, []).append(member_id)
    return found
