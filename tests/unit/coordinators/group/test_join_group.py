"""JoinGroup: member ids, common protocols, the size of a group, and the end of the join phase."""

import pytest
from group_rig import START_MS, GroupRig
from headrace.coordinators.group.classic_group import ClassicGroup
from headrace.coordinators.group.classic_states import ClassicState
from headrace.coordinators.group.join_group import MAX_METADATA_BYTES, MAX_PENDING_JOINS, MAX_PROTOCOLS
from headrace.coordinators.group.rebalances import NEW_MEMBER_JOIN_TIMEOUT_MS
from headrace.protocol import errors
from headrace.protocol.messages import groups as m


def group_of(rig: GroupRig) -> ClassicGroup:
    group = rig.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    return group


def protocols(*names: str) -> tuple[m.GroupProtocol, ...]:
    return tuple(m.GroupProtocol(name, name.encode()) for name in names)


def test_dynamic_member_gets_a_member_id_first(rig: GroupRig) -> None:
    """MEMBER_ID_REQUIRED; the id begins with the client id, and no two are equal."""
    first, second = rig.join(client_id="a"), rig.join(client_id="b")
    assert [each.code for each in (first, second)] == [errors.MemberIdRequiredError.code] * 2
    assert first.answer.member_id.startswith("a-")
    assert second.answer.member_id.startswith("b-")
    assert first.answer.member_id[2:] != second.answer.member_id[2:]
    assert group_of(rig).state is ClassicState.EMPTY


def test_member_ids_of_the_next_coordinator_differ(rig: GroupRig) -> None:
    before = rig.join().answer.member_id
    rig.reload()
    assert rig.join().answer.member_id != before


def test_unused_member_id_expires_after_its_session(rig: GroupRig) -> None:
    """Else the group could never complete a rebalance."""
    (member,) = rig.stable_group()
    rig.join(session_timeout_ms=10_000)
    again = rig.join(member)
    assert again.waits
    rig.advance(9_999)
    assert again.waits
    rig.advance(1)
    assert again.code == 0


def test_unknown_member_id_is_refused(rig: GroupRig) -> None:
    """With and without a group."""
    assert rig.join("x").code == errors.UnknownMemberIdError.code
    assert not rig.shard.groups
    rig.stable_group()
    assert rig.join("x").code == errors.UnknownMemberIdError.code


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001])
def test_session_timeout_out_of_bounds_is_refused(rig: GroupRig, timeout_ms: int) -> None:
    assert rig.join(session_timeout_ms=timeout_ms).code == errors.InvalidSessionTimeoutError.code
    assert not rig.log


@pytest.mark.parametrize("more", [{"protocols": ()}, {"protocol_type": ""}])
def test_join_without_a_protocol_is_refused(rig: GroupRig, more: dict[str, object]) -> None:
    assert rig.join(**more).code == errors.InconsistentGroupProtocolError.code
    assert not rig.shard.groups


@pytest.mark.parametrize(
    "more",
    [
        {"rebalance_timeout_ms": -1},
        {"rebalance_timeout_ms": 2**31},
        {"group_instance_id": "i" * 2_049},
        {"client_id": "c" * 2_049},
        {"protocols": protocols("p" * 2_049)},
    ],
)
def test_join_larger_than_a_record_is_refused(more: dict[str, object]) -> None:
    """Else the group could never write its assignments."""
    assert GroupRig().join(**more).code == errors.InvalidRequestError.code


def test_member_without_a_common_protocol_is_refused(rig: GroupRig) -> None:
    """Another assignor, or another protocol type."""
    rig.stable_group()
    assert rig.join(protocols=protocols("sticky")).code == errors.InconsistentGroupProtocolError.code
    assert rig.join(protocol_type="connect").code == errors.InconsistentGroupProtocolError.code


def test_empty_group_may_change_its_protocol_type(rig: GroupRig) -> None:
    (member,) = rig.stable_group()
    rig.leave(m.LeavingMember(member))
    joined = rig.new_member(protocol_type="connect", protocols=protocols("default"))
    rig.advance(0)
    assert joined.answer.protocol_type == "connect"


def test_common_assignor_with_most_votes_is_chosen(rig: GroupRig) -> None:
    """Three votes among a and b; c is not supported by all members."""
    wants = [("c", "a", "b"), ("b", "a"), ("b", "a", "c")]
    joins = [rig.join(requires_member_id=False, protocols=protocols(*each)) for each in wants]
    rig.advance(0)
    assert [each.answer.protocol_name for each in joins] == ["b"] * 3
    assert joins[0].answer.members[0].metadata == b"b"


