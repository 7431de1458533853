"""ISR proposals to the controller: one request at a time, each proposal until its decision."""

from types import SimpleNamespace
from typing import Any

import pytest
from headrace.protocol import errors
from headrace.protocol.messages.control import AlteredPartition, AlterPartitionResponse
from headrace.protocol.metadata.image import PartitionRegistration
from headrace.storage_node.replica.in_sync import InSyncReplicas, IsrProposal
from headrace.storage_node.replica.isr_changes import MAX_ITEMS, RETRY_MS, IsrChanges


@pytest.fixture
def changes() -> IsrChanges:
    return IsrChanges()


def proposed(changes: IsrChanges, index: int = 0) -> Any:
    """A led partition with an open proposal."""
    view = InSyncReplicas(1, PartitionRegistration((1, 2), (1,), 1, 4, 6), 0, 0, 1_000)
    view.fetched(2, 5, 5, 33, 0)
    proposal = view.propose_growth(2, 0, 11, lambda *_: True)
    assert isinstance(proposal, IsrProposal)
    partition = SimpleNamespace(key=(b"t" * 16, index), in_sync=view)
    changes.add(partition, proposal)  # type: ignore[arg-type]
    return partition


def answer(*codes: int, error_code: int = 0) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        error_code, "", tuple(AlteredPartition(b"t" * 16, index, code) for index, code in enumerate(codes))
    )


def test_request_has_leader_partition_and_broker_epochs(changes: IsrChanges) -> None:
    """Of each proposal and each member."""
    proposed(changes)
    request = changes.take(1, 11, 0)
    assert request is not None
    (item,) = request.partitions
    assert (request.node_id, request.broker_epoch) == (1, 11)
    assert (item.leader_epoch, item.partition_epoch, item.isr) == (4, 6, ((1, 11), (2, 33)))


def test_one_request_is_in_flight(changes: IsrChanges) -> None:
    """Later proposals wait for its response."""
    proposed(changes)
    assert changes.take(1, 11, 0) is not None
    proposed(changes, 1)
    assert changes.take(1, 11, 0) is None
    assert changes.next_deadline_ms() is None
    assert len(changes.answered(answer(0), 5)) == 1
    request = changes.take(1, 11, 5)
    assert request is not None
    assert [item.partition for item in request.partitions] == [1]


def test_request_is_bounded(changes: IsrChanges) -> None:
    """The other proposals go with the next one."""
    for index in range(MAX_ITEMS + 1):
        proposed(changes, index)
    request = changes.take(1, 11, 0)
    assert request is not None
    assert len(request.partitions) == MAX_ITEMS
    changes.answered(answer(*[0] * MAX_ITEMS), 0)
    assert changes.take(1, 11, 0) is not None


def test_failed_request_is_repeated_unchanged(changes: IsrChanges) -> None:
    """After a pause: the controller may have applied it."""
    proposed(changes)
    first = changes.take(1, 11, 0)
    changes.failed(100)
    assert changes.take(1, 11, 100) is None
    assert changes.next_deadline_ms() == 100 + RETRY_MS
    assert changes.take(1, 11, 100 + RETRY_MS) == first


@pytest.mark.parametrize("error", [errors.NotControllerError, errors.StaleBrokerEpochError])
def test_top_level_error_repeats_all_proposals(changes: IsrChanges, error) -> None:
    partition = proposed(changes)
    first = changes.take(1, 11, 0)
    assert changes.answered(answer(error_code=error.code), 0) == []
    assert partition.in_sync.proposal is not None
    assert changes.take(1, 11, RETRY_MS) == first


def test_refused_proposal_is_withdrawn(changes: IsrChanges) -> None:
    """The follower may be proposed again."""
    partition = proposed(changes)
    changes.take(1, 11, 0)
    assert changes.answered(answer(errors.IneligibleReplicaError.code), 0) == []
    assert partition.in_sync.proposal is None
    assert len(changes) == 0


@pytest.mark.parametrize("error", [errors.FencedLeaderEpochError, errors.InvalidUpdateVersionError])
def test_overtaken_proposal_stays_open_until_metadata(changes: IsrChanges, error) -> None:
    """An earlier attempt may have been applied: either ISR may be committed."""
    partition = proposed(changes)
    changes.take(1, 11, 0)
    changes.answered(answer(error.code), 0)
    assert partition.in_sync.maximal == (1, 2)
    assert len(changes) == 0


def test_other_partition_error_is_retried(changes: IsrChanges) -> None:
    """The other proposals of the request are decided."""
    proposed(changes)
    proposed(changes, 1)
    changes.take(1, 11, 0)
    assert len(changes.answered(answer(errors.UnknownServerError.code, 0), 0)) == 1
    request = changes.take(1, 11, RETRY_MS)
    assert request is not None
    assert [item.partition for item in request.partitions] == [0]


def test_a_void_proposal_is_not_sent(changes: IsrChanges) -> None:
    """Metadata was faster, or this node no longer leads."""
    one, two = proposed(changes), proposed(changes, 1)
    one.in_sync.updated(PartitionRegistration((1, 2), (1, 2), 1, 4, 7), 0)
    two.in_sync = None
    assert changes.take(1, 11, 0) is None
    assert len(changes) == 0
