"""Committed offsets of groups of the new protocol, and such groups among those that admins see."""

from group_rig import GroupRig
from headrace.coordinators.runtime.ports import ProducerIdAndEpoch
from headrace.protocol import errors
from headrace.protocol.messages import groups as m
from headrace.protocol.messages import registry

MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
MINUTE = 60_000


def beat(rig: GroupRig, epoch: int, **more: object) -> m.ConsumerGroupHeartbeatResponse:
    body = m.ConsumerGroupHeartbeatRequest("g", MEMBER, epoch, **more)
    answer = rig.request(registry.CONSUMER_GROUP_HEARTBEAT, body).answer
    assert isinstance(answer, m.ConsumerGroupHeartbeatResponse)
    return answer


def joined(**keys: object) -> tuple[GroupRig, int]:
    """A group whose only member reads t, and the member's epoch."""
    rig = GroupRig(**keys)
    response = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("t",), "owned": ()}
    return rig, beat(rig, 0, **response).member_epoch


def code_of(rig: GroupRig, member_id: str, epoch: int, **more: object) -> int:
    body = rig.commit_offset(5, member_id, epoch, **more).answer
    return body.code if isinstance(body, errors.KafkaError) else body.results[0].error_code


def test_commit_and_fetch_check_the_member_epoch() -> None:
    """Another epoch gets STALE_MEMBER_EPOCH, an unknown member UNKNOWN_MEMBER_ID."""
    rig, epoch = joined()
    assert code_of(rig, MEMBER, epoch) == 0
    assert code_of(rig, MEMBER, epoch + 1) == errors.StaleMemberEpochError.code
    assert code_of(rig, "x", epoch) == errors.UnknownMemberIdError.code
    assert code_of(rig, "", -1) == errors.UnknownMemberIdError.code
    asked = [
        m.OffsetFetchGroup("g", None, member_id, each)
        for member_id, each in ((MEMBER, epoch), (MEMBER, epoch + 1), ("x", epoch), (None, -1))
    ]
    answer = rig.request(registry.OFFSET_FETCH, m.OffsetFetchRequest(tuple(asked))).answer
    stale, unknown = errors.StaleMemberEpochError.code, errors.UnknownMemberIdError.code
    assert [each.error_code for each in answer.groups] == [0, stale, unknown, 0]
    assert [len(each.offsets) for each in answer.groups] == [1, 0, 0, 1]


def test_txn_offset_commit_returns_illegal_generation() -> None:
    """TxnOffsetCommit has no member epochs."""
    rig, epoch = joined(transaction_partition_verification_enable=False)
    given = {"member_id": MEMBER, "generation_id": epoch + 1}
    assert (
        rig.txn_commit_offset(5, ProducerIdAndEpoch(9, 0), **given).code == errors.IllegalGenerationError.code
    )


def test_offsets_of_unsubscribed_topics_expire() -> None:
    """By the time of their commit; the group stays as long as it has members."""
    rig, epoch = joined(offsets_retention_minutes=100)
    for topic in "tu":
        assert code_of(rig, MEMBER, epoch, tp=(topic, 0)) == 0
    for _ in range(300):
        rig.advance(MINUTE // 2)
        beat(rig, epoch)
    assert rig.offsets() == {("t", 0): 5}


def test_admin_requests_on_a_consumer_group() -> None:
    """It is listed and deleted like a classic group, but described by another API."""
    rig, epoch = joined()
    code_of(rig, MEMBER, epoch)
    (listed,) = rig.request(registry.LIST_GROUPS, m.ListGroupsRequest((), ("consumer",))).answer.groups
    assert (listed.group_id, listed.protocol_type, listed.group_type) == ("g", "consumer", "consumer")
    (described,) = rig.request(registry.DESCRIBE_GROUPS, m.DescribeGroupsRequest(("g",))).answer.groups
    assert described.group_state == "Dead"
    topics = (m.TopicNamePartitions("t", (0,)),)
    deleted = rig.request(registry.OFFSET_DELETE, m.OffsetDeleteRequest("g", topics)).answer
    assert deleted.results[0].error_code == errors.GroupSubscribedToTopicError.code
    delete = m.DeleteGroupsRequest(("g",))
    assert (
        rig.request(registry.DELETE_GROUPS, delete).answer.results[0].error_code
        == errors.NonEmptyGroupError.code
    )
    beat(rig, -1)
    assert rig.request(registry.DELETE_GROUPS, delete).answer.results[0].error_code == 0
    rig.reload()
    assert not rig.shard.groups
    assert rig.shard.store.count == 0


def test_offsets_stay_when_a_group_changes_its_protocol() -> None:
    """An empty group of one protocol becomes one of the other; and back, through loads."""
    rig, epoch = joined()
    code_of(rig, MEMBER, epoch)
    beat(rig, -1)
    member = rig.new_member()
    rig.advance(0)
    assert member.code == 0
    rig.reload()
    assert rig.offsets() == {("t", 0): 5}
    assert rig.shard.groups["g"].group_type.value == "classic"
    rig.leave(m.LeavingMember(member.answer.member_id))
    rig.advance(60_000)
    response = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("t",), "owned": ()}
    beat(rig, 0, **response)
    rig.reload()
    assert rig.offsets() == {("t", 0): 5}
    assert rig.shard.groups["g"].group_type.value == "consumer"


def test_simple_group_becomes_a_consumer_group(rig: GroupRig) -> None:
    """An admin committed offsets before the first member joined."""
    rig.commit_offset(5)
    response = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("t",), "owned": ()}
    beat(rig, 0, **response)
    for _ in range(2):
        assert rig.offsets() == {("t", 0): 5}
        assert rig.shard.groups["g"].group_type.value == "consumer"
        rig.reload()
