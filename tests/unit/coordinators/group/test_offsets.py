"""OffsetCommit, OffsetFetch and OffsetDelete: permitted members, accepted values, stored offsets."""

import pytest
from group_rig import GroupRig, image_of, topic_image
from headrace.protocol import errors
from headrace.protocol.consumer_protocol import Subscription, encode_subscription
from headrace.protocol.messages import groups as m
from headrace.protocol.messages import registry


def reading(*topics: str) -> dict[str, object]:
    """What a member that reads these topics joins with."""
    return {"protocols": (m.GroupProtocol("range", encode_subscription(Subscription(1, topics))),)}


def outcome_of(rig: GroupRig, **more: object) -> int:
    """The error code of one commit."""
    body = rig.commit_offset(**more).answer
    return body.code if isinstance(body, errors.KafkaError) else body.results[0].error_code


def delete(rig: GroupRig, *partitions: tuple[str, int], group: str = "g") -> object:
    topics = tuple(m.TopicNamePartitions(topic, (number,)) for topic, number in partitions)
    return rig.request(registry.OFFSET_DELETE, m.OffsetDeleteRequest(group, topics)).answer


def fetch_one(rig: GroupRig, group: str, topic: str, partition: int) -> m.FetchedOffset:
    asked = m.OffsetFetchGroup(group, (m.TopicNamePartitions(topic, (partition,)),))
    (found,) = rig.request(registry.OFFSET_FETCH, m.OffsetFetchRequest((asked,))).answer.groups
    (offset,) = found.offsets
    return offset


# --- checks of the committing member ---------------------------------------------------------------------


def test_commit_without_a_member_id_needs_an_empty_group(rig: GroupRig) -> None:
    """The first commit creates the group; the empty group id is valid."""
    assert outcome_of(rig, offset=7) == 0
    assert outcome_of(rig, offset=8, group="") == 0
    rig.reload()
    assert (rig.offsets(), rig.offsets("")) == ({("t", 0): 7}, {("t", 0): 8})
    assert rig.shard.groups["g"].protocol_type == ""


def test_only_members_commit_to_a_group_with_members(rig: GroupRig) -> None:
    """A tool that resets offsets must not disturb consumers."""
    rig.stable_group()
    assert outcome_of(rig) == errors.UnknownMemberIdError.code


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"generation": 1}, errors.IllegalGenerationError),
        ({"generation": 3}, errors.IllegalGenerationError),
        ({"generation": -1}, errors.IllegalGenerationError),
        ({"member_id": "x"}, errors.UnknownMemberIdError),
        ({"member_id": ""}, errors.UnknownMemberIdError),
        ({"group": "h"}, errors.GroupIdNotFoundError),
        ({"group_instance_id": "i"}, errors.UnknownMemberIdError),
    ],
)
def test_commit_of_another_generation_is_refused(
    rig: GroupRig, change: dict[str, object], error: type[errors.KafkaError]
) -> None:
    """A member that missed a rebalance may not commit for partitions of another member."""
    first, _ = rig.stable_group(2)
    assert outcome_of(rig, **{"member_id": first, "generation": 2, **change}) == error.code
    assert rig.offsets() == {}


def test_commit_before_a_rejoin_is_accepted(rig: GroupRig) -> None:
    """But not between the new generation and its assignments."""
    first, second = rig.stable_group(2)
    rig.join(first)
    assert outcome_of(rig, member_id=second, generation=2) == 0
    rig.join(second)
    assert outcome_of(rig, member_id=second, generation=3) == errors.RebalanceInProgressError.code


def test_commit_extends_the_session(rig: GroupRig) -> None:
    (member,) = rig.stable_group()
    for _ in range(3):
        rig.advance(9_000)
        assert outcome_of(rig, member_id=member, generation=1) == 0
    rig.advance(10_000)
    assert rig.shard.groups["g"].is_empty


# --- what can be committed -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"tp": ("v", 0)}, errors.UnknownTopicOrPartitionError),
        ({"tp": ("t", 4)}, errors.UnknownTopicOrPartitionError),
        ({"tp": ("t", -1)}, errors.UnknownTopicOrPartitionError),
        ({"topic_id": bytes(15) + b"\2"}, errors.UnknownTopicIdError),
        ({"metadata": "é" * 5}, errors.OffsetMetadataTooLargeError),
    ],
)
def test_invalid_commits_are_refused(more: dict[str, object], error: type[errors.KafkaError]) -> None:
    """No record of them is written."""
    rig = GroupRig(offset_metadata_max_bytes=9)
    assert outcome_of(rig, **more) == error.code
    assert not rig.log


def test_negative_offset_is_accepted(rig: GroupRig) -> None:
    """Its meaning is the client's: kafkajs commits -2 for the earliest offset."""
    assert outcome_of(rig, offset=-2) == 0
    assert fetch_one(rig, "g", "t", 0).offset == -2


