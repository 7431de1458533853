"""Groups that change their protocol while their members live (RELIABILITY scenario 55)."""

import pytest
from headrace.coordinators.group.classic_group import ClassicGroup
from headrace.coordinators.group.consumer_group import ConsumerGroup, GroupState
from headrace.protocol import errors
from headrace.protocol.consumer_protocol import Assignment, encode_assignment
from headrace.protocol.messages.groups import ConsumerGroupHeartbeatRequest, GroupProtocol, LeavingMember
from headrace.protocol.model import TopicPartition

from tests.fakes.consumer_group_rig import (
    GROUP,
    ConsumerGroupRig,
    SimClassicMember,
    SimMember,
    held_by,
    run,
    with_config,
)


@pytest.fixture
def rig() -> ConsumerGroupRig:
    rig = ConsumerGroupRig()
    rig.set_topics(events=6)
    return rig


def _new(rig: ConsumerGroupRig, member_id: str, **facts: object) -> SimMember:
    return SimMember(rig, member_id, ("events",), **facts)  # type: ignore[arg-type]


def _classic_pair(rig: ConsumerGroupRig, *, is_eager: bool = False) -> list[SimClassicMember]:
    pair = [SimClassicMember(rig, is_eager=is_eager) for _ in range(2)]
    run(*pair)
    assert rig.shard.groups[GROUP].state_name == "Stable"
    assert len(held_by(*pair)) == 6
    return pair


def _assert_shared(*members: SimMember | SimClassicMember, partitions: int = 6) -> None:
    held = held_by(*members)
    assert len(held) == partitions
    assert all(len(readers) == 1 for readers in held.values()), held


@pytest.mark.parametrize("is_eager", [False, True])
@pytest.mark.parametrize("reloads", [False, True])
def test_rolling_migration_to_the_new_protocol_and_back(
    rig: ConsumerGroupRig, *, is_eager: bool, reloads: bool
) -> None:
    """Members are replaced one by one; no partition has two owners."""
    members: list[SimMember | SimClassicMember] = list(_classic_pair(rig, is_eager=is_eager))

    def turn() -> None:
        for count in range(15):
            run(*members, rounds=1)
            assert all(len(readers) == 1 for readers in held_by(*members).values())
            if reloads and count < 5:
                rig.reload()
        _assert_shared(*members)

    members.append(_new(rig, "a"))
    turn()
    assert isinstance(rig.shard.groups[GROUP], ConsumerGroup)
    assert rig.group.state is GroupState.STABLE
    members.pop(0).leave()
    turn()
    members.append(_new(rig, "b"))
    members.pop(0).leave()
    turn()
    assert rig.group.state is GroupState.STABLE
    assert all(member.classic is None for member in rig.group.members.values())
    members.append(SimClassicMember(rig, is_eager=is_eager))
    turn()
    members.append(SimClassicMember(rig, is_eager=is_eager))
    turn()
    members.pop(0).leave()
    turn()
    assert isinstance(rig.shard.groups[GROUP], ConsumerGroup)
    members.pop(0).leave()
    turn()
    assert isinstance(rig.shard.groups[GROUP], ClassicGroup)


@pytest.mark.parametrize("fails_over", [False, True])
def test_lagging_classic_member_keeps_its_partitions_when_the_group_is_downgraded(
    rig: ConsumerGroupRig, *, fails_over: bool
) -> None:
    """Its epoch is older than the group's, which becomes the generation. It commits, learns of the rebalance
    from its next heartbeat or SyncGroup, and rejoins under its member id."""
    first, second = _classic_pair(rig, is_eager=True)
    third = _new(rig, "a")
    run(first, second, third)
    before = first.generation
    _new(rig, "b").beat()  # a new epoch, before the next heartbeat of the first member
    run(second, third)
    rig.beat(ConsumerGroupHeartbeatRequest(GROUP, "b", -1))
    assert rig.group.members[first.member_id].epoch == before < rig.group.epoch
    third.leave()
    rig.advance(0)
    group = rig.shard.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert before < group.generation
    if fails_over:
        rig.reload()
    place = ("events", min(first.owned["events"]))
    commit = rig.commit_offset(7, first.member_id, before, GROUP, place)
    assert commit.answer.results[0].error_code == 0
    again = errors.RebalanceInProgressError.code
    assert rig.sync(first.member_id, before, GROUP).code == again
    assert rig.heartbeat(first.member_id, before, GROUP).code == again
    never = errors.IllegalGenerationError.code
    assert rig.heartbeat(first.member_id, rig.shard.groups[GROUP].generation + 1, GROUP).code == never
    member_id = first.member_id
    run(first, second)
    _assert_shared(first, second)
    assert first.member_id == member_id
    assert rig.heartbeat(first.member_id, before, GROUP).code == never, "all have joined the next generation"


