"""Transactions on a fake cluster, in virtual time."""

import asyncio
from random import Random
from typing import Any

import pytest
from fake_cluster import Ask, Fault
from headrace import TopicPartition
from headrace.clients.group.group_metadata import GroupMetadata, OffsetAndMetadata
from headrace.protocol import errors


async def test_block_commits(fake: Any, cluster: Any, producer: Any) -> None:
    """Consumers of committed records see all of it after the end, and no record before."""
    async with producer.transaction() as txn:
        await txn.send("t", b"a", partition=0)
        txn.send("t", b"b", partition=1)
        assert fake.read_committed("t") == []
    assert fake.read_committed("t", 0) == [b"a"]
    assert fake.read_committed("t", 1) == [b"b"]
    async with producer.transaction() as txn:
        await txn.send_many("t", [b"c"])
    assert sorted(fake.read_committed("t", 0) + fake.read_committed("t", 1)) == [b"a", b"b", b"c"]
    await cluster.close()
    assert fake.ends == [("me", 0, True), ("me", 1, True)]
    assert {body.transactional_id for body in fake.requests("Produce")} == {"me"}
    assert fake.requests("AddPartitionsToTxn") == []


async def test_exception_in_the_block_aborts(fake: Any, cluster: Any, producer: Any) -> None:
    """It is raised by the block; queued records are not sent, sent ones are aborted."""
    futures = []
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block is the test
        async with producer.transaction() as txn:
            await txn.send("t", b"a", partition=0)
            fake.fail_next("Produce", Fault(delay_ms=100))
            futures += [txn.send("t", b"b", partition=0)]
            await asyncio.sleep(0.01)
            futures += [txn.send("t", b"c", partition=0) for _ in range(20)]
            raise ZeroDivisionError
    outcomes = await asyncio.gather(*futures, return_exceptions=True)
    assert not isinstance(outcomes[0], Exception), "under way, and waited for"
    assert {type(outcome) for outcome in outcomes[1:]} == {errors.TransactionAbortedError}
    assert fake.values("t", 0) == [b"a", b"b"]
    assert fake.read_committed("t") == []
    async with producer.transaction() as txn:
        await txn.send("t", b"again", partition=0)
    assert fake.read_committed("t") == [b"again"]
    await cluster.close()
    assert fake.ends == [("me", 0, False), ("me", 1, True)]


async def test_sequences_restart_after_an_abort(fake: Any, producer: Any) -> None:
    """In another epoch: a leader cannot take new records for duplicates (Redpanda #5026)."""
    for end in (producer.abort_transaction, producer.commit_transaction):
        await producer.begin_transaction()
        await producer.send("t", b"same", partition=0)
        await end()
    headers = [header for header, _ in fake.topics["t"].partitions[0].headers_and_records()]
    assert [(header.producer_epoch, header.base_sequence) for header in headers] == [(0, 0), (1, 0)]
    assert fake.read_committed("t") == [b"same"]


async def test_empty_transaction_sends_no_request(fake: Any, producer: Any) -> None:
    """Neither for the commit nor for the abort."""
    async with producer.transaction():
        pass
    await producer.begin_transaction()
    await producer.abort_transaction()
    assert fake.requests("EndTxn") == []


async def test_records_are_sent_in_transactions_only(fake: Any, producer: Any) -> None:
    """Not before, between, or while one ends."""
    with pytest.raises(errors.InvalidTxnStateError, match="not initialized"):
        producer.send("t", b"x")
    await producer.init_transactions()
    with pytest.raises(errors.InvalidTxnStateError, match="no transaction is open"):
        producer.send("t", b"x")
    async with producer.transaction() as txn:
        txn.send("t", b"a", partition=0)
        fake.fail_next("EndTxn", Fault(delay_ms=100))
        commit = asyncio.create_task(producer.commit_transaction())
        await asyncio.sleep(0.05)
        with pytest.raises(errors.InvalidTxnStateError, match="being committed"):
            producer.send("t", b"x")
        await commit
    assert fake.values("t") == [b"a"]
    with pytest.raises(errors.InvalidTxnStateError, match="called once"):
        await producer.init_transactions()


