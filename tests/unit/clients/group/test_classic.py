"""The classic member, event by event: its requests, and its reaction to each response."""

from random import Random
from typing import Any

import pytest
from headrace.clients.cluster.backoff import Backoff
from headrace.clients.group import member
from headrace.clients.group.assignors import RangeAssignor, Topic
from headrace.clients.group.classic import ClassicMember
from headrace.clients.group.joining_io import checked_assignors
from headrace.clients.group.states import CLASSIC_TRANSITIONS, MODERN_TRANSITIONS, MemberState
from headrace.protocol import errors
from headrace.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from headrace.protocol.messages import groups
from headrace.protocol.messages.registry import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from headrace.protocol.model import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
CONFIG = member.MemberConfig("g", None, 10_000, 1_000, 60_000)
S = MemberState


def new(*assignors: Any, config: member.MemberConfig = CONFIG) -> ClassicMember:
    core = ClassicMember(config, checked_assignors(assignors or ("range",)), Backoff(100, 100, Random(1)))
    core.polled(0)
    core.subscribe(["t"])
    return core


def request(effects: Any, api: Any) -> Any:
    """The one question to the coordinator."""
    (found,) = [effect for effect in effects if isinstance(effect, member.SendRequest)]
    assert found.api is api
    return found


def follow(core: ClassicMember, now_ms: int, *partitions: TopicPartition, generation: int = 1) -> None:
    """Join as a follower and take a share over."""
    join = request(core.poll(now_ms), JOIN_GROUP)
    response = groups.JoinGroupResponse(0, generation, "consumer", join.request.protocols[0].name, "x", "me")
    sync = request(core.on_response(join, response, now_ms), SYNC_GROUP)
    core.on_response(sync, groups.SyncGroupResponse(0, assignment=assignment(*partitions)), now_ms)
    finish(core, now_ms)


def finish(core: ClassicMember, now_ms: int) -> list[member.OwnershipChange]:
    """The user's side does all there is to do, as long as the member does not join again."""
    done = []
    while core.pending is not None:
        done.append(core.begin())
        core.on_done(now_ms)
    return [work for work in done if work is not None]


def assignment(*partitions: TopicPartition) -> bytes:
    return encode_assignment(Assignment(3, partitions))


def test_join_sync_and_adoption_of_the_first_assignment() -> None:
    """The member id of the coordinator is used in the next JoinGroup; the consumer adopts the assignment."""
    core = new()
    first = request(core.poll(0), JOIN_GROUP)
    assert (first.request.member_id, first.request.session_timeout_ms) == ("", 10_000)
    result = decode_subscription(first.request.protocols[0].metadata)
    assert (result.topics, result.owned, result.generation_id) == (("t",), (), -1)
    given = groups.JoinGroupResponse(errors.MemberIdRequiredError.code, member_id="me")
    second = request(core.on_response(first, given, 0), JOIN_GROUP)
    assert second.request.member_id == "me"
    joined = groups.JoinGroupResponse(0, 1, "consumer", "range", "other", "me")
    sync = request(core.on_response(second, joined, 0), SYNC_GROUP)
    assert sync.request.assignments == ()
    assert not core.owned
    core.on_response(sync, groups.SyncGroupResponse(0, assignment=assignment(T1)), 0)
    assert finish(core, 0) == [member.OwnershipChange(member.ChangeKind.ASSIGNED, (T1,))]
    assert (core.state, core.owned, core.metadata.generation_id) == (S.STABLE, (T1,), 1)


def members(*names: str, owned: Any = ()) -> tuple[groups.JoinedMember, ...]:
    """All read topic t; the first one owns something."""
    found = []
    for name in names:
        result = Subscription(3, ("t",), owned=owned if name == names[0] else ())
        found.append(groups.JoinedMember(name, None, encode_subscription(result)))
    return tuple(found)


