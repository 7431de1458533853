"""Outcomes whose records count each by itself: they may be more than a batch takes."""

from typing import Any

import pytest
from coordinator_rig import CoordinatorRig, Request
from headrace.coordinators.group.shard import GroupShard
from headrace.protocol.errors import InvalidCommitOffsetSizeError, NotEnoughReplicasError, UnknownServerError
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import (
    CommittedOffset,
    DeleteGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    TopicNamePartitions,
)
from headrace.protocol.metadata.image import PartitionRegistration, TopicImage
from headrace.protocol.records.header import read_batch_header

COUNT, LIMIT = 50, 400


@pytest.fixture
def rig() -> CoordinatorRig:
    """A group with more offsets than a batch has room for tombstones."""
    rig = CoordinatorRig(make=GroupShard)
    one = PartitionRegistration((1,), (1,), 1, 0, 0)
    topics = {**rig.host.image.topics, "t": TopicImage("t", bytes(16), (one,) * COUNT)}
    rig.host.image = rig.host.image.__class__(brokers=rig.host.image.brokers, topics=topics)
    rig.lead()
    offsets = tuple(CommittedOffset("t", number, 7) for number in range(COUNT))
    committed = rig.ask(registry.OFFSET_COMMIT, OffsetCommitRequest("g", -1, "", offsets))
    assert all(result.error_code == 0 for result in committed.answer.results)
    rig.host.max_bytes = LIMIT
    return rig


def offsets_of(rig: CoordinatorRig) -> int:
    shard: Any = rig.shard
    return len(shard.store.of("g"))


def delete(rig: CoordinatorRig) -> Request:
    return rig.ask(registry.DELETE_GROUPS, DeleteGroupsRequest(("g",)))


def test_group_with_many_offsets_is_deleted_in_several_batches(rig: CoordinatorRig) -> None:
    """None is too large; a reload finds no group."""
    before = len(rig.host.logs[0].batches)
    assert delete(rig).answer.results[0].error_code == 0
    new = rig.host.logs[0].batches[before:]
    assert len(new) > 2
    assert all(len(batch) <= LIMIT for batch in new)
    assert sum(read_batch_header(batch).record_count for batch in new) >= COUNT
    for _ in range(2):
        shard: Any = rig.shard
        assert (offsets_of(rig), list(shard.groups)) == (0, [])
        rig.leave()
        rig.lead(epoch=1)
        rig.load()


def test_many_offsets_are_deleted_in_several_batches(rig: CoordinatorRig) -> None:
    """Other offsets stay."""
    numbers = tuple(range(COUNT - 1))
    request = OffsetDeleteRequest("g", (TopicNamePartitions("t", numbers),))
    assert not any(each.error_code for each in rig.ask(registry.OFFSET_DELETE, request).answer.results)
    assert offsets_of(rig) == 1


def test_batches_before_a_refusal_stay_deleted(rig: CoordinatorRig) -> None:
    """The response is an error, and the client may retry the rest."""
    append, left = rig.host.append, [2]

    def some(*args: Any) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise NotEnoughReplicasError("too few")
        return append(*args)

    rig.host.append = some  # type: ignore[method-assign]
    assert delete(rig).answer.results[0].error_code != 0
    assert 0 < offsets_of(rig) < COUNT
    left[0] = COUNT
    assert delete(rig).answer.results[0].error_code == 0
    assert offsets_of(rig) == 0


def test_record_larger_than_a_batch_refuses_the_whole_division(rig: CoordinatorRig) -> None:
    rig.host.max_bytes = 70
    end = rig.host.logs[0].end
    assert delete(rig).answer.results[0].error_code == UnknownServerError.code
    assert (rig.host.logs[0].end, offsets_of(rig)) == (end, COUNT)


def test_commits_are_not_divided(rig: CoordinatorRig) -> None:
    """A request is committed as a whole, or not at all."""
    offsets = tuple(CommittedOffset("t", number, 8) for number in range(COUNT))
    committed = rig.ask(registry.OFFSET_COMMIT, OffsetCommitRequest("g", -1, "", offsets))
    assert isinstance(committed.answer, InvalidCommitOffsetSizeError)
    shard: Any = rig.shard
    assert {each.value.offset for each in shard.store.of("g").values()} == {7}
