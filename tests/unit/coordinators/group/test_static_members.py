"""Static members: they keep their place and their assignment, and only one client has it."""

import pytest
from group_rig import RANGE, GroupRig, topic_image
from headrace.coordinators.group.classic_group import ClassicGroup
from headrace.coordinators.group.classic_states import ClassicState
from headrace.coordinators.group.rebalances import MIN_WAIT_MS
from headrace.coordinators.runtime.ports import Outcome
from headrace.protocol import errors
from headrace.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from headrace.protocol.messages import groups as m
from headrace.protocol.model import TopicPartition


def group_of(rig: GroupRig) -> ClassicGroup:
    group = rig.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    return group


def static_group(rig: GroupRig) -> tuple[str, str]:
    """A leader without and a follower with the instance id i, in generation 2."""
    (leader,) = rig.stable_group()
    follower = rig.join(group_instance_id="i")
    joined = rig.join(leader)
    assert joined.answer.generation_id == 2
    follower_id = follower.answer.member_id
    rig.sync(leader, 2, assignments={leader: b"L", follower_id: b"F"})
    assert rig.sync(follower_id, 2, group_instance_id="i").answer.assignment == b"F"
    return leader, follower_id


def test_static_member_joins_without_a_member_id(rig: GroupRig) -> None:
    """The instance id identifies it; the member id begins with the instance id."""
    joined = rig.join(group_instance_id="i")
    assert joined.waits
    rig.advance(0)
    assert joined.answer.member_id.startswith("i-")
    assert joined.answer.members[0].group_instance_id == "i"


@pytest.mark.parametrize("reloads", [False, True])
def test_returning_static_member_causes_no_rebalance(rig: GroupRig, reloads: bool) -> None:
    """A new member id, the same assignment and generation, also under another coordinator."""
    leader, old = static_group(rig)
    if reloads:
        rig.reload()
    back = rig.join(group_instance_id="i").answer
    assert (back.error_code, back.generation_id, back.skip_assignment) == (0, 2, False)
    assert back.member_id != old
    if reloads:
        rig.reload()
    assert rig.sync(back.member_id, 2, group_instance_id="i").answer.assignment == b"F"
    assert rig.heartbeat(leader, 2).code == 0


def test_rolling_restart_of_static_members_causes_no_rebalance(rig: GroupRig) -> None:
    """Scenario 51: also when the coordinator changes meanwhile."""
    joins = [rig.join(group_instance_id=each) for each in "ijk"]
    rig.advance(0)
    ids = {each: join.answer.member_id for each, join in zip("ijk", joins, strict=True)}
    given = {member_id: each.encode() for each, member_id in ids.items()}
    for each in "kji":
        rig.sync(ids[each], 1, assignments=given)
    for number, each in enumerate("ijkkji"):
        rig.commit_offset(number, ids[each], 1, tp=("t", ord(each) - ord("i")), group_instance_id=each)
        back = rig.join(group_instance_id=each).answer
        assert (back.error_code, back.generation_id) == (0, 1)
        assert back.skip_assignment == (each == "i")
        ids[each] = back.member_id
        if number % 2:
            rig.reload()
        assert rig.sync(ids[each], 1, group_instance_id=each).answer.assignment == each.encode()
        rig.advance(5_000)
        assert {rig.heartbeat(ids[other], 1, instance_id=other).code for other in "ijk"} == {0}
    assert rig.offsets() == {("t", 0): 5, ("t", 1): 4, ("t", 2): 3}


def test_replaced_static_member_is_fenced(rig: GroupRig) -> None:
    """In every request: two clients with one instance id would read the same partitions."""
    _, old = static_group(rig)
    rig.join(group_instance_id="i")
    assert rig.heartbeat(old, 2, instance_id="i").code == errors.FencedInstanceIdError.code
    assert rig.sync(old, 2, group_instance_id="i").code == errors.FencedInstanceIdError.code
    assert rig.join(old, group_instance_id="i").code == errors.FencedInstanceIdError.code
    assert rig.commit_offset(5, old, 2, group_instance_id="i").code == errors.FencedInstanceIdError.code
    (left,) = rig.leave(m.LeavingMember(old, "i")).answer.members
    assert left.error_code == errors.FencedInstanceIdError.code
    assert rig.heartbeat(old, 2).code == errors.UnknownMemberIdError.code


