"""SyncGroup, Heartbeat and LeaveGroup: assignments come from the leader through the log, and members go."""

import pytest
from group_rig import GroupRig
from headrace.coordinators.group.classic_group import ClassicGroup
from headrace.coordinators.group.classic_states import ClassicState
from headrace.protocol.errors import (
    CoordinatorNotAvailableError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    NotEnoughReplicasError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnknownServerError,
)
from headrace.protocol.errors import MessageTooLargeError as TooLargeError
from headrace.protocol.messages import groups as m


def group_of(rig: GroupRig) -> ClassicGroup:
    group = rig.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    return group


def joined_group(rig: GroupRig, count: int = 2, **more: object) -> list[str]:
    """Members of generation 1 that have not synced; the leader first."""
    joins = [rig.join(requires_member_id=False, **more) for _ in range(count)]
    rig.advance(0)
    return [each.answer.member_id for each in joins]


def test_sync_of_followers_waits_for_the_leader(rig: GroupRig) -> None:
    """Each gets its own assignment; a member without one gets empty bytes."""
    first, second, third = joined_group(rig, 3)
    waiting = [rig.sync(second, 1), rig.sync(third, 1)]
    assert all(each.waits for each in waiting)
    leading = rig.sync(first, 1, assignments={first: b"1", second: b"2"})
    assert [each.answer.assignment for each in (leading, *waiting)] == [b"1", b"2", b""]
    assert group_of(rig).state is ClassicState.STABLE
    assert rig.shard.counters.by_name()["group-completed-rebalance-count"] == 1


def test_assignments_are_returned_once_committed(rig: GroupRig) -> None:
    """Two nodes that both act as coordinator must not both return assignments."""
    first, second = joined_group(rig)
    follower = rig.sync(second, 1)
    rig.is_committing = False
    leader = rig.sync(first, 1, assignments={second: b"2"})
    late = rig.sync(second, 1)
    assert leader.waits
    assert follower.waits
    assert late.waits
    rig.commit()
    assert (leader.answer.assignment, follower.answer.assignment, late.answer.assignment) == (b"", b"2", b"2")


def test_stable_group_answers_sync_at_once(rig: GroupRig) -> None:
    """Also after a load."""
    first, second = rig.stable_group(2)
    assert rig.sync(second, 2).answer.assignment == b"a1"
    rig.reload()
    assert rig.sync(first, 2, protocol_type="consumer", protocol_name="range").answer.assignment == b"a0"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"generation": 2}, IllegalGenerationError),
        ({"member_id": "x"}, UnknownMemberIdError),
        ({"group": "h"}, UnknownMemberIdError),
        ({"protocol_type": "connect"}, InconsistentGroupProtocolError),
        ({"protocol_name": "sticky"}, InconsistentGroupProtocolError),
        ({"group_instance_id": "i"}, UnknownMemberIdError),
    ],
)
def test_sync_checks_member_generation_and_protocol(
    rig: GroupRig, change: dict[str, object], error: type
) -> None:
    _, second = joined_group(rig)
    assert rig.sync(**{"member_id": second, "generation": 1, **change}).code == error.code


def test_sync_during_a_rebalance_is_refused(rig: GroupRig) -> None:
    """A parked SyncGroup fails with REBALANCE_IN_PROGRESS."""
    _, second, third = joined_group(rig, 3)
    waiting = rig.sync(second, 1)
    rig.join(requires_member_id=False)
    assert waiting.code == RebalanceInProgressError.code
    assert rig.sync(third, 1).code == RebalanceInProgressError.code


def test_repeated_sync_replaces_the_first(rig: GroupRig) -> None:
    first, second = joined_group(rig)
    abandoned, waiting = rig.sync(second, 1), rig.sync(second, 1)
    assert abandoned.code == RebalanceInProgressError.code
    rig.sync(first, 1, assignments={second: b"2"})
    assert waiting.answer.assignment == b"2"


@pytest.mark.parametrize("leader_syncs", [False, True])
def test_members_that_never_sync_are_removed(rig: GroupRig, leader_syncs: bool) -> None:
    """KAFKA-12890: they send heartbeats but consume no partition. The others rebalance."""
    first, second, third = joined_group(rig, 3, rebalance_timeout_ms=20_000)
    synced = [rig.sync(second, 1)]
    if leader_syncs:
        synced.append(rig.sync(first, 1))
    for _ in range(4):
        rig.advance(5_000)
        codes = {rig.heartbeat(each, 1).code for each in (first, second, third)}
    gone = {third} if leader_syncs else {first, third}
    assert set(group_of(rig).members) == {first, second, third} - gone
    assert codes == {RebalanceInProgressError.code, UnknownMemberIdError.code}
    assert not any(each.waits for each in synced)


