"""The classic member, step by step: what it asks, what it makes of every answer."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from headrace.clients.cluster.backoff import Backoff
from headrace.clients.group.assignors import RangeAssignor, Topic
from headrace.clients.group.classic import ClassicMember
from headrace.clients.group.joining_io import checked_assignors
from headrace.clients.group.member import Ask, Divide, Forget, MemberConfig, Work, WorkKind
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
CONFIG = MemberConfig("g", None, 10_000, 1_000, 60_000)
S = MemberState


def new(*assignors: Any, config: MemberConfig = CONFIG) -> ClassicMember:
    core = ClassicMember(config, checked_assignors(assignors or ("range",)), Backoff(100, 100, Random(1)))
    core.polled(0)
    core.subscribe(["t"])
    return core


def asked(effects: Any, api: Any) -> Any:
    """The one question to the coordinator."""
    (found,) = [effect for effect in effects if isinstance(effect, Ask)]
    assert found.api is api
    return found


def follow(core: ClassicMember, now_ms: int, *partitions: TopicPartition, generation: int = 1) -> None:
    """Join as a follower and take a share over."""
    join = asked(core.poll(now_ms), JOIN_GROUP)
    answer = groups.JoinGroupResponse(0, generation, "consumer", join.request.protocols[0].name, "x", "me")
    sync = asked(core.on_answer(join, answer, now_ms), SYNC_GROUP)
    core.on_answer(sync, groups.SyncGroupResponse(0, assignment=share(*partitions)), now_ms)
    finish(core, now_ms)


def finish(core: ClassicMember, now_ms: int) -> list[Work]:
    """The user's side does all there is to do, as long as the member does not join again."""
    done = []
    while core.work is not None:
        done.append(core.begin())
        core.on_done(now_ms)
    return [work for work in done if work is not None]


def share(*partitions: TopicPartition) -> bytes:
    return encode_assignment(Assignment(3, partitions))


def test_joining_begins_with_an_id_and_ends_with_a_share() -> None:
    """The id that the coordinator gives is used at once; the user takes the share over."""
    core = new()
    first = asked(core.poll(0), JOIN_GROUP)
    assert (first.request.member_id, first.request.session_timeout_ms) == ("", 10_000)
    told = decode_subscription(first.request.protocols[0].metadata)
    assert (told.topics, told.owned, told.generation_id) == (("t",), (), -1)
    given = groups.JoinGroupResponse(errors.MemberIdRequiredError.code, member_id="me")
    second = asked(core.on_answer(first, given, 0), JOIN_GROUP)
    assert second.request.member_id == "me"
    joined = groups.JoinGroupResponse(0, 1, "consumer", "range", "other", "me")
    sync = asked(core.on_answer(second, joined, 0), SYNC_GROUP)
    assert sync.request.assignments == ()
    assert not core.owned
    core.on_answer(sync, groups.SyncGroupResponse(0, assignment=share(T1)), 0)
    assert finish(core, 0) == [Work(WorkKind.ASSIGNED, (T1,))]
    assert (core.state, core.owned, core.metadata.generation_id) == (S.STABLE, (T1,), 1)


def members(*names: str, owned: Any = ()) -> tuple[groups.JoinedMember, ...]:
    """All read topic t; the first one owns something."""
    found = []
    for name in names:
        told = Subscription(3, ("t",), owned=owned if name == names[0] else ())
        found.append(groups.JoinedMember(name, None, encode_subscription(told)))
    return tuple(found)


def lead(core: ClassicMember, protocol: str, everyone: Any, *, skips: bool = False) -> Any:
    join = asked(core.poll(0), JOIN_GROUP)
    answer = groups.JoinGroupResponse(0, 1, "consumer", protocol, "me", "me", everyone, skips)
    (divide,) = core.on_answer(join, answer, 0)
    assert isinstance(divide, Divide)
    return divide


def shares_of(sync: Any) -> dict[str, Any]:
    return {
        each.member_id: decode_assignment(each.assignment).partitions for each in sync.request.assignments
    }


def test_the_leader_shares_out_and_again_when_topics_grow() -> None:
    """All members are named; the same counts are no news."""
    core = new()
    divide = lead(core, "range", members("me", "x"))
    assert divide.topics == ("t",)
    sync = asked(core.divide(1, {"t": Topic(3)}, 0), SYNC_GROUP)
    assert shares_of(sync) == {"me": (T0, T1), "x": (TopicPartition("t", 2),)}
    core.on_answer(sync, groups.SyncGroupResponse(0, assignment=share(T0)), 0)
    finish(core, 0)
    core.topics_changed({"t": 3, "u": 9}, {})
    assert core.state is S.STABLE
    assert core.poll(1) == ()
    core.topics_changed({"t": 4}, {})
    core.poll(2)
    assert core.work == Work(WorkKind.REVOKED, (T0,))


