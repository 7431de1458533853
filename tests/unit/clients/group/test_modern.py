"""The member of the new protocol, step by step: what its heartbeats say, and what it makes of the target."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from headrace.clients.cluster.backoff import Backoff
from headrace.clients.group.member import Ask, Forget, MemberConfig, Work, WorkKind
from headrace.clients.group.modern import ModernMember
from headrace.clients.group.states import MemberState
from headrace.protocol import errors
from headrace.protocol.messages import groups
from headrace.protocol.model import TopicPartition

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
ID, OTHER = b"t" * 16, b"u" * 16
CONFIG = MemberConfig("g", max_poll_interval_ms=60_000, server_assignor="range", rack_id="r")
S = MemberState


def new(config: MemberConfig = CONFIG) -> ModernMember:
    core = ModernMember(config, "me", Backoff(100, 100, Random(1)))
    core.topics_changed({}, {ID: "t"})
    core.polled(0)
    core.subscribe(["t"])
    return core


def beat(effects: Any) -> Any:
    """The one heartbeat."""
    (found,) = [effect for effect in effects if isinstance(effect, Ask)]
    return found


def target(epoch: int, *partitions: int, topic_id: bytes = ID) -> Any:
    assigned = (groups.TopicIdPartitions(topic_id, partitions),) if partitions else ()
    return groups.ConsumerGroupHeartbeatResponse(0, "me", epoch, 5_000, assigned)


def same(epoch: int) -> Any:
    return groups.ConsumerGroupHeartbeatResponse(0, "me", epoch, 5_000)


def joined(*partitions: int, config: MemberConfig = CONFIG) -> ModernMember:
    """A stable member."""
    core = new(config)
    core.on_answer(beat(core.poll(0)), target(1, *partitions), 0)
    core.begin()
    core.on_answer(beat(core.on_done(0)), same(1), 0)
    assert core.state is S.STABLE
    return core


def test_the_first_heartbeat_says_everything_and_later_ones_what_is_new() -> None:
    """What it owns is told when it has it; nothing else twice."""
    core = new()
    first = beat(core.poll(0))
    request = first.request
    assert (request.member_id, request.member_epoch, request.owned) == ("me", 0, ())
    assert request.subscribed_topic_names == ("t",)
    assert (request.rebalance_timeout_ms, request.server_assignor, request.rack_id) == (60_000, "range", "r")
    assert core.poll(99) == (), "one at a time"
    assert core.on_answer(first, target(3, 0, 2), 0) == ()
    assert core.begin() == Work(WorkKind.ASSIGNED, (T0, T2))
    told = beat(core.on_done(0))
    assert core.state is S.ACKNOWLEDGING
    assert told.request.owned == (groups.TopicIdPartitions(ID, (0, 2)),)
    assert (told.request.member_epoch, told.request.subscribed_topic_names) == (3, None)
    assert (told.request.rebalance_timeout_ms, told.request.server_assignor) == (-1, None)
    core.on_answer(told, same(3), 10)
    assert core.state is S.STABLE
    assert core.next_due_ms() == 5_010
    assert beat(core.poll(5_010)).request.owned is None


def test_what_the_target_lacks_is_told_before_what_is_new_is_taken() -> None:
    """So that another can have it."""
    core = joined(0, 1)
    core.on_answer(beat(core.poll(5_000)), target(2, 1, 2), 5_000)
    assert core.begin() == Work(WorkKind.REVOKED, (T0,))
    told = beat(core.on_done(5_000))
    assert told.request.owned == (groups.TopicIdPartitions(ID, (1,)),)
    assert core.work == Work(WorkKind.ASSIGNED, (T2,))
    core.on_answer(told, same(2), 5_000)
    core.begin()
    told = beat(core.on_done(5_000))
    assert told.request.owned == (groups.TopicIdPartitions(ID, (1, 2)),)


def test_a_target_that_changes_while_the_user_works_is_taken_up_then() -> None:
    """And one that changes before it began replaces the work."""
    core = joined(0, 1)
    core.on_answer(beat(core.poll(5_000)), target(2, 1), 5_000)
    core.on_answer(beat(core.poll(10_000)), target(3, 0), 10_000)
    assert core.begin() == Work(WorkKind.REVOKED, (T1,))
    core.on_answer(beat(core.poll(15_000)), target(4), 15_000)
    assert core.work == Work(WorkKind.REVOKED, (T1,))
    core.on_done(15_000)
    assert core.work == Work(WorkKind.REVOKED, (T0,))


def test_partitions_of_unknown_topics_wait_for_the_metadata() -> None:
    """What is known is taken over meanwhile."""
    core = new()
    assigned = (groups.TopicIdPartitions(ID, (0,)), groups.TopicIdPartitions(OTHER, (0,)))
    answer = groups.ConsumerGroupHeartbeatResponse(0, "me", 1, 5_000, assigned)
    core.on_answer(beat(core.poll(0)), answer, 0)
    assert core.lacks_topics
    assert core.begin() == Work(WorkKind.ASSIGNED, (T0,))
    core.on_answer(beat(core.on_done(0)), same(1), 0)
    core.topics_changed({}, {ID: "t", OTHER: "u"})
    assert core.work == Work(WorkKind.ASSIGNED, (TopicPartition("u", 0),))
    assert not core.lacks_topics


def test_a_topic_that_was_made_anew_is_another() -> None:
    """Its partitions are given up under the old id, and taken under the new one."""
    core = joined(0)
    core.topics_changed({}, {OTHER: "t"})
    core.on_answer(beat(core.poll(5_000)), target(2, 0, topic_id=OTHER), 5_000)
    assert core.begin() == Work(WorkKind.REVOKED, (T0,))
    core.on_done(5_000)
    assert core.work == Work(WorkKind.ASSIGNED, (T0,))


def test_a_heartbeat_without_an_answer_is_sent_again_in_full() -> None:
    """After a while, to whoever is the coordinator by then."""
    core = joined(0)
    lost = beat(core.poll(5_000))
    assert core.on_failure(lost, errors.NetworkError(), 5_000) == (Forget(),)
    assert core.poll(5_001) == ()
    again = beat(core.poll(5_200)).request
    assert (again.member_epoch, again.subscribed_topic_names) == (1, ("t",))
    assert again.owned == (groups.TopicIdPartitions(ID, (0,)),)
    assert again.rebalance_timeout_ms == 60_000


def test_what_is_being_taken_over_is_told_as_owned() -> None:
    """The user's side goes on with it whatever comes. Were it not told, the coordinator would take it for
    given back, if the target changes with this very heartbeat, and give it to another at once."""
    core = joined(0)
    core.on_answer(beat(core.poll(5_000)), target(2, 0, 1), 5_000)
    lost = beat(core.poll(10_000))
    assert lost.request.owned is None
    core.on_failure(lost, errors.NetworkError(), 10_000)
    assert beat(core.poll(10_200)).request.owned == (groups.TopicIdPartitions(ID, (0,)),), "not begun yet"
    core = joined(0)
    core.on_answer(beat(core.poll(5_000)), target(2, 0, 1), 5_000)
    assert core.begin() == Work(WorkKind.ASSIGNED, (T1,))
    core.on_failure(beat(core.poll(10_000)), errors.NetworkError(), 10_000)
    again = beat(core.poll(10_200))
    assert again.request.owned == (groups.TopicIdPartitions(ID, (0, 1)),)
    core.on_answer(again, target(2, 0), 10_200)
    core.on_answer(beat(core.on_done(10_300)), same(2), 10_300)
    assert core.begin() == Work(WorkKind.REVOKED, (T1,))
    told = beat(core.on_done(10_300))
    assert told.request.owned == (groups.TopicIdPartitions(ID, (0,)),)


@pytest.mark.parametrize(
    "error", [errors.UnknownMemberIdError, errors.FencedMemberEpochError, errors.GroupIdNotFoundError]
)
def test_who_is_fenced_loses_everything_and_joins_with_the_same_id(error: Any) -> None:
    """The user hears it first."""
    core = joined(0, 1)
    refusal = groups.ConsumerGroupHeartbeatResponse(error.code)
    assert core.on_answer(beat(core.poll(5_000)), refusal, 5_000) == ()
    assert core.work == Work(WorkKind.LOST, (T0, T1))
    assert core.metadata == ("g", -1, "", None)
    core.begin()
    request = beat(core.on_done(5_000)).request
    assert (request.member_id, request.member_epoch, request.owned) == ("me", 0, ())


def test_what_the_user_has_begun_goes_on_when_all_is_lost() -> None:
    """And what it took over is lost then."""
    core = new()
    core.on_answer(beat(core.poll(0)), target(1, 0), 0)
    core.begin()
    core.refused(errors.FencedMemberEpochError(), 0)
    assert core.state is S.REVOKING
    core.on_done(0)
    assert core.work == Work(WorkKind.LOST, (T0,))


def test_errors_that_only_the_user_can_help() -> None:
    """It hears them once, and then the member tries anew."""
    core = new()
    refusal = groups.ConsumerGroupHeartbeatResponse(errors.UnsupportedAssignorError.code)
    assert core.on_answer(beat(core.poll(0)), refusal, 0) == ()
    assert isinstance(core.error, errors.UnsupportedAssignorError)
    assert core.poll(10**9) == ()
    core.heard_error()
    assert beat(core.poll(10**9)).request.member_epoch == 0
    with pytest.raises(errors.ConfigError):
        core.enforce_rebalance("no")


def test_leaving_for_good_or_for_a_while() -> None:
    """A static member that is closed comes back; others leave, or just stop."""
    assert beat(joined(0).unsubscribe(leave=True, reason="")).request.member_epoch == -1
    assert joined(0).unsubscribe(leave=False, reason="") == ()
    static = CONFIG._replace(group_instance_id="i")
    for leave, epoch in ((True, -1), (False, -2)):
        request = beat(joined(0, config=static).unsubscribe(leave=leave, reason="")).request
        assert (request.member_epoch, request.instance_id) == (epoch, "i")
    core = joined(0, config=static)
    assert beat(core.poll(60_000)).request.member_epoch == -2
    assert (core.state, core.next_due_ms()) == (S.LATE, None)
    core.polled(70_000)
    assert core.work == Work(WorkKind.LOST, (T0,))
    core = joined(0)
    assert beat(core.poll(60_000)).request.member_epoch == -1


def test_a_new_subscription_is_told_at_once() -> None:
    """By name or by expression; the other is cleared."""
    core = joined(0)
    core.subscribe((), "t.*")
    request = beat(core.poll(1)).request
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ((), "t.*")
    core = joined(0)
    core.subscribe(["t", "u"])
    request = beat(core.poll(1)).request
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (("t", "u"), None)