def lead(core: ClassicMember, protocol: str, everyone: Any, *, skips: bool = False) -> Any:
    join = request(core.poll(0), JOIN_GROUP)
    response = groups.JoinGroupResponse(0, 1, "consumer", protocol, "me", "me", everyone, skips)
    (assign_partitions,) = core.on_response(join, response, 0)
    assert isinstance(assign_partitions, member.AssignPartitions)
    return assign_partitions


def shares_of(sync: Any) -> dict[str, Any]:
    return {
        each.member_id: decode_assignment(each.assignment).partitions for each in sync.request.assignments
    }


def test_leader_assigns_and_rejoins_when_partition_counts_change() -> None:
    """The request has all members; unchanged partition counts cause no rebalance."""
    core = new()
    assign_partitions = lead(core, "range", members("me", "x"))
    assert assign_partitions.topics == ("t",)
    sync = request(core.assign_partitions(1, {"t": Topic(3)}, 0), SYNC_GROUP)
    assert shares_of(sync) == {"me": (T0, T1), "x": (TopicPartition("t", 2),)}
    core.on_response(sync, groups.SyncGroupResponse(0, assignment=assignment(T0)), 0)
    finish(core, 0)
    core.topics_changed({"t": 3, "u": 9}, {})
    assert core.state is S.STABLE
    assert core.poll(1) == ()
    core.topics_changed({"t": 4}, {})
    core.poll(2)
    assert core.pending == member.OwnershipChange(member.ChangeKind.REVOKED, (T0,))


def test_leader_with_skip_assignment_only_watches_topics() -> None:
    """KIP-814: a static leader that returns sends no assignments, but watches the topics of the group."""
    core = new()
    lead(core, "range", members("me"), skips=True)
    sync = request(core.assign_partitions(1, {"t": Topic(1)}, 0), SYNC_GROUP)
    assert sync.request.assignments == ()
    core.on_response(sync, groups.SyncGroupResponse(0, assignment=assignment(T0)), 0)
    finish(core, 0)
    core.topics_changed({"t": 2}, {})
    core.poll(0)
    assert core.state is S.REVOKING


class Naughty(RangeAssignor):
    """Returns or raises what the test gave it."""

    name = "naughty"

    def __init__(self, assignments: Any, *, is_cooperative: bool = False) -> None:
        self._shares, self.is_cooperative = assignments, is_cooperative

    def assign(self, topics: Any, members: Any) -> Any:
        if isinstance(self._shares, Exception):
            raise self._shares
        return self._shares


@pytest.mark.parametrize(
    "assignments",
    [
        {"absent": [T0]},
        {"me": [TopicPartition("u", 0)]},
        {"me": [TopicPartition("t", 9)]},
        {"me": [T0], "x": [T0]},
        ZeroDivisionError("oops"),
    ],
)
def test_invalid_assignments_are_raised_by_poll(assignments: Any) -> None:
    """The member leaves, so that another one can lead; it joins again after the error was raised."""
    core = new(Naughty(assignments))
    lead(core, "naughty", members("me", "x"))
    leaving = request(core.assign_partitions(1, {"t": Topic(2)}, 0), LEAVE_GROUP)
    assert leaving.request.members[0].member_id == "me"
    assert core.state is S.FAILED
    assert "naughty" in str(core.error)
    assert core.poll(99_000) == ()
    assert core.next_due_ms() is None
    core.error_raised()
    request(core.poll(99_000), JOIN_GROUP)


def test_cooperative_transfer_waits_for_the_revocation() -> None:
    """A partition that another member owns is not assigned in this generation."""
    core = new(Naughty({"x": [T0, T1]}, is_cooperative=True))
    lead(core, "naughty", members("me", "x", owned=(T0,)))
    sync = request(core.assign_partitions(1, {"t": Topic(2)}, 0), SYNC_GROUP)
    assert shares_of(sync) == {"me": (), "x": (T1,)}