async def test_transactions_do_not_nest(fake: Any, producer: Any) -> None:
    """The outer one continues."""
    async with producer.transaction() as txn:
        txn.send("t", b"a", partition=0)
        with pytest.raises(errors.InvalidTxnStateError, match="a transaction is open"):
            async with producer.transaction():
                pass
    assert fake.read_committed("t") == [b"a"]


async def test_transactions_need_a_transactional_id(fake: Any, cluster: Any) -> None:
    """The error names the key."""
    producer = cluster.producer()
    with pytest.raises(errors.InvalidTxnStateError, match="transactional_id="):
        producer.transaction()
    with pytest.raises(errors.InvalidTxnStateError, match="transactional_id="):
        await producer.begin_transaction()


@pytest.mark.parametrize("how", ["refused", "too large", "lost"])
async def test_a_record_that_is_not_stored_fails_the_commit(fake: Any, cluster: Any, how: str) -> None:
    """The block raises the cause, and the transaction is aborted; `send` raises as well."""
    fake.create("t")
    facts = {"delivery_timeout_ms": 2000, "request_timeout_ms": 1000} if how == "lost" else {}
    producer = cluster.producer(transactional_id="me", linger_ms=0, **facts)
    with pytest.raises(errors.TransactionAbortableError) as caught:  # noqa: PT012 - the block is the test
        async with producer.transaction() as txn:
            await txn.send("t", b"a", partition=0)
            if how == "refused":
                fake.fail_next("Produce", Fault(partition_error=errors.InvalidRecordError.code))
                with pytest.raises(errors.InvalidRecordError):
                    await txn.send("t", b"b", partition=0)
                with pytest.raises(errors.TransactionAbortableError):
                    txn.send("t", b"c", partition=0)
            elif how == "lost":
                fake.rules.append(lambda ask: Fault(lost_request=True) if ask.api == "Produce" else None)
                txn.send("t", b"b", partition=0)
            else:
                with pytest.raises(errors.MessageTooLargeError):
                    txn.send("t", b"x" * 2_000_000)
    wanted = {
        "refused": errors.InvalidRecordError,
        "too large": errors.MessageTooLargeError,
        "lost": errors.DeliveryTimeoutError,
    }
    assert isinstance(caught.value.__cause__, wanted[how])
    assert fake.read_committed("t") == []
    fake.rules.clear()
    async with producer.transaction() as txn:
        txn.send("t", b"again", partition=0)
    assert fake.read_committed("t") == [b"again"]
    await cluster.close()
    assert [committed for _, _, committed in fake.ends] == [False, True]


@pytest.mark.fake_cluster(nodes=3)
async def test_commit_survives_coordinator_moves(fake: Any, cluster: Any, producer: Any) -> None:
    """NOT_COORDINATOR, lost responses, load in progress: one commit."""
    await producer.begin_transaction()
    await producer.send("t", b"a", partition=0)
    fake.coordinator = 2
    fake.fail_next("EndTxn", Fault(error=errors.CoordinatorLoadInProgressError("loading")))
    fake.fail_next("EndTxn", Fault(lost_request=True))
    fake.rules.append(lambda ask: Fault(lost_reply=True) if ask.api == "EndTxn" and ask.number == 4 else None)
    await producer.commit_transaction()
    assert fake.read_committed("t") == [b"a"]
    async with producer.transaction() as txn:
        txn.send("t", b"b", partition=0)
    assert fake.read_committed("t") == [b"a", b"b"]
    await cluster.close()
    assert fake.ends == [("me", 0, True), ("me", 1, True)]


