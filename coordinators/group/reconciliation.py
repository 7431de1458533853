"""One reconciliation step of a member: partitions to revoke, or newly assigned ones. Pure.

The member first revokes partitions that are not in its target, then moves to the target's epoch and gets the
free partitions; partitions that other members have not revoked yet follow in the same epoch. A partition
counts as revoked only when the member reports its owned partitions without it. The states follow
MEMBER_TRANSITIONS. Source: Kafka CurrentAssignmentBuilder.java; KIP-848.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...protocol.errors import FencedMemberEpochError
from .consumer_member import MemberState, each_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from .assignors.model import Partitions
    from .consumer_member import Member


def next_step(
    member: Member,
    target_epoch: int,
    target: Partitions,
    readable: Collection[bytes],
    owner_of: Callable[[bytes, int], str | None],
    owned: Partitions | None,
) -> Member:
    """The member after its next step, or unchanged. `owned`: the partitions that it reports, None if it
    reports none; `readable`: ids of existing topics that it subscribes to; it revokes all others, whatever
    the target says.

    Errors: FencedMemberEpochError in the state UNKNOWN, unless it owns nothing.
    """
    if member.state is MemberState.UNKNOWN and (owned is None or any(owned.values())):
        raise FencedMemberEpochError("the member's state is unknown: revoke all partitions and rejoin")
    is_waiting = member.state is MemberState.UNREVOKED_PARTITIONS and _still_has(owned, member.pending)
    is_there = member.is_reconciled_to(target_epoch)
    if is_waiting or is_there:
        return _give_up_unread(member, readable, owned)
    return _advance(member, target_epoch, target, readable, owner_of, owned)


def _still_has(owned: Partitions | None, revoked: Partitions) -> bool:
    """Whether the member may still own any of `revoked`."""
    if owned is None:
        return True
    return any(not set(owned.get(topic, ())).isdisjoint(partitions) for topic, partitions in revoked.items())


def _give_up_unread(member: Member, readable: Collection[bytes], owned: Partitions | None) -> Member:
    """Revoke partitions of unsubscribed topics within the current epoch."""
    unread = {topic: each for topic, each in member.assigned.items() if topic not in readable}
    if not unread:
        return member
    assigned = {topic: each for topic, each in member.assigned.items() if topic in readable}
    pending = _union(member.pending, unread)
    if not _still_has(owned, pending):
        return replace(member, assigned=assigned)
    return replace(member, state=MemberState.UNREVOKED_PARTITIONS, assigned=assigned, pending=pending)


def _advance(
    member: Member,
    target_epoch: int,
    target: Partitions,
    readable: Collection[bytes],
    owner_of: Callable[[bytes, int], str | None],
    owned: Partitions | None,
) -> Member:
    wanted = {topic: frozenset(each) for topic, each in target.items() if topic in readable}
    nothing: frozenset[int] = frozenset()
    kept = _only(member.assigned, lambda topic, partition: partition in wanted.get(topic, nothing))
    revoked = _only(member.assigned, lambda topic, partition: partition not in wanted.get(topic, nothing))
    if revoked and _still_has(owned, revoked):
        return replace(member, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending=revoked)
    # its own partitions count as free: they are in `kept`, or were pending and are assigned again
    free = _only(
        target, lambda topic, each: topic in readable and owner_of(topic, each) in (None, member.member_id)
    )
    is_complete = sum(map(len, free.values())) == sum(map(len, wanted.values()))
    since = {place: member.since.get(place, target_epoch) for place in each_partition(free)}
    return replace(
        member,
        epoch=target_epoch,
        state=MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS,
        assigned=free,
        pending={},
        since=since,
    )


def _only(partitions: Partitions, which: Callable[[bytes, int], bool]) -> Partitions:
    found: dict[bytes, tuple[int, ...]] = {}
    for topic, each in partitions.items():
        left = tuple(partition for partition in each if which(topic, partition))
        if left:
            found[topic] = left
    return found


def _union(left: Partitions, right: Partitions) -> Partitions:
    topics = left.keys() | right.keys()
    return {topic: tuple(sorted({*left.get(topic, ()), *right.get(topic, ())})) for topic in topics}


def is_part_of(owned: Partitions, member: Member) -> bool:
    """Whether the member has all of `owned` assigned or pending."""
    assigned, pending = member.assigned, member.pending
    return all(
        set(partitions).issubset((*assigned.get(topic, ()), *pending.get(topic, ())))
        for topic, partitions in owned.items()
    )