@pytest.mark.parametrize(
    ("mine", "other", "given"), [(3, 4, ()), (4, 3, (T0,)), (4, 4, ()), (4, -1, ()), (-1, 4, ())]
)
def test_claims_of_an_older_generation_do_not_count(mine: int, other: int, given: Any) -> None:
    """A static member that returns claims its former partitions; the claim of a later generation wins."""
    result = [Subscription(3, ("t",), owned=(T0,), generation_id=generation) for generation in (mine, other)]
    everyone = [
        groups.JoinedMember(name, None, encode_subscription(each))
        for name, each in zip(("me", "x"), result, strict=True)
    ]
    core = new(Naughty({"me": [T0]}, is_cooperative=True))
    lead(core, "naughty", tuple(everyone))
    sync = request(core.assign_partitions(1, {"t": Topic(1)}, 0), SYNC_GROUP)
    assert shares_of(sync) == {"me": given, "x": ()}


def test_eager_members_revoke_all_before_they_rejoin() -> None:
    """At the next poll, with heartbeats meanwhile; a change that has begun is not replaced."""
    core = new()
    follow(core, 0, T0, T1)
    beat = request(core.poll(1_000), HEARTBEAT)
    rebalance = groups.HeartbeatResponse(errors.RebalanceInProgressError.code)
    assert core.on_response(beat, rebalance, 1_000) == ()
    assert (core.state, core.pending) == (
        S.REVOKING,
        member.OwnershipChange(member.ChangeKind.REVOKED, (T0, T1)),
    )
    assert core.owned == (T0, T1)
    again = request(core.poll(2_000), HEARTBEAT)
    core.on_response(again, rebalance, 2_000)
    assert core.pending == core.begin()
    join = request(core.on_done(2_500), JOIN_GROUP)
    assert decode_subscription(join.request.protocols[0].metadata).owned == ()
    assert core.metadata.generation_id == 1, "the member stays until the next generation"


def test_cooperative_members_keep_their_partitions_and_join_twice() -> None:
    """They join with all owned partitions, and once more after the revocation."""
    core = new("cooperative-sticky")
    follow(core, 0, T0, T1)
    beat = request(core.poll(1_000), HEARTBEAT)
    join = request(core.on_response(beat, groups.HeartbeatResponse(27), 1_000), JOIN_GROUP)
    result = decode_subscription(join.request.protocols[0].metadata)
    assert (result.owned, result.generation_id) == ((T0, T1), 1)
    response = groups.JoinGroupResponse(0, 2, "consumer", "cooperative-sticky", "x", "me")
    sync = request(core.on_response(join, response, 1_000), SYNC_GROUP)
    core.on_response(sync, groups.SyncGroupResponse(0, assignment=assignment(T1)), 1_000)
    assert core.begin() == member.OwnershipChange(member.ChangeKind.REVOKED, (T0,))
    core.on_done(1_000)
    assert core.begin() == member.OwnershipChange(member.ChangeKind.ASSIGNED, ())
    join = request(core.on_done(1_000), JOIN_GROUP)
    assert decode_subscription(join.request.protocols[0].metadata).owned == (T1,)


@pytest.mark.parametrize("error", [errors.UnknownMemberIdError, errors.IllegalGenerationError])
def test_removed_member_loses_its_partitions_and_rejoins(error: Any) -> None:
    """Any pending change is replaced by the loss; then the member joins with a new id."""
    core = new()
    follow(core, 0, T0)
    core.enforce_rebalance("the user")
    core.poll(0)
    assert core.pending == member.OwnershipChange(member.ChangeKind.REVOKED, (T0,))
    beat = request(core.poll(1_000), HEARTBEAT)
    core.on_response(beat, groups.HeartbeatResponse(error.code), 1_000)
    assert core.pending == member.OwnershipChange(member.ChangeKind.LOST, (T0,))
    assert core.metadata == ("g", -1, "", None)
    core.begin()
    join = request(core.on_done(1_000), JOIN_GROUP)
    assert join.request.member_id == ""