@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction"])
@pytest.mark.fake_cluster(max_block_ms=1000)
async def test_end_that_timed_out_can_be_repeated(fake: Any, cluster: Any, producer: Any, call: str) -> None:
    """After max.block.ms; no other call is possible before the outcome is known."""
    await producer.begin_transaction()
    await producer.send("t", b"a", partition=0)
    fake.rules.append(lambda ask: Fault(lost_reply=True) if ask.api == "EndTxn" else None)
    with pytest.raises(errors.ApiTimeoutError):
        await getattr(producer, call)()
    with pytest.raises(errors.InvalidTxnStateError):
        await producer.begin_transaction()
    fake.rules.clear()
    await getattr(producer, call)()
    await producer.begin_transaction()
    await producer.abort_transaction()
    assert fake.read_committed("t") == ([b"a"] if call == "commit_transaction" else [])
    await cluster.close()
    assert len(fake.ends) == 1


async def test_fenced_producer_stays_fenced(fake: Any, cluster: Any) -> None:
    """After InitProducerId of another one its transaction is aborted, and every call raises."""
    fake.create("t")
    old, new = (cluster.producer(transactional_id="me", linger_ms=0) for _ in range(2))
    await old.begin_transaction()
    await old.send("t", b"old")
    await new.begin_transaction()
    await new.send("t", b"new")
    with pytest.raises(errors.InvalidProducerEpochError):
        await old.send("t", b"older")
    with pytest.raises(errors.TransactionAbortableError):
        await old.commit_transaction()
    for _ in range(2):
        with pytest.raises(errors.ProducerFencedError, match=r"has taken over, .* close this one"):
            await old.abort_transaction()
    with pytest.raises(errors.ProducerFencedError):
        old.send("t", b"oldest")
    with pytest.raises(errors.ProducerFencedError):
        await old.begin_transaction()
    await new.commit_transaction()
    await old.close()
    assert fake.read_committed("t") == [b"new"]


async def test_fenced_block_raises_and_does_not_abort(fake: Any, cluster: Any) -> None:
    """The commit fails with ProducerFencedError."""
    fake.create("t")
    old, new = (cluster.producer(transactional_id="me", linger_ms=0) for _ in range(2))
    with pytest.raises(errors.ProducerFencedError):  # noqa: PT012 - the block is the test
        async with old.transaction() as txn:
            await txn.send("t", b"old")
            await new.init_transactions()
    assert fake.read_committed("t") == []
    assert len(fake.requests("EndTxn")) == 1


async def test_offsets_are_committed_with_the_transaction(fake: Any, cluster: Any, producer: Any) -> None:
    """Those of the committed one, not those of the aborted one."""
    here, there = TopicPartition("in", 0), TopicPartition("in", 1)
    group = GroupMetadata("g", 3, "m")
    fake.generations["g"] = (3, "m")
    async with producer.transaction() as txn:
        await txn.send_offsets({here: 5, there: OffsetAndMetadata(7, "note", 2)}, group)
    assert fake.committed_offsets("g") == {("in", 0): 5, ("in", 1): 7}
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block is the test
        async with producer.transaction() as txn:
            await txn.send_offsets({here: 9}, group)
            raise ZeroDivisionError
    assert fake.committed_offsets("g") == {("in", 0): 5, ("in", 1): 7}
    (sent, _) = fake.requests("TxnOffsetCommit")
    assert (sent.generation_id, sent.member_id, sent.offsets[1].metadata) == (3, "m", "note")
    await cluster.close()
    assert [committed for _, _, committed in fake.ends] == [True, False]