def test_unknown_instance_id_is_refused(rig: GroupRig) -> None:
    """Also with a valid member id."""
    leader, _ = static_group(rig)
    assert rig.heartbeat(leader, 2, instance_id="j").code == errors.UnknownMemberIdError.code


def test_returning_static_leader_gets_members_and_skips_the_assignment(rig: GroupRig) -> None:
    """KIP-814: it needs the members to notice changes, but the assignment stays."""
    rig.join(group_instance_id="lead")
    other = rig.join(requires_member_id=False)
    rig.advance(0)
    generation, leader = other.answer.generation_id, other.answer.leader
    rig.sync(leader, generation, assignments={leader: b"L", other.answer.member_id: b"F"})
    back = rig.join(group_instance_id="lead").answer
    assert back.skip_assignment
    assert back.leader == back.member_id
    assert [each.member_id for each in back.members] == [back.member_id, other.answer.member_id]
    assert rig.sync(back.member_id, generation).answer.assignment == b"L"


@pytest.mark.parametrize("partitions", [4, 5])
def test_returning_leader_does_not_skip_an_assignment_without_new_partitions(
    rig: GroupRig, partitions: int
) -> None:
    """Partitions were created while it was away: it takes their count for that of the assignment."""
    subscribed = (m.GroupProtocol("range", encode_subscription(Subscription(3, ("t", "gone")))),)
    joined = rig.join(group_instance_id="i", protocols=subscribed)
    rig.advance(0)
    leader = joined.answer.member_id
    whole = encode_assignment(Assignment(3, tuple(TopicPartition("t", index) for index in range(4))))
    rig.sync(leader, 1, assignments={leader: whole}, group_instance_id="i")
    rig.change_topics(topic_image("t", 1, partitions))
    back = rig.join(group_instance_id="i", protocols=subscribed)
    rig.advance(0)
    is_complete = partitions == 4
    assert back.answer.skip_assignment == is_complete
    assert back.answer.generation_id == (1 if is_complete else 2)
    assert back.answer.leader == back.answer.member_id


def test_returning_member_with_other_assignors_starts_a_rebalance(rig: GroupRig) -> None:
    """The assignment was made by another assignor."""
    both = (m.GroupProtocol("range", b"r"), m.GroupProtocol("sticky", b"s"))
    first = rig.join(group_instance_id="i", protocols=both)
    second = rig.join(requires_member_id=False, protocols=both)
    rig.advance(0)
    rig.sync(first.answer.member_id, 1)
    assert first.answer.protocol_name == "range"
    back = rig.join(group_instance_id="i", protocols=both[1:])
    assert back.waits
    assert rig.heartbeat(second.answer.member_id, 1).code == errors.RebalanceInProgressError.code
    rig.join(second.answer.member_id, protocols=both)
    assert back.answer.protocol_name == "sticky"


def test_static_member_returns_during_a_rebalance(rig: GroupRig) -> None:
    """The earlier instance is fenced at once, and the new one waits in its place."""
    leader, old = static_group(rig)
    rig.join(requires_member_id=False)
    waiting = rig.join(old, group_instance_id="i")
    back = rig.join(group_instance_id="i")
    assert waiting.code == errors.FencedInstanceIdError.code
    assert back.waits
    assert len(rig.join(leader).answer.members) == 3
    assert back.code == 0


def test_static_member_returns_before_the_assignment(rig: GroupRig) -> None:
    """The leader would assign to the old member id: all members rejoin."""
    leader, old = static_group(rig)
    first = rig.join(leader)
    rig.join(old, group_instance_id="i")
    assert first.answer.generation_id == 3
    waiting = rig.sync(old, 3, group_instance_id="i")
    back = rig.join(group_instance_id="i")
    assert waiting.code == errors.FencedInstanceIdError.code
    assert group_of(rig).state is ClassicState.PREPARING_REBALANCE
    again = rig.join(leader)
    assert again.answer.generation_id == back.answer.generation_id == 4