def test_only_the_leader_gets_the_member_list(rig: GroupRig) -> None:
    """The leader is the first member that joined."""
    joins = [rig.join(requires_member_id=False) for _ in range(3)]
    rig.advance(0)
    leader = joins[0].answer
    assert [len(each.answer.members) for each in joins] == [3, 0, 0]
    assert {each.answer.leader for each in joins} == {leader.member_id}
    assert {each.answer.generation_id for each in joins} == {1}


def test_initial_rebalance_delay_is_extended_by_new_members() -> None:
    """Up to the rebalance timeout."""
    rig = GroupRig(group_initial_rebalance_delay_ms=3_000)
    joins = [rig.join(requires_member_id=False, rebalance_timeout_ms=7_000)]
    rig.advance(2_999)
    for _ in range(2):
        joins.append(rig.join(requires_member_id=False, rebalance_timeout_ms=7_000))
        rig.advance(2_000)
        assert joins[0].waits
    assert rig.now_ms == START_MS + 6_999
    rig.advance(1)
    assert {each.answer.generation_id for each in joins} == {1}
    assert len(joins[0].answer.members) == 3


def test_initial_rebalance_ends_after_the_delay() -> None:
    """Not earlier, though all known members have joined."""
    rig = GroupRig(group_initial_rebalance_delay_ms=3_000)
    joined = rig.join(requires_member_id=False)
    rig.advance(2_999)
    assert joined.waits
    rig.advance(1)
    assert joined.code == 0


def test_member_that_does_not_rejoin_in_time_is_removed(rig: GroupRig) -> None:
    """The others complete a new generation."""
    first, second = rig.stable_group(2, session_timeout_ms=1_800_000)
    again = rig.join(first, session_timeout_ms=1_800_000)
    rig.advance(59_999)
    assert again.waits
    rig.advance(1)
    assert again.answer.generation_id == 3
    assert [each.member_id for each in again.answer.members] == [first]
    assert rig.heartbeat(second, 2).code == errors.UnknownMemberIdError.code


def test_first_rejoined_member_replaces_an_absent_leader(rig: GroupRig) -> None:
    """A generation needs a leader that assigns."""
    ids = rig.stable_group(3, session_timeout_ms=1_800_000)
    joins = [
        rig.join(each, session_timeout_ms=1_800_000, protocols=protocols("range")) for each in ids[:0:-1]
    ]
    rig.advance(60_000)
    assert {each.answer.leader for each in joins} == {ids[1]}


def test_repeated_join_replaces_the_first(rig: GroupRig) -> None:
    """The client has abandoned the first request; both are answered, and the member joins once."""
    first, second = rig.stable_group(2)
    abandoned = rig.join(first)
    waiting = rig.join(first)
    assert abandoned.code == errors.RebalanceInProgressError.code
    assert waiting.waits
    other = rig.join(second)
    assert (waiting.code, other.code) == (0, 0)
    assert len(waiting.answer.members) == 2


@pytest.mark.parametrize("is_stable", [False, True])
def test_unchanged_rejoin_of_a_follower_returns_its_generation(rig: GroupRig, is_stable: bool) -> None:
    """Its response was lost: the group does not rebalance."""
    first, second = rig.stable_group(2)
    if not is_stable:
        rig.join(first, protocols=protocols("range"))
        rig.join(second)
        assert group_of(rig).state is ClassicState.COMPLETING_REBALANCE
    generation = group_of(rig).generation
    again = rig.join(second)
    assert (again.answer.generation_id, again.answer.members) == (generation, ())


def test_changed_subscription_starts_a_rebalance(rig: GroupRig) -> None:
    first, second = rig.stable_group(2)
    changed = rig.join(second, protocols=protocols("range"))
    assert changed.waits
    assert rig.heartbeat(first, 2).code == errors.RebalanceInProgressError.code
    assert rig.join(first).answer.members[1].metadata == b"range"


def test_rejoin_of_the_leader_starts_a_rebalance(rig: GroupRig) -> None:
    """Topics have changed."""
    first, second = rig.stable_group(2)
    assert rig.join(first).waits
    assert rig.heartbeat(second, 2).code == errors.RebalanceInProgressError.code