def test_session_of_a_waiting_sync_starts_with_its_response(rig: GroupRig) -> None:
    first, second = joined_group(rig)
    waiting = rig.sync(second, 1)
    for _ in range(3):
        rig.advance(9_000)
        rig.heartbeat(first, 1)
    assert waiting.waits
    rig.sync(first, 1)
    rig.advance(9_999)
    rig.heartbeat(first, 1)
    assert second in group_of(rig).members
    rig.advance(1)
    assert second not in group_of(rig).members


@pytest.mark.parametrize(
    ("refusal", "seen"),
    [(NotEnoughReplicasError, CoordinatorNotAvailableError), (TooLargeError, UnknownServerError)],
)
def test_failed_append_of_assignments_starts_a_rebalance(rig: GroupRig, refusal: type, seen: type) -> None:
    """No member owns a partition by an assignment that is not in the log."""
    first, second = joined_group(rig)
    follower = rig.sync(second, 1)
    rig.refuses = refusal()
    leader = rig.sync(first, 1, assignments={first: b"1", second: b"2"})
    rig.refuses = None
    assert [leader.code, follower.code] == [seen.code] * 2
    assert group_of(rig).state is ClassicState.PREPARING_REBALANCE
    assert [each.assignment for each in group_of(rig).members.values()] == [b"", b""]
    joins = [rig.join(first), rig.join(second)]
    assert {each.answer.generation_id for each in joins} == {2}


def test_heartbeats_extend_the_session(rig: GroupRig) -> None:
    """A member without heartbeats is removed when its session expires."""
    first, second = rig.stable_group(2)
    rig.advance(9_999)
    assert rig.heartbeat(first, 2).code == 0
    assert second in group_of(rig).members
    rig.advance(1)
    assert rig.heartbeat(second, 2).code == UnknownMemberIdError.code
    assert rig.heartbeat(first, 2).code == RebalanceInProgressError.code
    rig.advance(10_000)
    assert group_of(rig).state is ClassicState.EMPTY


@pytest.mark.parametrize(
    ("member", "generation", "group", "error"),
    [
        (0, 1, "g", IllegalGenerationError),
        (0, 3, "g", IllegalGenerationError),
        (None, 2, "g", UnknownMemberIdError),
        (0, 2, "h", UnknownMemberIdError),
    ],
)
def test_heartbeat_checks_member_and_generation(
    rig: GroupRig, member: int | None, generation: int, group: str, error: type
) -> None:
    ids = rig.stable_group(2)
    member_id = "x" if member is None else ids[member]
    assert rig.heartbeat(member_id, generation, group).code == error.code


def test_several_members_leave_in_one_request(rig: GroupRig) -> None:
    """Each has its own result; the group rebalances once."""
    ids = rig.stable_group(4)
    static = rig.join(group_instance_id="i")
    for each in ids:
        rig.join(each)
    assert static.answer.generation_id == 3
    given = rig.join().answer.member_id
    left = rig.leave(
        m.LeavingMember(ids[0]),
        m.LeavingMember("x"),
        m.LeavingMember("", "i"),
        m.LeavingMember("", "j"),
        m.LeavingMember(""),
        m.LeavingMember(given),
    ).answer
    unknown = UnknownMemberIdError.code
    assert [each.error_code for each in left.members] == [0, unknown, 0, unknown, unknown, 0]
    assert set(group_of(rig).members) == set(ids[1:])
    joins = [rig.join(each) for each in ids[1:]]
    assert {each.answer.generation_id for each in joins} == {4}
    assert {each.answer.leader for each in joins} == {ids[1]}


def test_leaving_an_unknown_group() -> None:
    """Every member gets UNKNOWN_MEMBER_ID, and the request no error, as in Kafka."""
    left = GroupRig().leave(m.LeavingMember("x"))
    assert (left.code, [each.error_code for each in left.answer.members]) == (0, [UnknownMemberIdError.code])