@pytest.mark.parametrize("error", [errors.UnknownMemberIdError, errors.IllegalGenerationError])
def test_member_removed_before_its_first_adoption_rejoins(error: Any) -> None:
    """It owns nothing yet, so it loses nothing."""
    core = new()
    join = request(core.poll(0), JOIN_GROUP)
    response = groups.JoinGroupResponse(0, 1, "consumer", "range", "x", "me")
    sync = request(core.on_response(join, response, 0), SYNC_GROUP)
    core.on_response(sync, groups.SyncGroupResponse(0, assignment=assignment(T0)), 0)
    beat = request(core.poll(1_000), HEARTBEAT)
    join = request(core.on_response(beat, groups.HeartbeatResponse(error.code), 1_000), JOIN_GROUP)
    assert join.request.member_id == ""
    assert core.pending is None


@pytest.mark.parametrize("error", [errors.UnknownMemberIdError, errors.IllegalGenerationError])
def test_late_error_of_a_heartbeat_does_not_end_the_next_generation(error: Any) -> None:
    """The heartbeat was resent behind the JoinGroup: in Kafka, too, its error counts for its generation."""
    core = new()
    follow(core, 0, T0)
    beat = request(core.poll(1_000), HEARTBEAT)
    core.enforce_rebalance("the user")
    core.poll(1_000)
    core.begin()
    join = request(core.on_done(1_000), JOIN_GROUP)
    response = groups.JoinGroupResponse(0, 2, "consumer", "range", "x", "me")
    sync = request(core.on_response(join, response, 1_000), SYNC_GROUP)
    core.on_response(sync, groups.SyncGroupResponse(0, assignment=assignment(T1)), 1_000)
    finish(core, 1_000)
    core.on_response(beat, groups.HeartbeatResponse(error.code), 1_000)
    assert (core.state, core.owned, core.metadata.generation_id) == (S.STABLE, (T1,), 2)
    next_beat = request(core.poll(2_000), HEARTBEAT)
    core.on_response(next_beat, groups.HeartbeatResponse(error.code), 2_000)
    assert core.pending == member.OwnershipChange(member.ChangeKind.LOST, (T1,))


def test_adoption_that_has_begun_ends_before_the_loss() -> None:
    """The partitions that are being adopted are lost afterwards."""
    core = new()
    join = request(core.poll(0), JOIN_GROUP)
    response = groups.JoinGroupResponse(0, 1, "consumer", "range", "x", "me")
    sync = request(core.on_response(join, response, 0), SYNC_GROUP)
    core.on_response(sync, groups.SyncGroupResponse(0, assignment=assignment(T0)), 0)
    assert core.begin() == member.OwnershipChange(member.ChangeKind.ASSIGNED, (T0,))
    core.commit_rejected(errors.UnknownMemberIdError(), 0)
    assert core.pending == member.OwnershipChange(member.ChangeKind.ASSIGNED, (T0,))
    core.on_done(0)
    assert core.pending == member.OwnershipChange(member.ChangeKind.LOST, (T0,))


def test_responses_of_an_earlier_membership_are_ignored() -> None:
    """After `unsubscribe` and a new subscription."""
    core = new()
    join = request(core.poll(0), JOIN_GROUP)
    assert core.unsubscribe(leave=True, reason="") == (), "it had not joined yet"
    core.subscribe(["t"])
    fresh = request(core.poll(0), JOIN_GROUP)
    late = groups.JoinGroupResponse(0, 5, "consumer", "range", "x", "me")
    assert core.on_response(join, late, 0) == ()
    assert core.on_failure(join, errors.NetworkError(), 0) == ()
    assert core.state is S.JOINING
    assert fresh is not join


def test_failures_make_the_member_find_the_coordinator_again() -> None:
    """After each failure, and after a session timeout without responses; not while the coordinator loads."""
    core = new()
    join = request(core.poll(0), JOIN_GROUP)
    assert core.on_failure(join, errors.NetworkError(), 0) == (member.ForgetCoordinator(),)
    assert core.poll(1) == ()
    due = core.next_due_ms()
    assert due is not None
    join = request(core.poll(due), JOIN_GROUP)
    loading = groups.JoinGroupResponse(errors.CoordinatorLoadInProgressError.code)
    assert core.on_response(join, loading, 200) == ()
    core = new()
    follow(core, 0, T0)
    effects = core.poll(10_000)
    assert isinstance(effects[0], member.ForgetCoordinator)
    request(effects, HEARTBEAT)