async def test_commit_offsets_of_a_consumer(fake: Any, cluster: Any, producer: Any) -> None:
    """All returned records, also while another partition has no position yet; or up to a record."""
    fake.generations["g"] = (-1, "")
    fake.create("in", 2)
    fake.put("in", 0, b"a", b"b", b"c")
    options = {"group": "g", "auto_offset_reset": "earliest", "max_poll_records": 2}
    consumer = cluster.consumer(enable_auto_commit=False, **options)
    await consumer.assign([TopicPartition("in", 0)])
    records = await consumer.poll(10)
    fake.rules.append(lambda ask: Fault(delay_ms=10**6) if ask.api == "ListOffsets" else None)
    await consumer.assign([TopicPartition("in", 0), TopicPartition("in", 1)])
    for wanted, offset in ((records[0], 1), (records, 2), (None, 2), ({("in", 0): 3}, 3)):
        async with producer.transaction() as txn:
            await txn.commit_offsets(consumer, wanted)
        assert fake.committed_offsets("g")["in", 0] == offset
    assert {tp: each.offset for tp, each in consumer.handed_out().items()} == {("in", 0): 2}
    alone = cluster.consumer("in")
    async with producer.transaction() as txn:
        with pytest.raises(errors.ConfigError, match="no group"):
            await txn.commit_offsets(alone)
        for offsets, group in ((None, GroupMetadata("g")), ({}, "g"), ({"in": 1}, GroupMetadata("g"))):
            with pytest.raises(TypeError):
                await txn.send_offsets(offsets, group)
    await cluster.close()
    assert len(fake.ends) == 4, "the last one has nothing to end"


async def test_commit_offsets_ends_auto_commit(fake: Any, cluster: Any, producer: Any) -> None:
    """It runs until the first call; then only transactions commit, which may span several polls."""
    fake.create("in")
    fake.put("in", 0, *[b"x"] * 8)
    options = {"group": "g", "auto_offset_reset": "earliest", "max_poll_records": 2}
    consumer = cluster.consumer("in", auto_commit_interval_ms=100, **options)
    for _ in range(2):
        assert len(await consumer.poll(30)) == 2
    await asyncio.sleep(1)
    assert fake.committed("g") == {("in", 0): 2}
    sent, group = consumer.offsets_for_transaction()
    assert ({tp: each.offset for tp, each in sent.items()}, group) == (
        {("in", 0): 4},
        consumer.group_metadata(),
    )
    for _ in range(2):
        assert len(await consumer.poll(30)) == 2
        await asyncio.sleep(1)
    await consumer.close()
    assert fake.committed("g") == {("in", 0): 2}


async def test_lost_partitions_abort_the_transaction(fake: Any, cluster: Any, producer: Any) -> None:
    """The generation of the consumer has ended."""
    fake.generations["g"] = (4, "m")
    with pytest.raises(errors.TransactionAbortableError) as caught:  # noqa: PT012 - the block is the test
        async with producer.transaction() as txn:
            await txn.send("t", b"a", partition=0)
            await txn.send_offsets({TopicPartition("in", 0): 5}, GroupMetadata("g", 3, "m"))
    assert isinstance(caught.value.__cause__, errors.IllegalGenerationError)
    assert fake.read_committed("t") == []
    assert fake.committed_offsets("g") == {}
    await cluster.close()
    assert [committed for _, _, committed in fake.ends] == [False]


async def test_close_aborts_an_open_transaction(fake: Any, cluster: Any, producer: Any) -> None:
    """A commit has to be called."""
    await producer.begin_transaction()
    await producer.send("t", b"a", partition=0)
    await producer.close()
    assert fake.read_committed("t") == []
    await cluster.close()
    assert fake.ends == [("me", 0, False)]


async def test_concurrent_transactions_is_retried_quickly(fake: Any, producer: Any) -> None:
    """The previous transaction ends within milliseconds, far below the usual backoff."""
    await producer.begin_transaction()
    code = errors.ConcurrentTransactionsError.code
    fake.fail_next("Produce", Fault(partition_error=code), times=3)
    loop = asyncio.get_running_loop()
    before = loop.time()
    await producer.send("t", b"a", partition=0)
    assert loop.time() - before < 0.1
    await producer.commit_transaction()


async def test_commit_includes_records_in_line(fake: Any, producer: Any) -> None:
    """Records whose topic is not known yet belong to the transaction."""
    fake.fail_next("Metadata", Fault(delay_ms=200))
    async with producer.transaction() as txn:
        future = txn.send("t", b"a", partition=0)
    assert future.done()
    assert fake.read_committed("t") == [b"a"]


