"""The member of the new protocol, event by event: the fields of its heartbeats, and its way to the target."""

from random import Random
from typing import Any

import pytest
from headrace.clients.cluster.backoff import Backoff
from headrace.clients.group import member
from headrace.clients.group.modern import ModernMember
from headrace.clients.group.states import MemberState
from headrace.protocol import errors
from headrace.protocol.messages import groups
from headrace.protocol.model import TopicPartition

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
ID, OTHER = b"t" * 16, b"u" * 16
CONFIG = member.MemberConfig("g", max_poll_interval_ms=60_000, server_assignor="range", rack_id="r")
S = MemberState


def new(config: member.MemberConfig = CONFIG) -> ModernMember:
    core = ModernMember(config, "me", Backoff(100, 100, Random(1)))
    core.topics_changed({}, {ID: "t"})
    core.polled(0)
    core.subscribe(["t"])
    return core


def beat(effects: Any) -> Any:
    """The one heartbeat."""
    (found,) = [effect for effect in effects if isinstance(effect, member.SendRequest)]
    return found


def target(epoch: int, *partitions: int, topic_id: bytes = ID) -> Any:
    assigned = (groups.TopicIdPartitions(topic_id, partitions),) if partitions else ()
    return groups.ConsumerGroupHeartbeatResponse(0, "me", epoch, 5_000, assigned)


def same(epoch: int) -> Any:
    return groups.ConsumerGroupHeartbeatResponse(0, "me", epoch, 5_000)


def joined(*partitions: int, config: member.MemberConfig = CONFIG) -> ModernMember:
    """A stable member."""
    core = new(config)
    core.on_response(beat(core.poll(0)), target(1, *partitions), 0)
    core.begin()
    core.on_response(beat(core.on_done(0)), same(1), 0)
    assert core.state is S.STABLE
    return core


def test_later_heartbeats_have_changed_fields_only() -> None:
    """Owned partitions are reported after they were adopted."""
    core = new()
    first = beat(core.poll(0))
    request = first.request
    assert (request.member_id, request.member_epoch, request.owned) == ("me", 0, ())
    assert request.subscribed_topic_names == ("t",)
    assert (request.rebalance_timeout_ms, request.server_assignor, request.rack_id) == (60_000, "range", "r")
    assert core.poll(99) == (), "one request at a time"
    assert core.on_response(first, target(3, 0, 2), 0) == ()
    assert core.begin() == member.OwnershipChange(member.ChangeKind.ASSIGNED, (T0, T2))
    result = beat(core.on_done(0))
    assert core.state is S.ACKNOWLEDGING
    assert result.request.owned == (groups.TopicIdPartitions(ID, (0, 2)),)
    assert (result.request.member_epoch, result.request.subscribed_topic_names) == (3, None)
    assert (result.request.rebalance_timeout_ms, result.request.server_assignor) == (-1, None)
    core.on_response(result, same(3), 10)
    assert core.state is S.STABLE
    assert core.next_due_ms() == 5_010
    assert beat(core.poll(5_010)).request.owned is None


def test_revocations_are_reported_before_new_partitions_are_adopted() -> None:
    """So that the coordinator can assign them to another member."""
    core = joined(0, 1)
    core.on_response(beat(core.poll(5_000)), target(2, 1, 2), 5_000)
    assert core.begin() == member.OwnershipChange(member.ChangeKind.REVOKED, (T0,))
    result = beat(core.on_done(5_000))
    assert result.request.owned == (groups.TopicIdPartitions(ID, (1,)),)
    assert core.pending == member.OwnershipChange(member.ChangeKind.ASSIGNED, (T2,))
    core.on_response(result, same(2), 5_000)
    core.begin()
    result = beat(core.on_done(5_000))
    assert result.request.owned == (groups.TopicIdPartitions(ID, (1, 2)),)


def test_new_target_waits_for_a_change_that_has_begun() -> None:
    """A change that has not begun is replaced."""
    core = joined(0, 1)
    core.on_response(beat(core.poll(5_000)), target(2, 1), 5_000)
    core.on_response(beat(core.poll(10_000)), target(3, 0), 10_000)
    assert core.begin() == member.OwnershipChange(member.ChangeKind.REVOKED, (T1,))
    core.on_response(beat(core.poll(15_000)), target(4), 15_000)
    assert core.pending == member.OwnershipChange(member.ChangeKind.REVOKED, (T1,))
    core.on_done(15_000)
    assert core.pending == member.OwnershipChange(member.ChangeKind.REVOKED, (T0,))


def test_an_empty_first_assignment_outlives_a_second_response() -> None:
    """The consumer has not adopted it yet: its listener and `poll` wait for the first assignment."""
    core = new()
    core.on_response(beat(core.poll(0)), target(1), 0)
    nothing = member.OwnershipChange(member.ChangeKind.ASSIGNED, ())
    assert core.pending == nothing
    core.on_response(beat(core.poll(5_000)), same(1), 5_000)
    assert core.begin() == nothing
    core.on_response(beat(core.on_done(5_000)), same(1), 5_000)
    core.on_response(beat(core.poll(10_000)), same(1), 10_000)
    assert (core.pending, core.state) == (None, S.STABLE)