def test_new_member_that_waits_too_long_is_removed(rig: GroupRig) -> None:
    """KAFKA-9752: it sends no heartbeats, so every rebalance would wait for it."""
    (member,) = rig.stable_group(session_timeout_ms=1_800_000, rebalance_timeout_ms=3_600_000)
    ghost = rig.join(requires_member_id=False)
    rig.advance(NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    assert ghost.waits
    rig.advance(1)
    assert ghost.code == errors.UnknownMemberIdError.code
    again = rig.join(member, session_timeout_ms=1_800_000)
    assert len(again.answer.members) == 1


def test_session_of_a_waiting_join_starts_with_its_response(rig: GroupRig) -> None:
    first, second = rig.stable_group(2)
    waiting = rig.join(first)
    for _ in range(5):
        rig.advance(9_000)
        assert rig.heartbeat(second, 2).code == errors.RebalanceInProgressError.code
    assert waiting.waits
    rig.join(second)
    assert waiting.code == 0
    rig.advance(9_999)
    assert group_of(rig).member_count == 2
    rig.advance(1)
    assert group_of(rig).member_count == 0


@pytest.mark.parametrize("is_stable", [False, True])
def test_full_group_refuses_new_members(is_stable: bool) -> None:
    """During a rebalance and when stable; known members are accepted."""
    rig = GroupRig(group_max_size=2)
    ids = rig.stable_group(2)
    if not is_stable:
        rig.join(ids[0])
        rig.join(ids[1], protocols=protocols("range"))
    refused = rig.join(requires_member_id=False)
    assert refused.code == errors.GroupMaxSizeReachedError.code
    assert group_of(rig).member_count == 2


def test_returning_static_member_is_accepted_by_a_full_group() -> None:
    rig = GroupRig(group_max_size=1)
    joined = rig.join(group_instance_id="i")
    rig.advance(0)
    rig.sync(joined.answer.member_id, 1)
    assert rig.join(group_instance_id="j").code == errors.GroupMaxSizeReachedError.code
    assert rig.join(group_instance_id="i").code == 0


def test_pending_member_ids_are_bounded(rig: GroupRig) -> None:
    """Until some of them are used or expire."""
    given = [rig.join().answer.member_id for _ in range(MAX_PENDING_JOINS)]
    assert rig.join().code == errors.GroupMaxSizeReachedError.code
    rig.join(given[0])
    assert rig.join().code == errors.MemberIdRequiredError.code
    rig.advance(10_000)
    assert not group_of(rig).pending_joins


def test_initial_rebalance_refuses_members_beyond_the_limit() -> None:
    """Waiting joins are counted."""
    rig = GroupRig(group_max_size=2, group_initial_rebalance_delay_ms=3_000)
    joins = [rig.join(requires_member_id=False) for _ in range(4)]
    assert [each.code for each in joins[2:]] == [errors.GroupMaxSizeReachedError.code] * 2
    rig.advance(6_000)
    assert [each.code for each in joins[:2]] == [0, 0]


def test_lowered_member_limit_refuses_the_last_to_rejoin() -> None:
    """A new coordinator lets all members rejoin, so that they can commit first."""
    rig = GroupRig(group_max_size=3)
    ids = rig.stable_group(3)
    rig.config = type(rig.config)(group_max_size=2, group_initial_rebalance_delay_ms=0)
    rig.reload()
    assert group_of(rig).state is ClassicState.PREPARING_REBALANCE
    joins = [rig.join(each) for each in ids]
    assert [each.code for each in joins] == [0, 0, errors.GroupMaxSizeReachedError.code]
    assert group_of(rig).member_count == 2


def test_generation_restarts_after_the_largest(rig: GroupRig) -> None:
    """It is an int32 in the record."""
    first, second = rig.stable_group(2)
    group_of(rig).generation = 2**31 - 1
    joins = [rig.join(first), rig.join(second)]
    assert {each.answer.generation_id for each in joins} == {1}


def test_waiting_joins_and_syncs_are_answered_when_the_shard_ends(rig: GroupRig) -> None:
    first, second = rig.stable_group(2)
    join = rig.join(first)
    rig.reload()
    assert join.code == errors.NotCoordinatorError.code
    assert rig.heartbeat(second, 2).code == 0


def test_closed_connection_removes_no_member(rig: GroupRig) -> None:
    """The session timeout decides, as for a lost response."""
    first, second = rig.stable_group(2)
    rig.join(first)
    outcome = rig.shard.on_peer_gone(1, rig.now)
    assert not outcome.answers
    assert not outcome.records
    assert rig.join(second).code == 0
    assert group_of(rig).member_count == 2
    rig.advance(10_000)
    assert group_of(rig).member_count == 0


@pytest.mark.parametrize(
    "response",
    [
        (m.GroupProtocol("range", bytes(MAX_METADATA_BYTES + 1)),),
        tuple(m.GroupProtocol(f"p{number}", b"") for number in range(MAX_PROTOCOLS + 1)),
    ],
)
def test_member_metadata_is_bounded(rig: GroupRig, response: tuple[m.GroupProtocol, ...]) -> None:
    """It is kept while the member waits, before a record could be too large for it."""
    assert rig.join(protocols=response).code == errors.InvalidRequestError.code
    assert not rig.shard.groups
    (member,) = rig.stable_group(protocols=(m.GroupProtocol("range", bytes(MAX_METADATA_BYTES)),))
    assert rig.heartbeat(member, 1).code == 0