async def test_metrics_of_transaction_calls(fake: Any, producer: Any) -> None:
    """By Kafka's names."""
    async with producer.transaction() as txn:
        txn.send("t", b"a", partition=0)
    metrics = producer.metrics()
    assert metrics["txn-commit-time-ns-total"] > 0
    assert 0 < metrics["txn-init-time-ns-total"] <= metrics["txn-begin-time-ns-total"]
    assert metrics["txn-abort-time-ns-total"] == metrics["txn-send-offsets-time-ns-total"] == 0
    fake.generations["g"] = (-1, "")
    async with producer.transaction() as txn:
        fake.fail_next("Produce", Fault(delay_ms=5_000))
        txn.send("t", b"b", partition=0)
        await txn.send_offsets({TopicPartition("in", 0): 5}, GroupMetadata("g"))
    later = producer.metrics()
    assert later["txn-send-offsets-time-ns-total"] > 0
    spent_ns = later["txn-commit-time-ns-total"] - metrics["txn-commit-time-ns-total"]
    assert spent_ns >= 5_000_000_000, "the time includes the waits of the commit"


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.fake_cluster(nodes=3, batch_size=1)
async def test_transactions_under_faults_are_atomic(
    fake: Any, cluster: Any, producer: Any, seed: int
) -> None:
    """Lost requests and responses, moving leaders and coordinators: committed ones are stored once."""

    random = Random(f"txn {seed}")
    expected: dict[int, list[bytes]] = {0: [], 1: []}

    def rule(ask: Ask) -> Fault | None:
        if ask.api not in ("Produce", "EndTxn", "InitProducerId", "FindCoordinator") or random.random() > 0.3:
            return None
        return random.choice(
            [Fault(lost_request=True), Fault(lost_reply=True), Fault(delay_ms=random.randrange(100))]
        )

    async def upheaval(fake: Any) -> None:
        while True:
            await asyncio.sleep(random.uniform(0.05, 0.4))
            fake.move_leader("t", random.randrange(2), random.randrange(3))
            fake.coordinator = random.randrange(3)

    fake.rules.append(rule)
    troubles = asyncio.create_task(upheaval(fake))
    for number in range(40):
        sent = [(random.randrange(2), b"%d/%d" % (number, each)) for each in range(random.randrange(12))]
        is_wanted = random.random() < 0.7
        await producer.begin_transaction()
        for partition, value in sent:
            producer.send("t", value, partition=partition)
            if random.random() < 0.2:
                await asyncio.sleep(0.01)
        if is_wanted:
            await producer.commit_transaction()
            for partition, value in sent:
                expected[partition].append(value)
        else:
            await producer.abort_transaction()
    troubles.cancel()
    await asyncio.gather(troubles, return_exceptions=True)
    await cluster.close()
    for partition, values in expected.items():
        assert fake.read_committed("t", partition) == values


async def test_abort_drops_records_in_line(fake: Any, producer: Any) -> None:
    """Records whose topic is not known yet must not join the next transaction."""
    fake.fail_next("Metadata", Fault(delay_ms=200))
    await producer.begin_transaction()
    future = producer.send("t", b"a", partition=0)
    await producer.abort_transaction()
    async with producer.transaction() as txn:
        txn.send("t", b"b", partition=0)
    with pytest.raises(errors.TransactionAbortedError):
        await future
    assert fake.values("t", 0) == [b"b"]


@pytest.mark.fake_cluster(max_block_ms=1000)
async def test_timeout_has_the_last_response(fake: Any, producer: Any) -> None:
    """The last attempt had little time left: the error before is more useful."""
    asked: list[int] = []

    def rule(ask: Ask) -> Fault | None:
        if ask.api != "InitProducerId":
            return None
        asked.append(ask.number)
        result = errors.ConcurrentTransactionsError("it is prepared")
        return Fault(error=result) if len(asked) < 3 else Fault(silent=True)

    fake.rules.append(rule)
    with pytest.raises(errors.ApiTimeoutError, match=r"answer; its last response: it is prepared"):
        await producer.init_transactions()