def test_migration_keeps_offsets(rig: ConsumerGroupRig) -> None:
    """Offsets committed by a classic member are fetched by the next member, and the other way round."""
    first, _ = _classic_pair(rig)
    rig.commit_offset(7, first.member_id, first.generation, GROUP, ("events", 0))
    third = _new(rig, "a")
    third.beat()
    assert rig.offsets(GROUP) == {("events", 0): 7}
    assert rig.commit_offset(8, "a", third.epoch, GROUP, ("events", 1)).answer.results[0].error_code == 0
    third.leave()
    rig.advance(0)
    assert isinstance(rig.shard.groups[GROUP], ClassicGroup)
    assert rig.offsets(GROUP) == {("events", 0): 7, ("events", 1): 8}


def test_waiting_joins_and_syncs_are_answered_on_migration(rig: ConsumerGroupRig) -> None:
    """Once, with REBALANCE_IN_PROGRESS."""
    first, second = _classic_pair(rig)
    rig.leave(LeavingMember(second.member_id), group=GROUP)
    second.member_id = ""
    join = rig.join("", GROUP, protocols=second.protocols(), requires_member_id=False)
    assert join.waits
    _new(rig, "a").beat()
    assert join.code == errors.RebalanceInProgressError.code
    assert isinstance(rig.shard.groups[GROUP], ConsumerGroup)
    assert rig.shard.close() == []
    first.step()
    assert first.must_join


def test_cooperative_member_keeps_its_partitions_in_a_rebalance(rig: ConsumerGroupRig) -> None:
    """The classic group has dropped its assignment and computes another one; the members still read."""
    first, second = _classic_pair(rig)
    rig.join("", GROUP, protocols=second.protocols(), requires_member_id=False)
    for each in (first, second):
        each.joining = rig.join(each.member_id, GROUP, protocols=each.protocols())
    rig.join("", GROUP, protocols=second.protocols(), requires_member_id=False)
    third = _new(rig, "a")
    third.beat()
    assert isinstance(rig.shard.groups[GROUP], ConsumerGroup)
    assert len(held_by(first, second)) == 6
    assert third.owned == {}, "both members still own their partitions"


def test_assignments_of_classic_members_wait_for_their_interval(rig: ConsumerGroupRig) -> None:
    """A classic member that joins meanwhile gets the last epoch and no partitions, and is not sent into
    another rebalance; then heartbeats tell all members of the next one (KIP-1263)."""
    first = _new(rig, "a")
    first.beat()
    with_config(rig, group_consumer_assignment_interval_ms=1_000)
    classic = SimClassicMember(rig)
    run(classic)
    assert not classic.must_join
    assert (classic.generation, classic.owned) == (1, {})
    assert (rig.group.epoch, rig.group.assignment_epoch) == (2, 1)
    assert rig.sync(classic.member_id, 1, GROUP).code == 0
    rig.advance(999)
    assert rig.heartbeat(classic.member_id, 1, GROUP).code == 0
    rig.advance(1)
    assert rig.group.assignment_epoch == 2
    assert rig.heartbeat(classic.member_id, 1, GROUP).code == errors.RebalanceInProgressError.code
    run(first, classic)
    assert len(classic.owned["events"]) == 3
    _assert_shared(first, classic)


def test_partitions_of_a_classic_member_that_left_wait_for_the_interval() -> None:
    """No native member is left whose heartbeat would assign: the others rejoin behind the interval."""
    rig = ConsumerGroupRig(
        group_consumer_assignment_interval_ms=1_000, group_consumer_migration_policy="upgrade"
    )
    rig.set_topics(events=6)
    first, second = _classic_pair(rig)
    native = _new(rig, "a")
    for _ in range(4):
        run(first, second, native)
        rig.advance(1_000)
    native.leave()
    rig.leave(LeavingMember(second.member_id), group=GROUP)
    for _ in range(4):
        run(first)
        rig.advance(1_000)
    assert len(first.owned["events"]) == 6


def test_classic_member_that_does_not_rejoin_is_removed(rig: ConsumerGroupRig) -> None:
    """It sends heartbeats only: after its rebalance timeout its partitions are free."""
    first, second = _classic_pair(rig)
    third = _new(rig, "a")
    third.beat()
    for _ in range(10):
        rig.advance(7_000)
        run(second, third, rounds=2)
        rig.heartbeat(first.member_id, first.generation, GROUP)
    assert set(rig.group.members) == {second.member_id, "a"}
    _assert_shared(second, third)


