"""Offsets expire only when no member subscribes to their topic, and only after their retention."""

import pytest
from group_rig import GroupRig, topic_image
from headrace.coordinators.group.expiry import MAX_CHECKS, MAX_TOMBSTONES, PAUSE_MS, WRITE_PAUSE_MS
from headrace.coordinators.runtime.ports import ProducerIdAndEpoch
from headrace.protocol.consumer_protocol import Subscription, encode_subscription
from headrace.protocol.errors import NotEnoughReplicasError
from headrace.protocol.messages import groups as m
from headrace.protocol.messages import registry

MINUTE = 60_000
CHECK_MS = 10 * MINUTE


def rig_of(**more: object) -> GroupRig:
    """Offsets are kept for 100 minutes and looked at every 10."""
    return GroupRig(offsets_retention_minutes=100, **more)


@pytest.fixture
def rig() -> GroupRig:
    return rig_of()


def reading(*topics: str) -> dict[str, object]:
    data = encode_subscription(Subscription(1, topics))
    return {"protocols": (m.GroupProtocol("range", data),), "session_timeout_ms": 1_800_000}


def keep_alive(rig: GroupRig, member_id: str, generation: int, minutes: int) -> None:
    """The member heartbeats for so long."""
    for _ in range(minutes // 10):
        rig.advance(10 * MINUTE)
        assert rig.heartbeat(member_id, generation).code == 0


def test_offsets_of_a_simple_group_expire_one_by_one(rig: GroupRig) -> None:
    """With the last offset the group is deleted."""
    rig.commit_offset(1)
    rig.advance(50 * MINUTE)
    rig.commit_offset(2, tp=("t", 1))
    rig.advance(49 * MINUTE)
    assert set(rig.offsets()) == {("t", 0), ("t", 1)}
    rig.advance(11 * MINUTE)
    assert set(rig.offsets()) == {("t", 1)}
    rig.advance(50 * MINUTE)
    assert rig.offsets() == {}
    assert not rig.shard.groups
    rig.reload()
    assert not rig.shard.groups
    assert rig.shard.store.count == 0


def test_retention_of_an_empty_group_starts_when_it_became_empty(rig: GroupRig) -> None:
    """Not at the commits."""
    (member,) = rig.stable_group(**reading("t"))
    rig.commit_offset(1, member, 1)
    keep_alive(rig, member, 1, 200)
    rig.leave(m.LeavingMember(member))
    rig.advance(99 * MINUTE)
    assert rig.offsets() == {("t", 0): 1}
    rig.advance(11 * MINUTE)
    assert not rig.shard.groups


def test_offsets_of_subscribed_topics_do_not_expire(rig: GroupRig) -> None:
    """KAFKA-4682: a topic without new records has no new commits."""
    (member,) = rig.stable_group(**reading("t"))
    rig.commit_offset(1, member, 1)
    keep_alive(rig, member, 1, 1_000)
    assert rig.offsets() == {("t", 0): 1}


def test_offsets_of_unsubscribed_topics_of_a_live_group_expire(rig: GroupRig) -> None:
    """KIP-211: by the time of their commit; the group stays."""
    (member,) = rig.stable_group(**reading("t"))
    rig.commit_offset(1, member, 1)
    rig.commit_offset(2, member, 1, tp=("u", 0))
    keep_alive(rig, member, 1, 110)
    assert rig.offsets() == {("t", 0): 1}
    assert "g" in rig.shard.groups
    assert rig.shard.counters.offset_expirations == 1


def test_unreadable_subscriptions_stop_expiry(rig: GroupRig) -> None:
    """They may contain any topic."""
    (member,) = rig.stable_group(session_timeout_ms=1_800_000)
    rig.commit_offset(1, member, 1)
    keep_alive(rig, member, 1, 1_000)
    assert rig.offsets() == {("t", 0): 1}


def test_nothing_expires_during_a_rebalance(rig: GroupRig) -> None:
    """A joining member may subscribe to the topic."""
    (member,) = rig.stable_group(rebalance_timeout_ms=2**31 - 1, **reading("t"))
    rig.commit_offset(1, member, 1, tp=("u", 0))
    rig.join(session_timeout_ms=1_800_000)
    rig.join(member, rebalance_timeout_ms=2**31 - 1, **reading("t"))
    for _ in range(12):
        rig.join(session_timeout_ms=1_800_000)
        rig.advance(10 * MINUTE)
    assert rig.offsets() == {("u", 0): 1}


def test_subscription_of_a_returning_static_member_counts_at_once(rig: GroupRig) -> None:
    """It returns without a rebalance; the subscription is in the log, and a load changes nothing."""
    (member,) = rig.stable_group(group_instance_id="i", **reading("t"))
    rig.commit_offset(1, member, 1, tp=("u", 0), group_instance_id="i")
    back = rig.join(group_instance_id="i", **reading("t", "u")).answer.member_id
    for _ in range(20):
        rig.advance(10 * MINUTE)
        assert rig.heartbeat(back, 1, instance_id="i").code == 0
    assert rig.offsets() == {("u", 0): 1}


@pytest.mark.parametrize("more", [{"protocol_type": "connect"}, {}])
def test_explicit_expiry_does_not_apply_to_a_live_group(rig: GroupRig, more: dict[str, object]) -> None:
    """Members of other protocol types name no topics: while there is a member, no offset of the group
    expires, and none during a rebalance of consumers. Source: Kafka
    ClassicGroup.offsetExpirationCondition."""
    asked = {**reading("t"), "rebalance_timeout_ms": 2**31 - 1, **more}
    (member,) = rig.stable_group(**asked)
    rig.commit_offset(1, member, 1, tp=("u", 0), retention_time_ms=MINUTE)
    if not more:
        rig.join(session_timeout_ms=1_800_000)
        rig.join(member, **asked)
    for _ in range(3):
        rig.join(session_timeout_ms=1_800_000)
        if more:
            rig.heartbeat(member, 1)
        rig.advance(10 * MINUTE)
    assert rig.offsets() == {("u", 0): 1}


@pytest.mark.parametrize("leaves", [False, True])
def test_reload_does_not_expire_offsets_early(rig: GroupRig, leaves: bool) -> None:
    """KAFKA-8069, scenario 53: the times are in the log, and members exist until their sessions expire."""
    (member,) = rig.stable_group(**reading("t"))
    rig.commit_offset(1, member, 1)
    keep_alive(rig, member, 1, 200)
    if leaves:
        rig.leave(m.LeavingMember(member))
    for _ in range(9):
        rig.reload()
        rig.advance(CHECK_MS)
    assert rig.offsets() == {("t", 0): 1}


def test_repeated_reloads_do_not_extend_retention(rig: GroupRig) -> None:
    """The time since the group became empty is in the log."""
    (member,) = rig.stable_group(**reading("t"))
    rig.commit_offset(1, member, 1)
    rig.leave(m.LeavingMember(member))
    for _ in range(11):
        rig.reload()
        rig.advance(CHECK_MS)
    assert not rig.shard.groups


def test_commit_may_set_its_expiry(rig: GroupRig) -> None:
    """Earlier or later than others."""
    rig.commit_offset(1, retention_time_ms=15 * MINUTE)
    rig.commit_offset(2, tp=("t", 1), retention_time_ms=300 * MINUTE)
    rig.advance(20 * MINUTE)
    assert set(rig.offsets()) == {("t", 1)}
    rig.advance(270 * MINUTE)
    assert set(rig.offsets()) == {("t", 1)}
    rig.advance(20 * MINUTE)
    assert rig.offsets() == {}


def test_offsets_with_pending_transactional_offsets_do_not_expire() -> None:
    """Nor does a group that has pending offsets only."""
    rig = rig_of(transaction_partition_verification_enable=False)
    rig.commit_offset(1)
    rig.txn_commit_offset(2, ProducerIdAndEpoch(9, 0))
    rig.txn_commit_offset(2, ProducerIdAndEpoch(9, 0), group="h")
    rig.advance(200 * MINUTE)
    assert rig.offsets() == {("t", 0): 1}
    assert set(rig.shard.groups) == {"g", "h"}
    rig.end_transaction(ProducerIdAndEpoch(9, 0), is_commit=False)
    rig.advance(CHECK_MS)
    assert not rig.shard.groups


def test_group_with_members_and_without_offsets_stays(rig: GroupRig) -> None:
    (member,) = rig.stable_group(**reading("t"))
    keep_alive(rig, member, 1, 300)


def test_empty_group_without_offsets_is_deleted(rig: GroupRig) -> None:
    """A member got an id and never joined."""
    given = rig.join().answer.member_id
    rig.advance(CHECK_MS)
    assert not rig.shard.groups
    assert rig.join(given).code == 25


def test_offsets_of_a_deleted_topic_are_deleted_at_once() -> None:
    """Also of subscribed topics, and pending transactional offsets."""
    rig = rig_of(transaction_partition_verification_enable=False)
    (member,) = rig.stable_group(**reading("t"))
    for topic in "tu":
        rig.commit_offset(1, member, 1, tp=(topic, 0))
    rig.txn_commit_offset(2, ProducerIdAndEpoch(9, 0), group="h")
    rig.change_topics(topic_image("u", 2))
    rig.advance(0)
    assert rig.offsets() == {("u", 0): 1}
    rig.end_transaction(ProducerIdAndEpoch(9, 0), is_commit=True)
    assert rig.offsets("h") == {}


@pytest.mark.parametrize("with_delta", [False, True])
def test_recreated_topic_has_no_offsets(rig: GroupRig, with_delta: bool) -> None:
    """It has the same name and another id."""
    rig.commit_offset(1)
    rig.change_topics(topic_image("t", 9), topic_image("u", 2), with_delta=with_delta)
    rig.commit_offset(3, tp=("t", 1))
    rig.advance(0)
    assert rig.offsets() == {("t", 1): 3}


def test_topic_deleted_while_the_group_had_no_coordinator(rig: GroupRig) -> None:
    """The next expiry check finds that the topic id is gone, whichever member subscribes to the name."""
    (member,) = rig.stable_group(**reading("t"))
    rig.commit_offset(1, member, 1)
    rig.change_topics(topic_image("u", 2))
    rig.reload()
    rig.advance(CHECK_MS)
    assert rig.offsets() == {}


def test_refused_expiry_batch_is_retried(rig: GroupRig) -> None:
    """For deleted topics and for old offsets."""
    rig.commit_offset(1)
    rig.commit_offset(1, tp=("u", 0))
    rig.refuses = NotEnoughReplicasError()
    rig.change_topics(topic_image("u", 2))
    rig.advance(100 * MINUTE)
    rig.refuses = None
    assert set(rig.offsets()) == {("t", 0), ("u", 0)}
    rig.advance(CHECK_MS)
    assert rig.offsets() == {}


def test_expiry_is_divided_into_batches(rig: GroupRig) -> None:
    """A second apart."""
    topics = topic_image("t", 1, 2_500), topic_image("u", 2, 2_500)
    rig.change_topics(*topics)
    for topic in "tu":
        offsets = tuple(m.CommittedOffset(topic, number, 1) for number in range(2_500))
        rig.request(registry.OFFSET_COMMIT, m.OffsetCommitRequest(topic, -1, "", offsets))
    rig.change_topics(topics[1])
    sizes = []
    for wait_ms in (0, WRITE_PAUSE_MS, WRITE_PAUSE_MS):
        before = len(rig.log)
        rig.advance(wait_ms)
        sizes.append(len(rig.log) - before)
    assert sizes == [MAX_TOMBSTONES, 500, 0]
    before = len(rig.log)
    rig.advance(110 * MINUTE - 1)
    assert len(rig.log) - before == 2_500 + 2
    assert not rig.shard.groups


def test_expiry_check_of_many_groups_is_divided_into_turns(rig: GroupRig) -> None:
    """Other requests are answered in between."""
    for number in range(MAX_CHECKS // 2):
        rig.commit_offset(1, group=f"g{number}")
    rig.commit_offset(1, group="last", retention_time_ms=0)
    rig.advance(CHECK_MS)
    assert "last" in rig.shard.groups
    rig.advance(PAUSE_MS)
    assert "last" not in rig.shard.groups
    assert len(rig.shard.groups) == MAX_CHECKS // 2


def test_recreated_topic_keeps_its_own_commits() -> None:
    """A transaction holds an offset of the deleted topic, or the other way round."""
    rig = rig_of(transaction_partition_verification_enable=False)
    rig.txn_commit_offset(1, ProducerIdAndEpoch(9, 0))
    rig.commit_offset(1, group="h")
    rig.change_topics(topic_image("t", 9))
    rig.commit_offset(2)
    rig.txn_commit_offset(2, ProducerIdAndEpoch(9, 0), group="h")
    rig.advance(0)
    assert rig.offsets() == {("t", 0): 2}
    rig.end_transaction(ProducerIdAndEpoch(9, 0), is_commit=True)
    assert rig.offsets("h") == {("t", 0): 2}