def test_a_leader_that_skips_shares_nothing_out_but_watches() -> None:
    """KIP-814."""
    core = new()
    lead(core, "range", members("me"), skips=True)
    sync = asked(core.divide(1, {"t": Topic(1)}, 0), SYNC_GROUP)
    assert sync.request.assignments == ()
    core.on_answer(sync, groups.SyncGroupResponse(0, assignment=share(T0)), 0)
    finish(core, 0)
    core.topics_changed({"t": 2}, {})
    core.poll(0)
    assert core.state is S.REVOKING


class Naughty(RangeAssignor):
    """Does what it is told to."""

    name = "naughty"

    def __init__(self, shares: Any, *, is_cooperative: bool = False) -> None:
        self._shares, self.is_cooperative = shares, is_cooperative

    def assign(self, topics: Any, members: Any) -> Any:
        if isinstance(self._shares, Exception):
            raise self._shares
        return self._shares


@pytest.mark.parametrize(
    "shares",
    [
        {"nobody": [T0]},
        {"me": [TopicPartition("u", 0)]},
        {"me": [TopicPartition("t", 9)]},
        {"me": [T0], "x": [T0]},
        ZeroDivisionError("oops"),
    ],
)
def test_what_an_assignor_may_not_do_is_told_to_the_user(shares: Any) -> None:
    """And the member leaves, so that another may lead; it comes back when the user has heard it."""
    core = new(Naughty(shares))
    lead(core, "naughty", members("me", "x"))
    leaving = asked(core.divide(1, {"t": Topic(2)}, 0), LEAVE_GROUP)
    assert leaving.request.members[0].member_id == "me"
    assert core.state is S.FAILED
    assert "naughty" in str(core.error)
    assert core.poll(99_000) == ()
    assert core.next_due_ms() is None
    core.heard_error()
    asked(core.poll(99_000), JOIN_GROUP)


def test_a_cooperative_assignor_cannot_give_away_what_others_have() -> None:
    """Not before they gave it up."""
    core = new(Naughty({"x": [T0, T1]}, is_cooperative=True))
    lead(core, "naughty", members("me", "x", owned=(T0,)))
    sync = asked(core.divide(1, {"t": Topic(2)}, 0), SYNC_GROUP)
    assert shares_of(sync) == {"me": (), "x": (T1,)}


@pytest.mark.parametrize(
    ("mine", "other", "given"), [(3, 4, ()), (4, 3, (T0,)), (4, 4, ()), (4, -1, ()), (-1, 4, ())]
)
def test_an_old_claim_takes_nothing_from_who_has_it_now(mine: int, other: int, given: Any) -> None:
    """A static member that is away still claims what it had when it joined last; whoever claims it of a later
    generation has it. A client that does not say of which generation has it, for all that is known."""
    told = [Subscription(3, ("t",), owned=(T0,), generation_id=generation) for generation in (mine, other)]
    everyone = [
        groups.JoinedMember(name, None, encode_subscription(each))
        for name, each in zip(("me", "x"), told, strict=True)
    ]
    core = new(Naughty({"me": [T0]}, is_cooperative=True))
    lead(core, "naughty", tuple(everyone))
    sync = asked(core.divide(1, {"t": Topic(1)}, 0), SYNC_GROUP)
    assert shares_of(sync) == {"me": given, "x": ()}


def test_eager_members_give_up_everything_before_they_join_again() -> None:
    """When the user comes, and beat meanwhile; nothing happens to work that has begun."""
    core = new()
    follow(core, 0, T0, T1)
    beat = asked(core.poll(1_000), HEARTBEAT)
    rebalance = groups.HeartbeatResponse(errors.RebalanceInProgressError.code)
    assert core.on_answer(beat, rebalance, 1_000) == ()
    assert (core.state, core.work) == (S.REVOKING, Work(WorkKind.REVOKED, (T0, T1)))
    assert core.owned == (T0, T1)
    again = asked(core.poll(2_000), HEARTBEAT)
    core.on_answer(again, rebalance, 2_000)
    assert core.work == core.begin()
    join = asked(core.on_done(2_500), JOIN_GROUP)
    assert decode_subscription(join.request.protocols[0].metadata).owned == ()
    assert core.metadata.generation_id == 1, "it is a member until the next generation"