def test_classic_member_that_does_not_sync_is_removed(rig: ConsumerGroupRig) -> None:
    """It joined, but never requests its assignment."""
    third = _new(rig, "a")
    third.beat()
    classic = SimClassicMember(rig)
    classic.step()
    classic.joining = rig.join(classic.member_id, GROUP, protocols=classic.protocols())
    assert classic.joining.code == 0
    for _ in range(10):
        rig.advance(7_000)
        rig.heartbeat(classic.member_id, classic.joining.answer.generation_id, GROUP)
        third.beat()
    assert set(rig.group.members) == {"a"}


def test_classic_member_keeps_its_own_session_timeout(rig: ConsumerGroupRig) -> None:
    """Ten seconds, not the 45 of the new protocol."""
    first, second = _classic_pair(rig)
    third = _new(rig, "a")
    run(first, second, third)
    rig.advance(9_000)
    run(first, third, rounds=1)
    rig.advance(2_000)
    assert set(rig.group.members) == {first.member_id, "a"}


def test_failed_append_leaves_the_classic_group_unchanged(rig: ConsumerGroupRig) -> None:
    """Its members still have sessions, and must rejoin."""
    first, second = _classic_pair(rig)
    rig.refuses = errors.NotEnoughReplicasError("no")
    with pytest.raises(errors.CoordinatorNotAvailableError):
        _new(rig, "a").beat()
    rig.refuses = None
    rig.advance(0)
    assert rig.shard.groups[GROUP].state_name == "PreparingRebalance"
    run(first, second)
    _assert_shared(first, second)
    rig.advance(15_000)
    assert rig.shard.groups[GROUP].is_empty, "silent members of a classic group are taken out"


@pytest.mark.parametrize(
    ("policy", "goes_up", "goes_down"),
    [
        ("bidirectional", True, True),
        ("upgrade", True, False),
        ("downgrade", False, True),
        ("disabled", False, False),
    ],
)
def test_migration_policy_is_enforced(
    rig: ConsumerGroupRig, policy: str, *, goes_up: bool, goes_down: bool
) -> None:
    """A refused upgrade fails; a refused downgrade leaves classic members in the new group."""
    _classic_pair(rig)
    with_config(rig, group_consumer_migration_policy=policy)
    if not goes_up:
        with pytest.raises(errors.GroupIdNotFoundError):
            _new(rig, "a").beat()
        with_config(rig, group_consumer_migration_policy="upgrade")
    third = _new(rig, "a")
    third.beat()
    with_config(rig, group_consumer_migration_policy=policy)
    third.leave()
    rig.advance(0)
    assert isinstance(rig.shard.groups[GROUP], ClassicGroup if goes_down else ConsumerGroup)


@pytest.mark.parametrize(
    "changes", [{"protocol_type": "connect"}, {"protocols": (GroupProtocol("range", b"no subscription"),)}]
)
def test_other_protocol_types_stay_classic(rig: ConsumerGroupRig, changes: dict[str, object]) -> None:
    """Also unreadable subscriptions."""
    rig.join("", GROUP, requires_member_id=False, **changes)
    with pytest.raises(errors.GroupIdNotFoundError):
        _new(rig, "a").beat()
    assert isinstance(rig.shard.groups[GROUP], ClassicGroup)


def test_assignors_with_user_data_stay_classic(rig: ConsumerGroupRig) -> None:
    """The data would be lost."""
    member = SimClassicMember(rig)
    join = rig.join("", GROUP, protocols=member.protocols(), requires_member_id=False)
    rig.advance(0)
    member_id, generation = join.answer.member_id, join.answer.generation_id
    assignment = encode_assignment(Assignment(1, (), b"mine"))
    assert rig.sync(member_id, generation, GROUP, assignments={member_id: assignment}).code == 0
    with pytest.raises(errors.GroupIdNotFoundError):
        _new(rig, "a").beat()


def test_group_above_the_other_protocols_limit_does_not_migrate(rig: ConsumerGroupRig) -> None:
    """In both directions."""
    _classic_pair(rig)
    with_config(rig, group_consumer_max_size=1)
    with pytest.raises(errors.GroupIdNotFoundError):
        _new(rig, "a").beat()
    with_config(rig, group_consumer_max_size=10, group_max_size=1)
    third = _new(rig, "a")
    third.beat()
    third.leave()
    rig.advance(0)
    assert isinstance(rig.shard.groups[GROUP], ConsumerGroup)


