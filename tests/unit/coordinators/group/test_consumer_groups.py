"""Heartbeats of the new group protocol: joining, leaving, epochs, what moves them, and what is refused."""

from dataclasses import replace

import pytest
from headrace.coordinators.group.consumer_group import GroupState
from headrace.coordinators.group.consumer_member import MemberState
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import (
    CommittedOffset,
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    TopicIdPartitions,
)
from headrace.protocol.metadata.image import GROUP_RESOURCE

from tests.fakes.consumer_group_rig import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    ConsumerGroupRig,
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


def member(rig: ConsumerGroupRig, member_id: str, *topics: str, **facts: object) -> SimMember:
    return SimMember(rig, member_id, topics or ("events",), **facts)  # type: ignore[arg-type]


def test_first_member_is_assigned_all_partitions(rig: ConsumerGroupRig) -> None:
    """Epoch 1; the next heartbeat is due early, since other members may be about to join."""
    first = member(rig, "a")
    answer = first.beat()
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", 1)
    assert answer.heartbeat_interval_ms == 100
    assert first.owned == {"events": {0, 1, 2, 3, 4, 5}}
    assert rig.group.state is GroupState.STABLE


def test_heartbeats_are_more_frequent_for_an_interval_after_a_change(rig: ConsumerGroupRig) -> None:
    """Joins and leaves are changes, waiting members are not; a member that waits for others polls soon."""
    first, second = member(rig, "a"), member(rig, "b")
    first.beat()
    rig.advance(4_999)
    assert first.beat().heartbeat_interval_ms == 100
    rig.advance(1)
    assert first.beat().heartbeat_interval_ms == 5_000
    assert second.beat().heartbeat_interval_ms == 100
    rig.advance(5_000)
    assert first.beat().heartbeat_interval_ms == 5_000
    run(first, second)
    second.leave()
    assert first.beat().heartbeat_interval_ms == 100
    rig.advance(5_000)
    assert first.beat().heartbeat_interval_ms == 5_000


def test_second_member_gets_its_half_after_the_first_revoked_it(rig: ConsumerGroupRig) -> None:
    """A partition is assigned only after its previous owner has revoked it."""
    first, second = member(rig, "a"), member(rig, "b")
    first.beat()
    second.beat()
    assert second.owned == {}
    assert rig.group.members["b"].state is MemberState.UNRELEASED_PARTITIONS
    first.take(first.send())
    assert (first.epoch, len(first.wanted["events"])) == (1, 3)
    assert rig.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    second.beat()
    assert second.owned == {}, "the first still reads from them"
    first.settle()
    first.beat()
    second.beat()
    assert first.epoch == second.epoch == 2
    assert len(second.owned["events"]) == 3
    assert all(len(readers) == 1 for readers in held_by(first, second).values())
    assert rig.group.state is GroupState.STABLE


def test_partitions_of_a_leaving_member_are_reassigned(rig: ConsumerGroupRig) -> None:
    """Leaving advances the group epoch; after the last member the group is Empty, with equal epochs."""
    first, second = member(rig, "a"), member(rig, "b")
    run(first, second)
    assert first.leave().member_epoch == -1
    assert rig.group.state is GroupState.ASSIGNING
    run(second)
    assert len(second.owned["events"]) == 6
    assert second.leave().error_code == 0
    assert rig.group.state is GroupState.EMPTY
    assert rig.group.assignment_epoch == rig.group.epoch, "KAFKA-20442"
    with pytest.raises(errors.UnknownMemberIdError):
        second.leave()


def test_reload_restores_the_group(rig: ConsumerGroupRig) -> None:
    """From the whole log and from the compacted log; the next heartbeats write no record."""
    first, second = member(rig, "a"), member(rig, "b")
    run(first, second)
    before = rig.describe()
    rig.reload()
    assert rig.describe() == before
    rig.compact()
    rig.reload()
    assert rig.describe() == before
    size = len(rig.log)
    run(first, second)
    assert len(rig.log) == size, "no record was appended"