def test_cooperative_members_keep_what_they_have_and_join_twice() -> None:
    """Once with all, and once more after what others get was given up."""
    core = new("cooperative-sticky")
    follow(core, 0, T0, T1)
    beat = asked(core.poll(1_000), HEARTBEAT)
    join = asked(core.on_answer(beat, groups.HeartbeatResponse(27), 1_000), JOIN_GROUP)
    told = decode_subscription(join.request.protocols[0].metadata)
    assert (told.owned, told.generation_id) == ((T0, T1), 1)
    answer = groups.JoinGroupResponse(0, 2, "consumer", "cooperative-sticky", "x", "me")
    sync = asked(core.on_answer(join, answer, 1_000), SYNC_GROUP)
    core.on_answer(sync, groups.SyncGroupResponse(0, assignment=share(T1)), 1_000)
    assert core.begin() == Work(WorkKind.REVOKED, (T0,))
    core.on_done(1_000)
    assert core.begin() == Work(WorkKind.ASSIGNED, ())
    join = asked(core.on_done(1_000), JOIN_GROUP)
    assert decode_subscription(join.request.protocols[0].metadata).owned == (T1,)


@pytest.mark.parametrize("error", [errors.UnknownMemberIdError, errors.IllegalGenerationError])
def test_who_is_no_member_any_more_has_lost_what_it_had(error: Any) -> None:
    """Whatever work was to be done; then it joins as a new one."""
    core = new()
    follow(core, 0, T0)
    core.enforce_rebalance("the user")
    core.poll(0)
    assert core.work == Work(WorkKind.REVOKED, (T0,))
    beat = asked(core.poll(1_000), HEARTBEAT)
    core.on_answer(beat, groups.HeartbeatResponse(error.code), 1_000)
    assert core.work == Work(WorkKind.LOST, (T0,))
    assert core.metadata == ("g", -1, "", None)
    core.begin()
    join = asked(core.on_done(1_000), JOIN_GROUP)
    assert join.request.member_id == ""


@pytest.mark.parametrize("error", [errors.UnknownMemberIdError, errors.IllegalGenerationError])
def test_who_is_no_member_any_more_before_the_first_share_is_taken_joins_anew(error: Any) -> None:
    """Nothing is owned yet, so nothing is lost."""
    core = new()
    join = asked(core.poll(0), JOIN_GROUP)
    answer = groups.JoinGroupResponse(0, 1, "consumer", "range", "x", "me")
    sync = asked(core.on_answer(join, answer, 0), SYNC_GROUP)
    core.on_answer(sync, groups.SyncGroupResponse(0, assignment=share(T0)), 0)
    beat = asked(core.poll(1_000), HEARTBEAT)
    join = asked(core.on_answer(beat, groups.HeartbeatResponse(error.code), 1_000), JOIN_GROUP)
    assert join.request.member_id == ""
    assert core.work is None


def test_what_the_user_has_begun_goes_on_when_all_is_lost() -> None:
    """And what it took over is given up then."""
    core = new()
    join = asked(core.poll(0), JOIN_GROUP)
    answer = groups.JoinGroupResponse(0, 1, "consumer", "range", "x", "me")
    sync = asked(core.on_answer(join, answer, 0), SYNC_GROUP)
    core.on_answer(sync, groups.SyncGroupResponse(0, assignment=share(T0)), 0)
    assert core.begin() == Work(WorkKind.ASSIGNED, (T0,))
    core.refused(errors.UnknownMemberIdError(), 0)
    assert core.work == Work(WorkKind.ASSIGNED, (T0,))
    core.on_done(0)
    assert core.work == Work(WorkKind.LOST, (T0,))


def test_answers_of_another_life_change_nothing() -> None:
    """After unsubscribing and subscribing anew."""
    core = new()
    join = asked(core.poll(0), JOIN_GROUP)
    assert core.unsubscribe(leave=True, reason="") == (), "it was no member yet"
    core.subscribe(["t"])
    fresh = asked(core.poll(0), JOIN_GROUP)
    late = groups.JoinGroupResponse(0, 5, "consumer", "range", "x", "me")
    assert core.on_answer(join, late, 0) == ()
    assert core.on_failure(join, errors.NetworkError(), 0) == ()
    assert core.state is S.JOINING
    assert fresh is not join


