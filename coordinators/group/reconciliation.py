"""One step of a member on its way to the target: what it shall give back, what it gets.

First it gives back what the target takes away, then it moves to the target's epoch and gets what is free;
what others have not given back yet it gets later, in the same epoch. What it is told to give back counts as
given back only when it tells what it owns and that is not among it. Pure: the table of states is
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
    """The member after its next step, or as it is. `owned` is what it told of itself, None nothing;
    `readable` are the ids of topics that exist and that it reads: others it gives back, whatever the target
    says.

    Errors: FencedMemberEpochError in the state UNKNOWN, unless it owns nothing.
    """
    if member.state is MemberState.UNKNOWN and (owned is None or any(owned.values())):
        raise FencedMemberEpochError(
            "the member's state is unknown: it must give up everything and join again"
        )
    is_waiting = member.state is MemberState.UNREVOKED_PARTITIONS and _still_has(owned, member.pending)
    is_there = member.is_reconciled_to(target_epoch)
    if is_waiting or is_there:
        return _give_up_unread(member, readable, owned)
    return _advance(member, target_epoch, target, readable, owner_of, owned)


def _still_has(owned: Partitions | None, revoked: Partitions) -> bool:
    """Has the member, for all that is known, any of `revoked`?"""
    if owned is None:
        return True
    return any(not set(owned.get(topic, ())).isdisjoint(partitions) for topic, partitions in revoked.items())


def _give_up_unread(member: Member, readable: Collection[bytes], owned: Partitions | None) -> Member:
    """It stays in its epoch, but topics that it reads no more it gives back now."""
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
    # what it has itself counts as free: it is in `kept`, or was to be given back and is given again
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
    """Has the member all of `owned`, if only to give it back?"""
    assigned, pending = member.assigned, member.pending
    return all(
        set(partitions).issubset((*assigned.get(topic, ()), *pending.get(topic, ())))
        for topic, partitions in owned.items()
    )
