"""Transactions in the admin client, on a fake cluster in virtual time."""

from typing import Any

import pytest
from fake_admin_cluster import FakeAdminCluster
from fake_cluster import Fault
from headrace.clients.admin.group_types import (
    HangingTransaction,
    ProducerDescription,
    ProducerIdAndEpoch,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from headrace.protocol import errors
from headrace.protocol.messages import groups
from headrace.protocol.model import TopicPartition

pytestmark = pytest.mark.fake_cluster(kind=FakeAdminCluster)

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_MS = 1_700_000_000_000  # of the fake's wall clock
LONG_AGO_MS = NOW_MS - 1_000_000


@pytest.mark.fake_cluster(nodes=2)
async def test_transactions_are_listed_and_described(fake: FakeAdminCluster, cluster: Any) -> None:
    """Those of all nodes; states have Kafka's names."""
    fake.know("b", 2, FIRST, SECOND)
    fake.know("a", 1, state="CompleteCommit")
    fake.homes = {"b": 1}
    admin = cluster.admin()
    assert await admin.list_transactions() == [
        TransactionListing("a", 1, TransactionState.COMPLETE_COMMIT, 0),
        TransactionListing("b", 2, TransactionState.ONGOING, 1),
    ]
    await admin.list_transactions(states=["ongoing"], producer_ids=[2], longer_than=1.5, pattern="b.*")
    asked = fake.requests("ListTransactions")[-1]
    assert (asked.states, asked.producer_ids) == (("Ongoing",), (2,))
    assert (asked.duration_ms, asked.transactional_id_pattern) == (1500, "b.*")
    await admin.list_transactions(longer_than=1)
    asked = fake.requests("ListTransactions")[-1]
    assert asked.states == ("Ongoing", "Prepared", "PrepareCommit", "PrepareAbort")
    with pytest.raises(errors.ConfigError, match="PrepareCommit"):
        await admin.list_transactions(states=["ongong"])
    found = await admin.describe_transactions("b", "nowhere")
    assert found["b"] == TransactionDescription(
        *("b", TransactionState.ONGOING, 1, 2, 3, 60_000, 5_000), (FIRST, SECOND)
    )
    assert isinstance(found.errors["nowhere"], errors.TransactionalIdNotFoundError)


@pytest.mark.fake_cluster(nodes=2)
async def test_prepared_transactions_are_listed_and_aborted(fake: FakeAdminCluster, cluster: Any) -> None:
    """With producer id and epoch, also after a lost response; other transactions are rejected."""
    fake.know("a", 1, FIRST, state="Prepared", prepared_ms=7_000)
    fake.know("b", 2)
    fake.homes = {"a": 1}
    admin = cluster.admin()
    (listed,) = await admin.list_transactions(states=["prepared"])
    assert listed == TransactionListing("a", 1, TransactionState.PREPARED, 1, 7_000)
    assert (await admin.describe_transactions("a"))["a"].prepared_ms == 7_000
    fake.fail_next("EndTxn", Fault(lost_reply=True))
    found = await admin.abort_prepared("a", "b", "nowhere")
    assert fake.known["a"].state == "PrepareAbort"
    assert "a" not in found.errors
    assert isinstance(found.errors["b"], errors.InvalidTxnStateError)
    assert isinstance(found.errors["nowhere"], errors.TransactionalIdNotFoundError)
    assert fake.known["b"].state == "Ongoing"


@pytest.mark.fake_cluster(nodes=2)
async def test_producers_are_described_by_the_leaders(fake: FakeAdminCluster, cluster: Any) -> None:
    """For each partition; after a move by the new leader."""
    fake.create("t", 2)
    fake.open_transaction(FIRST, 9, start=4, last_ms=77)
    fake.open_transaction(SECOND, 8, start=-1)
    admin = cluster.admin()
    missing = TopicPartition("typo", 0)
    found = await admin.describe_producers(FIRST, SECOND, missing)
    assert found[FIRST] == (ProducerDescription(9, 3, 7, 77, -1, 4),)
    assert found[SECOND] == (ProducerDescription(8, 3, 7, 0, -1, None),)
    assert isinstance(found.errors[missing], errors.UnknownTopicOrPartitionError)
    fake.move_leader("t", 0, 1)
    assert len((await admin.describe_producers(FIRST))[FIRST]) == 1


async def test_producers_of_many_partitions_take_several_requests(
    fake: FakeAdminCluster, cluster: Any
) -> None:
    """A node rejects larger ones."""
    fake.create("t", 1_100)
    found = await cluster.admin().describe_producers(*(TopicPartition("t", n) for n in range(1_100)))
    assert (len(found), found.errors) == (1_100, {})
    assert [len(each.topics) for each in fake.requests("DescribeProducers")] == [500, 500, 100]


async def test_hanging_transactions_are_old_and_without_a_coordinator(
    fake: FakeAdminCluster, cluster: Any
) -> None:
    """No coordinator has the producer id, or its transaction has other partitions."""
    fake.create("t", 2)
    fake.know("known", 1, FIRST)
    fake.know("elsewhere", 2, FIRST)
    for producer_id in (1, 2, 3):
        fake.open_transaction(SECOND, producer_id, start=producer_id, last_ms=LONG_AGO_MS)
    fake.open_transaction(FIRST, 1, start=5, last_ms=LONG_AGO_MS)
    fake.open_transaction(FIRST, 4, start=5, last_ms=NOW_MS - 1_000)
    fake.open_transaction(FIRST, 5, start=-1, last_ms=LONG_AGO_MS)
    found = await cluster.admin().find_hanging_transactions([FIRST, SECOND])
    assert found == [
        HangingTransaction(SECOND, ProducerDescription(1, 3, 7, LONG_AGO_MS, -1, 1), "known"),
        HangingTransaction(SECOND, ProducerDescription(2, 3, 7, LONG_AGO_MS, -1, 2), "elsewhere"),
        HangingTransaction(SECOND, ProducerDescription(3, 3, 7, LONG_AGO_MS, -1, 3), None),
    ]
    assert await cluster.admin().find_hanging_transactions([FIRST]) == []
    recent = await cluster.admin().find_hanging_transactions([FIRST], longer_than=0.5)
    assert [each.producer.producer_id for each in recent] == [4]


async def test_transaction_that_has_just_ended_does_not_hang(fake: FakeAdminCluster, cluster: Any) -> None:
    """The coordinator has removed it because its markers are written."""
    fake.create("t", 2)
    fake.open_transaction(FIRST, 1, start=5, last_ms=LONG_AGO_MS)

    def end(ask: Any) -> Fault | None:
        if ask.api == "ListTransactions":
            fake.active.clear()
        return None

    fake.rules.append(end)
    assert await cluster.admin().find_hanging_transactions([FIRST]) == []


async def test_search_for_hanging_transactions_needs_every_response(
    fake: FakeAdminCluster, cluster: Any
) -> None:
    """A partition or a coordinator without a response is an error."""
    fake.create("t", 2)
    fake.open_transaction(FIRST, 1, start=5, last_ms=LONG_AGO_MS)
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        await cluster.admin().find_hanging_transactions([TopicPartition("typo", 0)])
    loading = Fault(error=errors.CoordinatorLoadInProgressError("reading"))
    fake.fail_next("ListTransactions", loading, times=1_000)
    with pytest.raises(errors.ApiTimeoutError):
        await cluster.admin().find_hanging_transactions([FIRST], timeout=2)


@pytest.mark.fake_cluster(nodes=2)
async def test_abort_transaction_writes_a_marker(fake: FakeAdminCluster, cluster: Any) -> None:
    """With the epoch of the transaction, at the leader; a rejection is an error."""
    fake.create("t", 2)
    fake.open_transaction(SECOND, 1, start=5)
    admin = cluster.admin()
    with pytest.raises(errors.InvalidProducerEpochError):
        await admin.abort_transaction(SECOND, 1, 2)
    await admin.abort_transaction(SECOND, 1, 3, coordinator_epoch=-1)
    (marker,) = fake.markers
    assert (marker.producer_id, marker.producer_epoch, marker.committed) == (1, 3, False)
    assert (marker.coordinator_epoch, marker.transaction_version) == (0, 0)
    assert marker.topics == (groups.TopicNamePartitions("t", (1,)),)


async def test_producers_are_fenced(fake: FakeAdminCluster, cluster: Any) -> None:
    """By their coordinators, however long the previous transaction takes to end."""
    fake.know("a", 1)
    fake.fail_next("InitProducerId", Fault(error=errors.ConcurrentTransactionsError("soon")), times=3)
    found = await cluster.admin().fence_producers("a")
    assert found["a"] == ProducerIdAndEpoch(1, 4)