def test_waiting_requests_of_removed_members_are_answered(rig: GroupRig) -> None:
    first, second = joined_group(rig)
    sync = rig.sync(second, 1)
    rig.leave(m.LeavingMember(second))
    assert sync.code == UnknownMemberIdError.code
    third = rig.join(requires_member_id=False)
    join = rig.join(first)
    assert len(join.answer.members) == 2
    waiting = rig.join(first, protocols=(m.GroupProtocol("range", b"other"),))
    rig.leave(m.LeavingMember(first))
    assert waiting.code == UnknownMemberIdError.code
    assert group_of(rig).leader == third.answer.member_id


def test_group_is_empty_after_the_last_member_left(rig: GroupRig) -> None:
    """Also in the log; its generations continue."""
    (member,) = rig.stable_group()
    rig.leave(m.LeavingMember(member))
    assert group_of(rig).state is ClassicState.EMPTY
    rig.reload()
    assert group_of(rig).state is ClassicState.EMPTY
    joined = rig.join(requires_member_id=False)
    rig.advance(0)
    assert joined.answer.generation_id == 3


def test_leave_of_the_last_missing_member_completes_the_rebalance(rig: GroupRig) -> None:
    first, second = rig.stable_group(2)
    waiting = rig.join(first)
    rig.leave(m.LeavingMember(second))
    assert waiting.answer.generation_id == 3


def test_member_that_must_rejoin_has_a_session(rig: GroupRig) -> None:
    """It had none while it waited for its assignment."""
    first, second = joined_group(rig)
    rig.sync(second, 1)
    rig.advance(9_000)
    rig.heartbeat(first, 1)
    rig.advance(9_000)
    joins = [rig.join(requires_member_id=False), rig.join(first)]
    rig.advance(9_999)
    assert all(each.waits for each in joins)
    rig.advance(1)
    assert {each.code for each in joins} == {0}
    assert second not in group_of(rig).members


def test_failed_append_of_the_empty_generation(rig: GroupRig) -> None:
    """After a load the members exist, for one session."""
    (member,) = rig.stable_group()
    rig.refuses = NotEnoughReplicasError()
    rig.leave(m.LeavingMember(member))
    rig.refuses = None
    assert group_of(rig).state is ClassicState.EMPTY
    rig.reload()
    assert set(group_of(rig).members) == {member}
    rig.advance(10_000)
    assert group_of(rig).state is ClassicState.EMPTY


def test_failed_append_of_the_first_generation_leaves_no_group(rig: GroupRig) -> None:
    """The member joins again; no request waits."""
    rig.refuses = NotEnoughReplicasError()
    for more in ({}, {"requires_member_id": False}, {"group_instance_id": "i"}):
        assert rig.join(**more).code == CoordinatorNotAvailableError.code
        assert not rig.shard.groups
        assert rig.deadline_of(("join", "g")) is None
        assert not any(key[0] == "session" for key in rig.timer_keys())


def test_reload_restarts_all_sessions(rig: GroupRig) -> None:
    """It could not send a heartbeat while the group had no coordinator."""
    first, second = rig.stable_group(2)
    rig.advance(9_999)
    rig.reload()
    rig.advance(9_999)
    assert rig.heartbeat(first, 2).code == 0
    assert second in group_of(rig).members
    rig.advance(1)
    assert second not in group_of(rig).members


def test_rebalance_interrupted_by_a_new_coordinator_restarts(rig: GroupRig) -> None:
    """Scenario 52: the new coordinator has the last complete generation, and the members rejoin."""
    first, second = rig.stable_group(2)
    interrupted = rig.join(first)
    rig.reload()
    assert not interrupted.waits
    assert rig.heartbeat(first, 2).code == 0
    joins = [rig.join(first), rig.join(second, protocols=(m.GroupProtocol("range", b"other"),))]
    assert {each.answer.generation_id for each in joins} == {3}


def test_decisions_of_a_deposed_coordinator_are_never_returned(rig: GroupRig) -> None:
    """Scenario 52: its assignments are in no log; the generation with the same number is another one."""
    first, second = joined_group(rig)
    rig.is_committing = False
    length = len(rig.log)
    leader = rig.sync(first, 1, assignments={first: b"1"})
    assert leader.waits
    del rig.log[length:]  # it was never committed, and the next leader does not have it
    rig.is_committing = True
    rig.reload()
    assert leader.code != 0
    assert group_of(rig).state is ClassicState.EMPTY
    assert rig.sync(second, 1).code == UnknownMemberIdError.code