def test_static_member_migrates_in_both_directions(rig: ConsumerGroupRig) -> None:
    """The newest member with an instance id replaces the other; the last one to return converts the group."""
    first, second = SimClassicMember(rig, instance_id="one"), SimClassicMember(rig, instance_id="two")
    run(first, second)
    old_id = second.member_id
    newer = _new(rig, "a", instance_id="two")
    run(first, newer)
    _assert_shared(first, newer)
    assert set(rig.group.members) == {first.member_id, "a"}
    code = rig.heartbeat(old_id, second.generation, GROUP, "two").code
    assert code == errors.FencedInstanceIdError.code
    back = SimClassicMember(rig, instance_id="two")
    run(first, back)
    _assert_shared(first, back)
    assert isinstance(rig.shard.groups[GROUP], ClassicGroup)
    with pytest.raises(errors.GroupIdNotFoundError):
        newer.send()


def test_classic_members_of_a_new_group_get_classic_errors(rig: ConsumerGroupRig) -> None:
    third = _new(rig, "a")
    third.beat()
    classic = SimClassicMember(rig)
    run(classic, third)
    member_id, generation = classic.member_id, classic.generation
    assert rig.heartbeat(member_id, generation + 1, GROUP).code == errors.IllegalGenerationError.code
    assert rig.heartbeat("a", third.epoch, GROUP).code == errors.UnknownMemberIdError.code
    assert rig.heartbeat("absent", 1, GROUP).code == errors.UnknownMemberIdError.code
    assert rig.heartbeat(member_id, generation, GROUP, "one").code == errors.UnknownMemberIdError.code
    sync = rig.sync(member_id, generation, GROUP, protocol_name="other")
    assert sync.code == errors.InconsistentGroupProtocolError.code
    other = (GroupProtocol("other", classic.protocols()[0].metadata),)
    assert rig.join("", GROUP, protocols=other).code == errors.InconsistentGroupProtocolError.code
    assert rig.join("", GROUP, protocol_type="connect").code == errors.InconsistentGroupProtocolError.code
    bad = (GroupProtocol("range", b"?"),)
    assert rig.join(member_id, GROUP, protocols=bad).code == errors.InvalidRequestError.code
    assert rig.join("", GROUP, session_timeout_ms=1).code == errors.InvalidSessionTimeoutError.code
    for changes in ({"rebalance_timeout_ms": 1 << 31}, {"member_id": "m" * 2049}, {"client_id": "c" * 2049}):
        asked = {"member_id": "", "group": GROUP, "protocols": classic.protocols()} | changes
        assert rig.join(**asked).code == errors.InvalidRequestError.code
    with_config(rig, group_consumer_max_size=2)
    full = rig.join("", GROUP, protocols=classic.protocols(), requires_member_id=False)
    assert full.code == errors.GroupMaxSizeReachedError.code
    left = rig.leave(LeavingMember("a"), LeavingMember(member_id), LeavingMember("", "one"), group=GROUP)
    assert [each.error_code for each in left.answer.members] == [25, 0, 25]
    assert set(rig.group.members) == {"a"}


def test_commits_of_classic_members_check_the_generation(rig: ConsumerGroupRig) -> None:
    """ILLEGAL_GENERATION, which their clients know, instead of STALE_MEMBER_EPOCH."""
    third, classic = _new(rig, "a"), SimClassicMember(rig)
    third.beat()
    run(classic, third)

    def code(member_id: str, epoch: int) -> int:
        asked = rig.commit_offset(1, member_id, epoch, GROUP, ("events", 0))
        answer = asked.answer
        return answer.code if isinstance(answer, errors.KafkaError) else answer.results[0].error_code

    assert code(classic.member_id, classic.generation) == 0
    assert code(classic.member_id, 99) == errors.IllegalGenerationError.code
    assert code("a", 99) == errors.StaleMemberEpochError.code


def test_unreadable_data_of_unused_assignors_is_accepted(rig: ConsumerGroupRig) -> None:
    """A custom assignor's data may be arbitrary bytes. When the session of the last new-protocol member
    expires, no request waits for an error: an exception would end every node that leads the partition in
    turn."""
    plain = SimClassicMember(rig)
    data = plain.protocols()[0].metadata
    protocols = (GroupProtocol("mine", b"?"), GroupProtocol("range", data))
    asked = {"requires_member_id": False, "session_timeout_ms": 1_800_000}
    first = rig.join("", GROUP, protocols=protocols, **asked)
    rig.join("", GROUP, protocols=protocols[1:], **asked)
    rig.advance(0)
    member_id, generation = first.answer.member_id, first.answer.generation_id
    share = encode_assignment(Assignment(1, (TopicPartition("events", 3),)))
    assert rig.sync(member_id, generation, GROUP, assignments={member_id: share}).code == 0
    _new(rig, "a").send()
    assert rig.group.members[member_id].classic is not None
    rig.advance(46_000)
    group = rig.shard.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.members[member_id].assignment
