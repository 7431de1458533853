"""Prepared transactions: acknowledged and left open, for another client to end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fake_cluster import Fault
from headrace.clients.producer.transactions import PreparedTransaction
from headrace.protocol import errors

Play = Callable[..., Any]


def playing(play: Play, scenario: Callable[..., Any], **options: Any) -> Any:
    """Run `scenario(fake, producer)` with a topic `t` of two partitions."""

    async def run(fake: Any, cluster: Any) -> None:
        fake.create("t", 2)
        await scenario(fake, cluster.producer(transactional_id="me", linger_ms=0, **options))

    return play(run)


@pytest.mark.parametrize("is_block", [False, True])
def test_prepared_transaction_stays_open(play: Play, is_block: bool) -> None:
    """All records are acknowledged; neither the end of the block nor `close` ends it."""

    async def scenario(fake: Any, producer: Any) -> None:
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

    assert playing(play, scenario).ends == []


@pytest.mark.parametrize("is_commit", [False, True])
def test_prepared_transaction_is_ended_by_its_producer(play: Play, is_commit: bool) -> None:
    """Then the next transaction can begin."""

    async def scenario(fake: Any, producer: Any) -> None:
        await producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        await producer.prepare_transaction()
        await (producer.commit_transaction() if is_commit else producer.abort_transaction())
        assert fake.read_committed("t") == ([b"a"] if is_commit else [])
        async with producer.transaction() as txn:
            txn.send("t", b"b", partition=0)
        assert fake.read_committed("t")[-1:] == [b"b"]

    assert [committed for _, _, committed in playing(play, scenario).ends] == [is_commit, True]


def test_prepare_of_an_empty_transaction(play: Play) -> None:
    """The coordinator has no part of it: `is_empty` is set."""

    async def scenario(fake: Any, producer: Any) -> None:
        await producer.begin_transaction()
        assert (await producer.prepare_transaction()).is_empty
        await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        assert not (await producer.prepare_transaction()).is_empty
        await producer.abort_transaction()

    assert [committed for _, _, committed in playing(play, scenario).ends] == [False]


def test_prepare_fails_with_a_failed_record(play: Play) -> None:
    """The transaction is aborted, as after a commit that fails."""

    async def scenario(fake: Any, producer: Any) -> None:
        await producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        fake.fail_next("Produce", Fault(partition_error=errors.InvalidRecordError.code))
        producer.send("t", b"b", partition=0)
        with pytest.raises(errors.TransactionAbortableError):
            await producer.prepare_transaction()
        await producer.abort_transaction()
        assert fake.read_committed("t") == []

    assert [committed for _, _, committed in playing(play, scenario).ends] == [False]