def test_member_leaves_without_polls() -> None:
    """After the next poll it joins again, with its partitions lost."""
    core = new()
    follow(core, 0, T0)
    assert core.next_due_ms() is not None
    request(core.poll(60_000), LEAVE_GROUP)
    assert (core.state, core.next_due_ms()) == (S.LATE, None)
    assert core.owned == (T0,)
    core.polled(90_000)
    assert core.pending == member.OwnershipChange(member.ChangeKind.LOST, (T0,))


def test_static_members_send_no_leave_group_by_themselves() -> None:
    """Neither after max.poll.interval.ms nor after an error; `close(leave=True)` sends the instance id."""
    core = new(config=CONFIG._replace(group_instance_id="i"))
    join = request(core.poll(0), JOIN_GROUP)
    assert join.request.group_instance_id == "i"
    response = groups.JoinGroupResponse(0, 1, "consumer", "range", "x", "me")
    sync = request(core.on_response(join, response, 0), SYNC_GROUP)
    core.on_response(sync, groups.SyncGroupResponse(0, assignment=assignment(T0)), 0)
    finish(core, 0)
    assert core.poll(60_000) == ()
    assert core.state is S.LATE
    core = new(config=CONFIG._replace(group_instance_id="i"))
    core.poll(0)
    core.member_id, core.generation_id = "me", 1
    leaving = request(core.unsubscribe(leave=True, reason="closed"), LEAVE_GROUP)
    assert leaving.request.members == (groups.LeavingMember("me", "i", "closed"),)


def test_fenced_instance_stays_fenced() -> None:
    """Each poll raises the error again."""
    core = new(config=CONFIG._replace(group_instance_id="i"))
    join = request(core.poll(0), JOIN_GROUP)
    assert core.on_response(join, groups.JoinGroupResponse(errors.FencedInstanceIdError.code), 0) == ()
    for _ in range(2):
        assert isinstance(core.error, errors.FencedInstanceIdError)
        core.error_raised()
        assert core.poll(10**9) == ()


GARBAGE = groups.JoinedMember("x", None, b"\xff")


@pytest.mark.parametrize(
    "response",
    [
        groups.JoinGroupResponse(0, 1, "connect", "range", "x", "me"),
        groups.JoinGroupResponse(0, 1, "consumer", "unknown", "x", "me"),
        groups.JoinGroupResponse(0, 1, "consumer", "range", "me", "me", (GARBAGE,)),
    ],
)
def test_invalid_join_responses_are_raised(response: Any) -> None:
    """Another protocol type, an assignor that was not offered, member metadata that cannot be decoded."""
    core = new()
    join = request(core.poll(0), JOIN_GROUP)
    core.on_response(join, response, 0)
    assert core.state is S.FAILED
    assert core.error is not None


def test_invalid_assignment_bytes_are_raised() -> None:
    """The leader may be another kind of client."""
    core = new()
    join = request(core.poll(0), JOIN_GROUP)
    response = groups.JoinGroupResponse(0, 1, "consumer", "range", "x", "me")
    sync = request(core.on_response(join, response, 0), SYNC_GROUP)
    core.on_response(sync, groups.SyncGroupResponse(0, assignment=b"\0\1\xff"), 0)
    assert isinstance(core.error, errors.InvalidRequestError)


@pytest.mark.parametrize("table", [CLASSIC_TRANSITIONS, MODERN_TRANSITIONS])
def test_every_state_can_be_reached_and_left(table: Any) -> None:
    """Unsubscribing leads from each state to UNJOINED."""
    for state, targets in table.items():
        assert state not in targets
        assert targets.keys() <= table.keys()
        assert state is S.UNJOINED or S.UNJOINED in targets
    reached = {target for targets in table.values() for target in targets}
    assert reached == set(table)