def test_member_with_an_expired_session_is_removed(rig: ConsumerGroupRig) -> None:
    """Its partitions are reassigned, and its member id is unknown."""
    first, second = member(rig, "a"), member(rig, "b")
    run(first, second)
    rig.advance(SESSION_MS // 2)
    first.beat()
    rig.advance(SESSION_MS // 2 + 1)
    run(first)
    assert len(first.owned["events"]) == 6
    with pytest.raises(errors.UnknownMemberIdError):
        second.beat()


def test_group_configs_override_heartbeat_interval_and_session(rig: ConsumerGroupRig) -> None:
    """From the next heartbeat on; other groups keep the node's configs."""
    own = {"consumer.session.timeout.ms": "8000", "consumer.heartbeat.interval.ms": "1000"}
    rig.image = replace(rig.image, configs={(GROUP_RESOURCE, GROUP): own})
    first = member(rig, "a")
    first.beat()
    rig.advance(1_001)  # members of a rebalancing group have a shorter heartbeat interval
    assert first.beat().heartbeat_interval_ms == 1_000
    other = SimMember(rig, "b", ("events",), group_id="other")
    other.beat()
    rig.advance(5_001)
    assert other.beat().heartbeat_interval_ms == 5_000
    rig.advance(8_000)
    with pytest.raises(errors.UnknownMemberIdError):
        first.beat()
    other.beat()
    rig.image = replace(
        rig.image, configs={(GROUP_RESOURCE, "other"): {"consumer.session.timeout.ms": "9000"}}
    )
    assert other.beat().heartbeat_interval_ms == 5_000
    rig.advance(9_000)
    with pytest.raises(errors.UnknownMemberIdError):
        other.beat()


def test_member_that_does_not_revoke_in_time_is_removed(rig: ConsumerGroupRig) -> None:
    """It sends heartbeats, but keeps partitions that it must revoke."""
    first, second = member(rig, "a"), member(rig, "b")
    first.beat()
    second.beat()
    first.take(first.send())
    for _ in range(6):
        rig.advance(REBALANCE_MS // 6)
        if "a" in rig.group.members:
            first.send()
        second.beat()
    assert set(rig.group.members) == {"b"}
    run(second)
    assert len(second.owned["events"]) == 6


def test_reload_restarts_session_and_rebalance_timeouts(rig: ConsumerGroupRig) -> None:
    """Members must not be fenced because of a fail-over."""
    first, second = member(rig, "a"), member(rig, "b")
    first.beat()
    second.beat()
    first.take(first.send())
    rig.advance(SESSION_MS - 1)
    rig.reload()
    rig.advance(SESSION_MS - 1)
    assert set(rig.group.members) == {"a", "b"}
    assert rig.deadline_of(("rebalance", GROUP, "a")) is not None
    rig.advance(2)
    assert not rig.group.members


@pytest.mark.parametrize("times", [1, 3])
def test_lost_responses_do_not_fence(rig: ConsumerGroupRig, times: int) -> None:
    """The member missed two responses, each with a newer epoch."""
    first, second = member(rig, "a"), member(rig, "b")
    run(first, second)
    second.leave()
    for count in range(times):
        answer = first.send()
        assert answer.member_epoch > first.epoch
        other = member(rig, f"c{count}", "other")  # moves the epoch, not the partitions
        other.beat()
    answer = first.resend()
    assert answer.assignment is not None, "the member has not received the assignment yet"
    first.take(answer)
    first.settle()
    run(first)
    assert len(first.owned["events"]) == 6


def test_assignment_of_a_lost_response_is_sent_again(rig: ConsumerGroupRig) -> None:
    """KAFKA-19222: also in response to a heartbeat without changes."""
    first, second = member(rig, "a"), member(rig, "b")
    first.beat()
    second.beat()
    first.send()  # the response, which revokes partitions, is lost
    first.take(first.send())
    assert len(first.wanted["events"]) == 3


def test_empty_assignment_is_sent_again_after_a_load(rig: ConsumerGroupRig) -> None:
    """The coordinator cannot know whether the member has received its empty assignment."""
    first = member(rig, "a")
    first.beat()
    first.beat()
    rig.set_topics(other=1)
    first.send()  # the response, which revokes partitions, is lost
    rig.reload()
    assert first.send().assignment == ()


def test_repeated_join_writes_no_records(rig: ConsumerGroupRig) -> None:
    """The response was lost: the whole assignment is sent again."""
    first = member(rig, "a")
    first.send()
    size = len(rig.log)
    answer = first.resend()
    assert len(rig.log) == size
    assert answer.member_epoch == 1
    assert len(rig.names(answer.assignment)["events"]) == 6


def test_member_joins_without_topics(rig: ConsumerGroupRig) -> None:
    """Kafka's Java client does, while its regular expression matches no topic yet."""
    assert rig.beat(_request(subscribed_topic_names=())).assignment == ()
    answer = rig.beat(_request(member_epoch=1, owned=None))
    assert answer.member_epoch == 2
    assert len(rig.names(answer.assignment)["events"]) == 6


def test_fenced_member_joins_again_with_epoch_zero(rig: ConsumerGroupRig) -> None:
    """KAFKA-19233: whatever its epoch in the group."""
    first, second = member(rig, "a"), member(rig, "b")
    run(first, second)
    second.leave()
    run(first)
    first.forget()
    first.beat()
    assert first.epoch == rig.group.members["a"].epoch
    assert len(first.owned["events"]) == 6


@pytest.mark.parametrize("epoch", [7, 1])
def test_unknown_or_old_member_epoch_is_fenced(rig: ConsumerGroupRig, epoch: int) -> None:
    """An epoch that never was, or one that is long over."""
    first, second, third = member(rig, "a"), member(rig, "b"), member(rig, "c")
    run(first, second)
    run(first, second, third)
    first.epoch = epoch
    with pytest.raises(errors.FencedMemberEpochError):
        first.send()


def test_previous_epoch_with_foreign_partitions_is_fenced(rig: ConsumerGroupRig) -> None:
    """It continued with partitions that are assigned to others now: this is not a lost response."""
    first, second = member(rig, "a"), member(rig, "b")
    first.beat()
    old_epoch = first.epoch
    run(first, second)
    first.epoch, first.owned = old_epoch, {"events": {0, 1, 2, 3, 4, 5}}
    with pytest.raises(errors.FencedMemberEpochError):
        first.send()


def test_topic_changes_advance_the_group_epoch(rig: ConsumerGroupRig) -> None:
    """Partition counts, new topics, deleted topics and racks of subscribed topics do; other topics do not."""
    first, second = member(rig, "a", "events", "more"), member(rig, "b", "events", "more")
    run(first, second)
    epoch = rig.group.epoch
    rig.set_topics(events=8)
    run(first, second)
    assert len(held_by(first, second)) == 8
    rig.set_topics(events=8, more=2)
    run(first, second)
    assert len(held_by(first, second)) == 10
    rig.set_topics(more=2)
    run(first, second)
    assert len(held_by(first, second)) == 2
    assert rig.group.epoch == epoch + 3
    rig.set_topics(more=2, other=1)
    run(first, second)
    assert rig.group.epoch == epoch + 3, "no member subscribes to it"
    rig.set_topics(rack="north", more=2, other=1)
    run(first, second)
    assert rig.group.epoch == epoch + 4, "the racks are part of what is read"
    assert rig.group.state is GroupState.STABLE


def test_recreated_topic_is_another_topic(rig: ConsumerGroupRig) -> None:
    """The partitions of the deleted topic are removed from assignments."""
    first = member(rig, "a")
    run(first)
    rig.set_topics()
    rig.set_topics(events=3)
    run(first)
    assert first.owned == {"events": {0, 1, 2}}
    assert rig.group.members["a"].assigned.keys() == set(rig.image.topic_names)


def test_changed_subscription_revokes_partitions_of_dropped_topics(rig: ConsumerGroupRig) -> None:
    """The member keeps its other partitions."""
    rig.set_topics(events=6, more=4)
    first = member(rig, "a", "events", "more")
    run(first)
    first.topics = ("more",)
    first.take(first.send(is_full=True))
    assert first.wanted == {"more": {0, 1, 2, 3}}
    first.settle()
    run(first)
    assert rig.group.state is GroupState.STABLE


def test_full_group_refuses_new_members(rig: ConsumerGroupRig) -> None:
    """Present members continue."""
    with_config(rig, group_consumer_max_size=1)
    first, second = member(rig, "a"), member(rig, "b")
    first.beat()
    first.beat()
    with pytest.raises(errors.GroupMaxSizeReachedError):
        second.beat()
    assert set(rig.group.members) == {"a"}


def test_assignor_with_most_votes_is_used(rig: ConsumerGroupRig) -> None:
    """range assigns equal partition numbers of all topics to one member."""
    rig.set_topics(left=3, right=3)
    members = [member(rig, name, "left", "right", assignor="range") for name in "ab"]
    run(*members)
    assert rig.describe().assignor_name == "range"
    assert members[0].owned == {"left": {0, 1}, "right": {0, 1}}, "cut alike"
    third, fourth, fifth = (member(rig, name, "left", "right", assignor="uniform") for name in "cde")
    run(*members, third, fourth, fifth)
    assert rig.describe().assignor_name == "uniform"


def test_unknown_assignor_is_refused(rig: ConsumerGroupRig) -> None:
    """No record is written."""
    for name in ("best", ""):
        with pytest.raises(errors.UnsupportedAssignorError):
            member(rig, "a", assignor=name).beat()
    assert not rig.log


def test_failed_append_changes_no_group(rig: ConsumerGroupRig) -> None:
    """The member does not exist; its timer finds no member."""
    first, second = member(rig, "a"), member(rig, "b")
    run(first)
    before = rig.describe()
    rig.refuses = errors.NotEnoughReplicasError("no")
    with pytest.raises(errors.CoordinatorNotAvailableError):
        second.send()
    with pytest.raises(errors.CoordinatorNotAvailableError):
        first.leave()
    rig.refuses = None
    assert rig.describe() == before
    rig.advance(SESSION_MS - 1)
    first.beat()
    rig.advance(2)  # the session that the second would have had
    run(first, second)
    assert len(held_by(first, second)) == 6


def test_only_a_join_creates_groups_and_members(rig: ConsumerGroupRig) -> None:
    with pytest.raises(errors.GroupIdNotFoundError):
        member(rig, "a", epoch=3).beat()
    with pytest.raises(errors.GroupIdNotFoundError):
        member(rig, "a").leave()
    member(rig, "a").beat()
    with pytest.raises(errors.UnknownMemberIdError):
        member(rig, "b", epoch=1).beat()
    [described] = rig.describe("other", "")[:1]
    assert (described.error_code, described.group_state) == (errors.GroupIdNotFoundError.code, "")


def test_describe_shows_current_and_target_assignments(rig: ConsumerGroupRig) -> None:
    """States and epochs in the middle of a rebalance."""
    first, second = member(rig, "a", instance_id="one"), member(rig, "b")
    first.beat()
    second.beat()
    described = rig.describe()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 2, 2)
    a, b = described.members
    assert (a.member_id, a.instance_id, a.member_epoch, a.member_type) == ("a", "one", 1, 1)
    assert a.subscribed_topic_names == ("events",)
    assert [(each.topic, len(each.partitions)) for each in a.assignment] == [("events", 6)]
    assert [(each.topic, len(each.partitions)) for each in a.target_assignment] == [("events", 3)]
    assert b.assignment == ()


def test_commit_at_an_older_epoch_is_accepted_for_owned_partitions(rig: ConsumerGroupRig) -> None:
    """KIP-1251: not for partitions assigned or revoked since, nor at a future epoch."""
    first, second = member(rig, "a"), member(rig, "b")
    run(first, second)
    old = first.epoch
    mine, others = first.owned["events"], second.owned["events"]
    second.leave()
    first.send()
    assert rig.group.members["a"].epoch == old + 1
    rig.reload()

    def code(*partitions: int, epoch: int = old, member_id: str = "a") -> int:
        offsets = tuple(CommittedOffset("events", each, 5) for each in partitions)
        body = OffsetCommitRequest(GROUP, epoch, member_id, offsets)
        answer = rig.request(registry.OFFSET_COMMIT, body).answer
        return answer.code if isinstance(answer, errors.KafkaError) else answer.results[0].error_code

    stale = errors.StaleMemberEpochError.code
    assert code(*mine) == 0
    assert code(*mine, epoch=1) == 0, "the member owns them since it joined"
    assert code(*mine, epoch=0) == stale
    assert code(*mine, epoch=old + 2) == stale
    assert code(*mine, *others) == stale
    assert code(*others) == stale
    assert code(*others, epoch=old + 1) == 0
    assert code(99) == stale
    assert code(*mine, member_id="b") == errors.UnknownMemberIdError.code


def _request(**changes: object) -> ConsumerGroupHeartbeatRequest:
    facts: dict[str, object] = {
        "group_id": GROUP,
        "member_id": "a",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ("events",),
        "owned": (),
    }
    return ConsumerGroupHeartbeatRequest(**(facts | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, errors.InvalidRequestError),
        ({"member_id": ""}, errors.InvalidRequestError),
        ({"member_id": "a" * 2049}, errors.InvalidRequestError),
        ({"instance_id": ""}, errors.InvalidRequestError),
        ({"rack_id": ""}, errors.InvalidRequestError),
        ({"client_id": "a" * 2049}, errors.InvalidRequestError),
        ({"member_epoch": -3}, errors.InvalidRequestError),
        ({"member_epoch": 1 << 31}, errors.InvalidRequestError),
        ({"member_epoch": -2}, errors.InvalidRequestError),
        ({"rebalance_timeout_ms": -1}, errors.InvalidRequestError),
        ({"rebalance_timeout_ms": 0}, errors.InvalidRequestError),
        ({"rebalance_timeout_ms": 1 << 31}, errors.InvalidRequestError),
        ({"owned": None}, errors.InvalidRequestError),
        ({"owned": (TopicIdPartitions(bytes(16), (0,)),)}, errors.InvalidRequestError),
        ({"subscribed_topic_names": None}, errors.InvalidRequestError),
        ({"subscribed_topic_names": ("a" * 2049,)}, errors.InvalidRequestError),
        ({"subscribed_topic_names": ("a",) * 100_001}, errors.InvalidRequestError),
        (
            {"member_epoch": 1, "owned": (TopicIdPartitions(bytes(16), tuple(range(1_000_001))),)},
            errors.InvalidRequestError,
        ),
    ],
)
def test_invalid_heartbeats_are_refused(
    rig: ConsumerGroupRig, changes: dict[str, object], error: type[errors.KafkaError]
) -> None:
    """Every field is checked before a record is written or a timer is set."""
    with pytest.raises(error):
        rig.beat(_request(**changes))
    assert not rig.log
    assert rig.deadline_of(("session", GROUP, "a")) is None


def test_lost_responses_during_a_revocation_do_not_fence(rig: ConsumerGroupRig) -> None:
    """The member missed a newer epoch and then an assignment with fewer partitions: it still owns all."""
    first, second = member(rig, "a"), member(rig, "b")
    run(first, second)
    second.leave()
    first.send()  # the answer, with the newer epoch and more partitions, is lost
    others = [member(rig, name) for name in "cd"]
    run(*others, rounds=1)
    first.send()  # the response, which revokes partitions, is lost as well
    assert rig.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    answer = first.send(is_full=True)
    first.take(answer)
    first.settle()
    run(first, *others)
    assert len(held_by(first, *others)) == 6


def test_assignments_wait_for_their_interval() -> None:
    """The first one is not delayed; members that join meanwhile share the next one, which no heartbeat has to
    wait for (KIP-1263). A group may have an interval of its own."""
    rig = ConsumerGroupRig(group_consumer_assignment_interval_ms=1_000)
    rig.set_topics(events=6)
    first, *others = (member(rig, name) for name in "abc")
    first.beat()
    assert first.owned == {"events": {0, 1, 2, 3, 4, 5}}
    for each in others:
        each.beat()
    rig.advance(999)
    assert (rig.group.epoch, rig.group.assignment_epoch) == (3, 1)
    assert rig.group.state is GroupState.ASSIGNING
    rig.advance(1)
    assert (rig.group.assignment_epoch, rig.group.state) == (3, GroupState.RECONCILING)
    run(first, *others)
    assert [len(each.owned["events"]) for each in (first, *others)] == [2, 2, 2]
    rig.image = replace(
        rig.image, configs={(GROUP_RESOURCE, GROUP): {"consumer.assignment.interval.ms": "0"}}
    )
    others[0].leave()
    first.beat()
    assert rig.group.assignment_epoch == rig.group.epoch == 4
