"""Offsets expire only when no member subscribes to their topic, and only after their retention."""

from __future__ import annotations

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


def reading(*topics: str) -> dict[str, object]:
    data = encode_subscription(Subscription(1, topics))
    return {"protocols": (m.GroupProtocol("range", data),), "session_timeout_ms": 1_800_000}


def keep_alive(rig: GroupRig, member_id: str, generation: int, minutes: int) -> None:
    """The member heartbeats for so long."""
    for _ in range(minutes // 10):
        rig.advance(10 * MINUTE)
        assert rig.heartbeat(member_id, generation).code == 0


def test_offsets_of_a_simple_group_expire_by_their_commits() -> None:
    """Each for itself; with the last one the group goes."""
    rig = rig_of()
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


def test_offsets_of_a_group_expire_when_it_is_empty_for_long() -> None:
    """Not when they were committed long ago."""
    rig = rig_of()
    (member,) = rig.stable_group(**reading("t"))
    rig.commit_offset(1, member, 1)
    keep_alive(rig, member, 1, 200)
    rig.leave(m.LeavingMember(member))
    rig.advance(99 * MINUTE)
    assert rig.offsets() == {("t", 0): 1}
    rig.advance(11 * MINUTE)
    assert not rig.shard.groups


def test_while_a_member_reads_a_topic_its_offsets_stay() -> None:
    """KAFKA-4682: a topic without new records has no new commits."""
    rig = rig_of()
    (member,) = rig.stable_group(**reading("t"))
    rig.commit_offset(1, member, 1)
    keep_alive(rig, member, 1, 1_000)
    assert rig.offsets() == {("t", 0): 1}


def test_offsets_of_topics_that_a_live_group_reads_no_more_expire() -> None:
    """KIP-211: by their commits; the group stays."""
    rig = rig_of()
    (member,) = rig.stable_group(**reading("t"))
    rig.commit_offset(1, member, 1)
    rig.commit_offset(2, member, 1, tp=("u", 0))
    keep_alive(rig, member, 1, 110)
    assert rig.offsets() == {("t", 0): 1}
    assert "g" in rig.shard.groups
    assert rig.shard.counters.offset_expirations == 1


def test_of_consumers_that_cannot_be_read_nothing_expires() -> None:
    """Whatever they read, it may be this."""
    rig = rig_of()
    (member,) = rig.stable_group(session_timeout_ms=1_800_000)
    rig.commit_offset(1, member, 1)
    keep_alive(rig, member, 1, 1_000)
    assert rig.offsets() == {("t", 0): 1}


def test_while_a_group_rebalances_nothing_expires() -> None:
    """Its members may be about to read it."""
    rig = rig_of()
    (member,) = rig.stable_group(rebalance_timeout_ms=2**31 - 1, **reading("t"))
    rig.commit_offset(1, member, 1, tp=("u", 0))
    rig.join(session_timeout_ms=1_800_000)
    rig.join(member, rebalance_timeout_ms=2**31 - 1, **reading("t"))
    for _ in range(12):
        rig.join(session_timeout_ms=1_800_000)
        rig.advance(10 * MINUTE)
    assert rig.offsets() == {("u", 0): 1}


def test_what_a_static_member_reads_when_it_comes_back_counts_at_once() -> None:
    """It goes on without a rebalance; the log has it too, so a load must change nothing."""
    rig = rig_of()
    (member,) = rig.stable_group(group_instance_id="i", **reading("t"))
    rig.commit_offset(1, member, 1, tp=("u", 0), group_instance_id="i")
    back = rig.join(group_instance_id="i", **reading("t", "u")).answer.member_id
    for _ in range(20):
        rig.advance(10 * MINUTE)
        assert rig.heartbeat(back, 1, instance_id="i").code == 0
    assert rig.offsets() == {("u", 0): 1}


@pytest.mark.parametrize("more", [{"protocol_type": "connect"}, {}])
def test_an_expiry_of_its_own_does_not_take_offsets_from_a_live_group(more: dict[str, object]) -> None:
    """Workers that do something else than read topics tell nobody what they need: as long as there are any,
    nothing of the group expires, and nothing while consumers rebalance. Source: Kafka
    ClassicGroup.offsetExpirationCondition."""
    rig = rig_of()
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
def test_a_load_makes_nothing_expire_early(leaves: bool) -> None:
    """KAFKA-8069, scenario 53: what counts stands in the log, and members that were there at the last
    generation are there until their sessions are over."""
    rig = rig_of()
    (member,) = rig.stable_group(**reading("t"))
    rig.commit_offset(1, member, 1)
    keep_alive(rig, member, 1, 200)
    if leaves:
        rig.leave(m.LeavingMember(member))
    for _ in range(9):
        rig.reload()
        rig.advance(CHECK_MS)
    assert rig.offsets() == {("t", 0): 1}


def test_loads_do_not_make_offsets_live_for_ever() -> None:
    """The time since the group is empty goes on through them."""
    rig = rig_of()
    (member,) = rig.stable_group(**reading("t"))
    rig.commit_offset(1, member, 1)
    rig.leave(m.LeavingMember(member))
    for _ in range(11):
        rig.reload()
        rig.advance(CHECK_MS)
    assert not rig.shard.groups


def test_a_commit_may_say_when_it_expires() -> None:
    """Sooner or later than the others."""
    rig = rig_of()
    rig.commit_offset(1, retention_time_ms=15 * MINUTE)
    rig.commit_offset(2, tp=("t", 1), retention_time_ms=300 * MINUTE)
    rig.advance(20 * MINUTE)
    assert set(rig.offsets()) == {("t", 1)}
    rig.advance(270 * MINUTE)
    assert set(rig.offsets()) == {("t", 1)}
    rig.advance(20 * MINUTE)
    assert rig.offsets() == {}


def test_offsets_that_a_transaction_is_about_to_replace_stay() -> None:
    """So does their group, and one that has nothing but such."""
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


def test_a_group_with_members_stays_without_offsets() -> None:
    """They have nothing to commit yet."""
    rig = rig_of()
    (member,) = rig.stable_group(**reading("t"))
    keep_alive(rig, member, 1, 300)


def test_a_group_that_has_nothing_goes() -> None:
    """A member was given an id and never came."""
    rig = rig_of()
    given = rig.join().answer.member_id
    rig.advance(CHECK_MS)
    assert not rig.shard.groups
    assert rig.join(given).code == 25


def test_offsets_of_a_deleted_topic_are_deleted_at_once() -> None:
    """Of groups that are read, too, and those that transactions hold."""
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


@pytest.mark.parametrize("told", [False, True])
def test_a_recreated_topic_has_no_offsets(told: bool) -> None:
    """It has the same name and another id."""
    rig = rig_of()
    rig.commit_offset(1)
    rig.change_topics(topic_image("t", 9), topic_image("u", 2), told=told)
    rig.commit_offset(3, tp=("t", 1))
    rig.advance(0)
    assert rig.offsets() == {("t", 1): 3}


def test_a_topic_deleted_while_the_group_had_no_coordinator() -> None:
    """The next expiry check finds that the topic id is gone, whichever member subscribes to the name."""
    rig = rig_of()
    (member,) = rig.stable_group(**reading("t"))
    rig.commit_offset(1, member, 1)
    rig.change_topics(topic_image("u", 2))
    rig.reload()
    rig.advance(CHECK_MS)
    assert rig.offsets() == {}


def test_a_refused_batch_is_tried_again() -> None:
    """Of deleted topics as of old offsets."""
    rig = rig_of()
    rig.commit_offset(1)
    rig.commit_offset(1, tp=("u", 0))
    rig.refuses = NotEnoughReplicasError()
    rig.change_topics(topic_image("u", 2))
    rig.advance(100 * MINUTE)
    rig.refuses = None
    assert set(rig.offsets()) == {("t", 0), ("u", 0)}
    rig.advance(CHECK_MS)
    assert rig.offsets() == {}


def test_no_batch_becomes_too_large() -> None:
    """Many offsets go in several batches, a second apart."""
    rig = rig_of()
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


def test_a_look_at_many_groups_takes_many_turns() -> None:
    """Others are answered in between."""
    rig = rig_of()
    for number in range(MAX_CHECKS // 2):
        rig.commit_offset(1, group=f"g{number}")
    rig.commit_offset(1, group="last", retention_time_ms=0)
    rig.advance(CHECK_MS)
    assert "last" in rig.shard.groups
    rig.advance(PAUSE_MS)
    assert "last" not in rig.shard.groups
    assert len(rig.shard.groups) == MAX_CHECKS // 2


def test_a_topic_of_the_same_name_keeps_what_is_committed_for_it() -> None:
    """A transaction holds an offset of the one that was deleted, or the other way round."""
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