def test_one_invalid_offset_is_refused_alone(rig: GroupRig) -> None:
    """Results are in the order of the request."""
    offsets = tuple(m.CommittedOffset(topic, 1, 5) for topic in ("v", "t", "u"))
    body = m.OffsetCommitRequest("g", -1, "", offsets)
    answer = rig.request(registry.OFFSET_COMMIT, body).answer
    assert [each.error_code for each in answer.results] == [errors.UnknownTopicOrPartitionError.code, 0, 0]
    assert rig.offsets() == {("t", 1): 5, ("u", 1): 5}
    assert rig.shard.counters.offset_commits == 2


def test_fetch_returns_epoch_and_metadata(rig: GroupRig) -> None:
    """Also after a load."""
    rig.commit_offset(9, leader_epoch=4, metadata="now", topic_id=bytes(15) + b"\1")
    rig.reload()
    assert fetch_one(rig, "g", "t", 0) == m.FetchedOffset("t", 0, 0, 9, 4, "now")


def test_fetch_returns_replicated_commits_only(rig: GroupRig) -> None:
    """For the committing member and for others."""
    rig.is_committing = False
    commit = rig.commit_offset(5)
    body = m.OffsetFetchRequest((m.OffsetFetchGroup("g"),))
    fetch = rig.request(registry.OFFSET_FETCH, body)
    assert commit.waits
    assert fetch.waits
    rig.commit()
    assert fetch.answer.groups[0].offsets[0].offset == 5


@pytest.mark.parametrize(
    ("refusal", "seen"),
    [
        (errors.NotEnoughReplicasError, errors.CoordinatorNotAvailableError),
        (errors.MessageTooLargeError, errors.InvalidCommitOffsetSizeError),
    ],
)
def test_failed_append_commits_no_offset(rig: GroupRig, refusal: type, seen: type[errors.KafkaError]) -> None:
    rig.refuses = refusal()
    assert outcome_of(rig) == seen.code
    rig.refuses = None
    assert rig.offsets() == {}


# --- reading ---------------------------------------------------------------------------------------------


def test_missing_offsets_are_no_error(rig: GroupRig) -> None:
    """Also of unknown groups."""
    rig.commit_offset()
    nothing = (0, -1, -1, "")
    for group, topic, partition in (("g", "t", 1), ("g", "v", 0), ("h", "t", 0)):
        found = fetch_one(rig, group, topic, partition)
        assert (found.error_code, found.offset, found.leader_epoch, found.metadata) == nothing
    assert rig.offsets("h") == {}


def test_several_groups_are_fetched_in_one_request(rig: GroupRig) -> None:
    """Responses are in the order of the request."""
    for number in range(3):
        rig.commit_offset(number, group=f"g{number}")
    body = m.OffsetFetchRequest(tuple(m.OffsetFetchGroup(f"g{number}") for number in (2, 0, 1)))
    answer = rig.request(registry.OFFSET_FETCH, body).answer
    assert [each.offsets[0].offset for each in answer.groups] == [2, 0, 1]


def test_offset_of_a_deleted_topic_is_not_returned_for_its_successor(rig: GroupRig) -> None:
    """A consumer would start at an unrelated position."""
    rig.commit_offset(5)
    rig.image = image_of(topic_image("t", 9), offset=2)
    assert fetch_one(rig, "g", "t", 0).offset == -1


# --- deleting --------------------------------------------------------------------------------------------


def test_offsets_of_an_empty_group_are_deleted(rig: GroupRig) -> None:
    """A missing offset counts as deleted, and no record is written."""
    rig.commit_offset(5)
    rig.commit_offset(6, tp=("u", 0))
    length = len(rig.log)
    answer = delete(rig, ("t", 0), ("t", 0), ("t", 1), ("v", 0))
    assert [each.error_code for each in answer.results] == [0] * 4
    assert len(rig.log) == length + 1
    rig.reload()
    assert rig.offsets() == {("u", 0): 6}
    assert rig.shard.counters.offset_deletions == 0
    assert delete(rig, ("u", 0)).error_code == 0
    assert rig.shard.counters.offset_deletions == 1


def test_offsets_of_subscribed_topics_cannot_be_deleted(rig: GroupRig) -> None:
    (member,) = rig.stable_group(**reading("t"))
    for topic in "tu":
        rig.commit_offset(5, member, 1, tp=(topic, 0))
    answer = delete(rig, ("t", 0), ("u", 0))
    assert [each.error_code for each in answer.results] == [errors.GroupSubscribedToTopicError.code, 0]
    assert rig.offsets() == {("t", 0): 5}


def test_unreadable_subscriptions_protect_all_offsets(rig: GroupRig) -> None:
    (member,) = rig.stable_group()
    rig.commit_offset(5, member, 1)
    assert delete(rig, ("t", 0)).results[0].error_code == errors.GroupSubscribedToTopicError.code


def test_offset_deletion_of_other_protocol_types_needs_an_empty_group(rig: GroupRig) -> None:
    rig.stable_group(protocol_type="connect")
    assert delete(rig, ("t", 0)).code == errors.NonEmptyGroupError.code
    assert delete(rig, ("t", 0), group="h").code == errors.GroupIdNotFoundError.code