def test_a_coordinator_that_is_gone_is_looked_for_after_a_while() -> None:
    """After each failure, and when it is silent for the session; while it loads, it is the right one."""
    core = new()
    join = asked(core.poll(0), JOIN_GROUP)
    assert core.on_failure(join, errors.NetworkError(), 0) == (Forget(),)
    assert core.poll(1) == ()
    due = core.next_due_ms()
    assert due is not None
    join = asked(core.poll(due), JOIN_GROUP)
    loading = groups.JoinGroupResponse(errors.CoordinatorLoadInProgressError.code)
    assert core.on_answer(join, loading, 200) == ()
    core = new()
    follow(core, 0, T0)
    effects = core.poll(10_000)
    assert isinstance(effects[0], Forget)
    asked(effects, HEARTBEAT)


def test_a_user_that_does_not_come_makes_the_member_leave() -> None:
    """It goes on when the user is back, and then all was lost."""
    core = new()
    follow(core, 0, T0)
    assert core.next_due_ms() is not None
    asked(core.poll(60_000), LEAVE_GROUP)
    assert (core.state, core.next_due_ms()) == (S.LATE, None)
    assert core.owned == (T0,)
    core.polled(90_000)
    assert core.work == Work(WorkKind.LOST, (T0,))


def test_static_members_do_not_leave_by_themselves() -> None:
    """Neither late nor refused; closing with `leave` names the instance."""
    core = new(config=CONFIG._replace(group_instance_id="i"))
    join = asked(core.poll(0), JOIN_GROUP)
    assert join.request.group_instance_id == "i"
    answer = groups.JoinGroupResponse(0, 1, "consumer", "range", "x", "me")
    sync = asked(core.on_answer(join, answer, 0), SYNC_GROUP)
    core.on_answer(sync, groups.SyncGroupResponse(0, assignment=share(T0)), 0)
    finish(core, 0)
    assert core.poll(60_000) == ()
    assert core.state is S.LATE
    core = new(config=CONFIG._replace(group_instance_id="i"))
    core.poll(0)
    core.member_id, core.generation_id = "me", 1
    leaving = asked(core.unsubscribe(leave=True, reason="closed"), LEAVE_GROUP)
    assert leaving.request.members == (groups.LeavingMember("me", "i", "closed"),)


def test_being_fenced_is_final() -> None:
    """However often the user hears it."""
    core = new(config=CONFIG._replace(group_instance_id="i"))
    join = asked(core.poll(0), JOIN_GROUP)
    assert core.on_answer(join, groups.JoinGroupResponse(errors.FencedInstanceIdError.code), 0) == ()
    for _ in range(2):
        assert isinstance(core.error, errors.FencedInstanceIdError)
        core.heard_error()
        assert core.poll(10**9) == ()


GARBAGE = groups.JoinedMember("x", None, b"\xff")


@pytest.mark.parametrize(
    "answer",
    [
        groups.JoinGroupResponse(0, 1, "connect", "range", "x", "me"),
        groups.JoinGroupResponse(0, 1, "consumer", "unknown", "x", "me"),
        groups.JoinGroupResponse(0, 1, "consumer", "range", "me", "me", (GARBAGE,)),
    ],
)
def test_answers_that_make_no_sense_are_told(answer: Any) -> None:
    """Another kind of group, an assignor that was not offered, a member that says garbage."""
    core = new()
    join = asked(core.poll(0), JOIN_GROUP)
    core.on_answer(join, answer, 0)
    assert core.state is S.FAILED
    assert core.error is not None


def test_a_share_that_is_garbage_is_told() -> None:
    """The leader may be of another make."""
    core = new()
    join = asked(core.poll(0), JOIN_GROUP)
    answer = groups.JoinGroupResponse(0, 1, "consumer", "range", "x", "me")
    sync = asked(core.on_answer(join, answer, 0), SYNC_GROUP)
    core.on_answer(sync, groups.SyncGroupResponse(0, assignment=b"\0\1\xff"), 0)
    assert isinstance(core.error, errors.InvalidRequestError)


@pytest.mark.parametrize("table", [CLASSIC_TRANSITIONS, MODERN_TRANSITIONS])
def test_every_state_can_be_left_and_reached(table: Any) -> None:
    """And unsubscribing leads out of each."""
    for state, targets in table.items():
        assert state not in targets
        assert targets.keys() <= table.keys()
        assert state is S.UNJOINED or S.UNJOINED in targets
    reached = {target for targets in table.values() for target in targets}
    assert reached == set(table)