def test_partitions_of_unknown_topics_wait_for_the_metadata() -> None:
    """Partitions of known topics are adopted meanwhile."""
    core = new()
    assigned = (groups.TopicIdPartitions(ID, (0,)), groups.TopicIdPartitions(OTHER, (0,)))
    response = groups.ConsumerGroupHeartbeatResponse(0, "me", 1, 5_000, assigned)
    core.on_response(beat(core.poll(0)), response, 0)
    assert core.has_unknown_topics
    assert core.begin() == member.OwnershipChange(member.ChangeKind.ASSIGNED, (T0,))
    core.on_response(beat(core.on_done(0)), same(1), 0)
    core.topics_changed({}, {ID: "t", OTHER: "u"})
    assert core.pending == member.OwnershipChange(member.ChangeKind.ASSIGNED, (TopicPartition("u", 0),))
    assert not core.has_unknown_topics


def test_recreated_topic_is_another_topic() -> None:
    """Its partitions are revoked under the old id, and adopted under the new one."""
    core = joined(0)
    core.topics_changed({}, {OTHER: "t"})
    core.on_response(beat(core.poll(5_000)), target(2, 0, topic_id=OTHER), 5_000)
    assert core.begin() == member.OwnershipChange(member.ChangeKind.REVOKED, (T0,))
    core.on_done(5_000)
    assert core.pending == member.OwnershipChange(member.ChangeKind.ASSIGNED, (T0,))


def test_heartbeat_after_a_failure_has_all_fields() -> None:
    """After a backoff, to the coordinator of that time."""
    core = joined(0)
    lost = beat(core.poll(5_000))
    assert core.on_failure(lost, errors.NetworkError(), 5_000) == (member.ForgetCoordinator(),)
    assert core.poll(5_001) == ()
    again = beat(core.poll(5_200)).request
    assert (again.member_epoch, again.subscribed_topic_names) == (1, ("t",))
    assert again.owned == (groups.TopicIdPartitions(ID, (0,)),)
    assert again.rebalance_timeout_ms == 60_000


def test_partitions_being_adopted_are_reported_as_owned() -> None:
    """The consumer completes the adoption under any target. Without the report the coordinator would take the
    partitions for revoked, and assign them to another member at once."""
    core = joined(0)
    core.on_response(beat(core.poll(5_000)), target(2, 0, 1), 5_000)
    lost = beat(core.poll(10_000))
    assert lost.request.owned is None
    core.on_failure(lost, errors.NetworkError(), 10_000)
    assert beat(core.poll(10_200)).request.owned == (groups.TopicIdPartitions(ID, (0,)),), "not begun yet"
    core = joined(0)
    core.on_response(beat(core.poll(5_000)), target(2, 0, 1), 5_000)
    assert core.begin() == member.OwnershipChange(member.ChangeKind.ASSIGNED, (T1,))
    core.on_failure(beat(core.poll(10_000)), errors.NetworkError(), 10_000)
    again = beat(core.poll(10_200))
    assert again.request.owned == (groups.TopicIdPartitions(ID, (0, 1)),)
    core.on_response(again, target(2, 0), 10_200)
    core.on_response(beat(core.on_done(10_300)), same(2), 10_300)
    assert core.begin() == member.OwnershipChange(member.ChangeKind.REVOKED, (T1,))
    result = beat(core.on_done(10_300))
    assert result.request.owned == (groups.TopicIdPartitions(ID, (0,)),)


@pytest.mark.parametrize(
    "error", [errors.UnknownMemberIdError, errors.FencedMemberEpochError, errors.GroupIdNotFoundError]
)
def test_fenced_member_rejoins_with_the_same_id(error: Any) -> None:
    """Its partitions are lost first."""
    core = joined(0, 1)
    refusal = groups.ConsumerGroupHeartbeatResponse(error.code)
    assert core.on_response(beat(core.poll(5_000)), refusal, 5_000) == ()
    assert core.pending == member.OwnershipChange(member.ChangeKind.LOST, (T0, T1))
    assert core.metadata == ("g", -1, "", None)
    core.begin()
    request = beat(core.on_done(5_000)).request
    assert (request.member_id, request.member_epoch, request.owned) == ("me", 0, ())


def test_adoption_that_has_begun_ends_before_the_loss() -> None:
    """The partitions that are being adopted are lost afterwards."""
    core = new()
    core.on_response(beat(core.poll(0)), target(1, 0), 0)
    core.begin()
    core.commit_rejected(errors.FencedMemberEpochError(), 0)
    assert core.state is S.REVOKING
    core.on_done(0)
    assert core.pending == member.OwnershipChange(member.ChangeKind.LOST, (T0,))


def test_fatal_errors_are_raised_once() -> None:
    """Then the member joins again."""
    core = new()
    refusal = groups.ConsumerGroupHeartbeatResponse(errors.UnsupportedAssignorError.code)
    assert core.on_response(beat(core.poll(0)), refusal, 0) == ()
    assert isinstance(core.error, errors.UnsupportedAssignorError)
    assert core.poll(10**9) == ()
    core.error_raised()
    assert beat(core.poll(10**9)).request.member_epoch == 0
    with pytest.raises(errors.ConfigError):
        core.enforce_rebalance("no")


def test_leave_epochs_of_dynamic_and_static_members() -> None:
    """A static member that closes announces its return; with `leave` it leaves for good."""
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
    assert core.pending == member.OwnershipChange(member.ChangeKind.LOST, (T0,))
    core = joined(0)
    assert beat(core.poll(60_000)).request.member_epoch == -1


def test_new_subscription_is_sent_at_once() -> None:
    """Topics or a regular expression; the other field is cleared."""
    core = joined(0)
    core.subscribe((), "t.*")
    request = beat(core.poll(1)).request
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ((), "t.*")
    core = joined(0)
    core.subscribe(["t", "u"])
    request = beat(core.poll(1)).request
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (("t", "u"), None)
