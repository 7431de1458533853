"""Prepared transactions: acknowledged and left open, for another client to end."""

from typing import Any

import pytest
from fake_cluster import Fault
from headrace.clients.producer.transactions import PreparedTransaction
from headrace.protocol import errors


@pytest.mark.parametrize("is_block", [False, True])
async def test_prepared_transaction_stays_open(
    fake: Any, cluster: Any, producer: Any, is_block: bool
) -> None:
    """All records are acknowledged; neither the end of the block nor `close` ends it."""
    if is_block:
        async with producer.transaction() as txn:
            txn.send("t", b"a", partition=0)
            prepared = await producer.prepare_transaction()
    else:
        await producer.begin_transaction()
        producer.send("t", b"a", partition=0)
        prepared = await producer.prepare_transaction()
    assert fake.values("t") == [b"a"]
    with pytest.raises(errors.InvalidTxnStateError, match="is prepared"):
        producer.send("t", b"b", partition=0)
    with pytest.raises(errors.InvalidTxnStateError, match="is prepared"):
        await producer.begin_transaction()
    assert await producer.prepare_transaction() == prepared
    await producer.close()
    assert isinstance(prepared, PreparedTransaction)
    assert (prepared.transactional_id, prepared.producer_epoch, prepared.is_empty) == ("me", 0, False)
    assert fake.read_committed("t") == []
    await cluster.close()
    assert fake.ends == []


@pytest.mark.parametrize("is_commit", [False, True])
async def test_prepared_transaction_is_ended_by_its_producer(
    fake: Any, cluster: Any, producer: Any, is_commit: bool
) -> None:
    """Then the next transaction can begin."""
    await producer.begin_transaction()
    await producer.send("t", b"a", partition=0)
    await producer.prepare_transaction()
    await (producer.commit_transaction() if is_commit else producer.abort_transaction())
    assert fake.read_committed("t") == ([b"a"] if is_commit else [])
    async with producer.transaction() as txn:
        txn.send("t", b"b", partition=0)
    assert fake.read_committed("t")[-1:] == [b"b"]
    await cluster.close()
    assert [committed for _, _, committed in fake.ends] == [is_commit, True]


async def test_prepare_of_an_empty_transaction(fake: Any, cluster: Any, producer: Any) -> None:
    """The coordinator has no part of it: `is_empty` is set."""
    await producer.begin_transaction()
    assert (await producer.prepare_transaction()).is_empty
    await producer.commit_transaction()
    await producer.begin_transaction()
    await producer.send("t", b"a", partition=0)
    assert not (await producer.prepare_transaction()).is_empty
    await producer.abort_transaction()
    await cluster.close()
    assert [committed for _, _, committed in fake.ends] == [False]


async def test_prepare_fails_with_a_failed_record(fake: Any, cluster: Any, producer: Any) -> None:
    """The transaction is aborted, as after a commit that fails."""
    await producer.begin_transaction()
    await producer.send("t", b"a", partition=0)
    fake.fail_next("Produce", Fault(partition_error=errors.InvalidRecordError.code))
    producer.send("t", b"b", partition=0)
    with pytest.raises(errors.TransactionAbortableError):
        await producer.prepare_transaction()
    await producer.abort_transaction()
    assert fake.read_committed("t") == []
    await cluster.close()
    assert [committed for _, _, committed in fake.ends] == [False]