def test_absent_static_member_stays_until_its_session_expires(rig: GroupRig) -> None:
    """A rebalance waits for it, whatever the rebalance timeouts of others; then it is removed."""
    leader, away = static_group(rig)
    joined = rig.join(leader, session_timeout_ms=1_800_000, rebalance_timeout_ms=5_000)
    rig.advance(9_999)
    assert joined.waits
    rig.advance(1)
    assert joined.answer.generation_id == 3
    assert rig.heartbeat(away, 2).code == errors.UnknownMemberIdError.code


def test_rebalance_of_absent_static_members_has_no_leader(rig: GroupRig) -> None:
    """It lasts until their sessions expire, and then the group is Empty."""
    joined = [rig.join(group_instance_id=each, session_timeout_ms=100_000) for each in "ij"]
    rig.advance(0)
    ids = [each.answer.member_id for each in joined]
    rig.sync(ids[0], 1)
    rig.sync(ids[1], 1)
    dynamic = rig.join(requires_member_id=False, session_timeout_ms=6_000)
    member_id = next(each for each in group_of(rig).members if each not in ids)
    rig.leave(m.LeavingMember(member_id))
    assert dynamic.code == errors.UnknownMemberIdError.code
    rig.advance(60_000)
    assert group_of(rig).state is ClassicState.PREPARING_REBALANCE
    rig.advance(40_000)
    assert group_of(rig).state is ClassicState.EMPTY


def test_zero_rebalance_timeout_of_static_members_is_no_busy_loop(rig: GroupRig) -> None:
    """The check is repeated until their sessions expire, but not immediately."""
    leader, _ = static_group(rig)
    back = rig.join(group_instance_id="i", rebalance_timeout_ms=0)
    assert back.code == 0
    rig.leave(m.LeavingMember(leader))
    assert group_of(rig).state is ClassicState.PREPARING_REBALANCE
    _, _, action = rig._timers["join", "g"]
    assert action(rig.now) == Outcome()
    assert rig.deadline_of(("join", "g")) == rig.now_ms + MIN_WAIT_MS
    rig.advance(10_000)
    assert group_of(rig).is_empty


def test_new_static_member_of_a_stable_group_completes_the_rebalance(rig: GroupRig) -> None:
    """KAFKA-14422: it knows that it does not lead."""
    first, second = rig.stable_group(2)
    new = rig.join(group_instance_id="i")
    joins = [rig.join(first), rig.join(second)]
    assert not new.waits
    assert new.answer.leader == first
    assert new.answer.members == ()
    syncs = [rig.sync(each, 3) for each in (second, new.answer.member_id)]
    rig.sync(first, 3)
    assert [each.code for each in (*joins, *syncs)] == [0] * 4


def test_pending_member_id_is_refused_with_an_instance_id(rig: GroupRig) -> None:
    given = rig.join().answer.member_id
    assert rig.join(given, group_instance_id="i").code == errors.InvalidRequestError.code


def test_failed_append_keeps_the_old_member_id(rig: GroupRig) -> None:
    """Else log and members would disagree after the next load."""
    leader, old = static_group(rig)
    rig.refuses = errors.NotEnoughReplicasError()
    refused = rig.join(group_instance_id="i", protocols=(m.GroupProtocol("range", b"other"),))
    assert refused.code == errors.CoordinatorNotAvailableError.code
    rig.refuses = None
    assert rig.heartbeat(old, 2, instance_id="i").code == 0
    assert group_of(rig).members[old].protocols == RANGE
    rig.advance(9_999)
    assert rig.heartbeat(leader, 2).code == 0
    rig.advance(1)
    assert old not in group_of(rig).members


def test_static_member_with_an_old_generation_is_refused(rig: GroupRig) -> None:
    _, old = static_group(rig)
    assert rig.heartbeat(old, 1, instance_id="i").code == errors.IllegalGenerationError.code
