"""Transactions of the synchronous producer, on its own threads."""

import threading
from typing import Any

import pytest
from fake_cluster import FakeCluster, Fault
from headrace import TopicPartition
from headrace.clients.arrow.sending_io import ArrowSend
from headrace.clients.group.group_metadata import GroupMetadata
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol import errors
from waiting import wait_for

WAIT_S = 60


def test_blocks_commit_and_abort(fake: FakeCluster, cluster: Cluster) -> None:
    """By the compiled `send`, in batches, and with offsets."""
    producer = cluster.producer(transactional_id="me")
    with producer.transaction() as txn:
        for number in range(1000):
            txn.send("t", b"%d" % number, partition=0)
        txn.send_offsets({TopicPartition("in", 0): 5}, GroupMetadata("g"))
    assert fake.read_committed("t", 0) == [b"%d" % number for number in range(1000)]
    assert fake.committed_offsets("g") == {("in", 0): 5}
    with pytest.raises(ZeroDivisionError), producer.transaction() as txn:  # noqa: PT012
        txn.send_many("t", [b"x"] * 100).wait(WAIT_S)
        raise ZeroDivisionError
    assert b"x" not in [value for number in range(3) for value in fake.read_committed("t", number)]
    with producer.transaction() as txn:
        txn.send("t", b"last", partition=0)
    assert fake.read_committed("t", 0)[-1:] == [b"last"]


def test_lanes_are_closed_between_transactions(cluster: Cluster) -> None:
    """No record is appended without the lock."""
    producer = cluster.producer(transactional_id="me", linger_ms=10_000)
    producer.begin_transaction()
    futures = [producer.send("t", b"a", partition=0) for _ in range(10)]
    producer.commit_transaction()
    assert all(future.done() for future in futures)
    with pytest.raises(errors.InvalidTxnStateError, match="no transaction is open"):
        producer.send("t", b"b", partition=0)
    refused = producer.send_many("t", [b"b"]).errors(WAIT_S)
    assert isinstance(refused[0], errors.InvalidTxnStateError)


def test_concurrent_sends_join_the_transaction_or_raise(
    fake: FakeCluster, cluster: Cluster, switches_everywhere: None
) -> None:
    """Each appended record has its outcome in that transaction; the buffer is empty afterwards."""
    producer = cluster.producer(transactional_id="me")
    producer.begin_transaction()
    taken: list[list[bytes]] = [[], [], []]

    def send_until_refused(partition: int) -> None:
        try:
            for number in range(1_000_000):
                producer.send("t", b"%d" % number, partition=partition)
                taken[partition].append(b"%d" % number)
        except errors.InvalidTxnStateError:
            pass

    threads = [threading.Thread(target=send_until_refused, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    producer.commit_transaction()
    for thread in threads:
        thread.join(WAIT_S)
    assert [fake.read_committed("t", number) for number in range(3)] == taken
    assert producer.metrics()["batches-pending"] == 0


@pytest.mark.parametrize("how", ["send", "send_many", "send_arrow"])
def test_record_that_was_not_buffered_fails_the_commit(fake: FakeCluster, cluster: Cluster, how: str) -> None:
    """Even if the error of `send` is ignored."""
    producer: Any = cluster.producer(transactional_id="me", max_request_size=1000)
    producer.begin_transaction()
    producer.send("t", b"small", partition=0)
    if how == "send":
        with pytest.raises(errors.MessageTooLargeError):
            producer.send("t", b"x" * 2000)
    elif how == "send_many":
        producer.send_many("t", [b"small", b"x" * 2000])
    else:
        producer.send_arrow("t", {"value": [b"small", b"x" * 2000]})
    with pytest.raises(errors.TransactionAbortableError):
        producer.commit_transaction()
    producer.abort_transaction()
    assert fake.read_committed("t", 0) == []


def test_rows_behind_a_refused_row_fail_with_it(
    fake: FakeCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the transaction has failed before the next rows of the same call are appended: `send_arrow`
    returns the outcome of each row and does not raise for the transaction."""
    producer: Any = cluster.producer(transactional_id="me", max_request_size=1000)
    producer.begin_transaction()
    fail = ArrowSend._fail

    def fail_at_once(self: ArrowSend, *arguments: Any) -> None:
        fail(self, *arguments)
        wait_for(lambda: producer._engine._refusal is not None, "the transaction fails")

    monkeypatch.setattr(ArrowSend, "_fail", fail_at_once)
    too_large, small = producer.send_arrow("t", {"value": [b"x" * 2000, b"small"]})
    assert isinstance(too_large.exception(WAIT_S), errors.MessageTooLargeError)
    assert isinstance(small.exception(WAIT_S), errors.TransactionAbortableError)
    producer.abort_transaction()


def test_close_aborts_an_open_transaction(fake: FakeCluster, cluster: Cluster) -> None:
    """Later calls raise ClosedError."""
    producer = cluster.producer(transactional_id="me")
    producer.begin_transaction()
    producer.send("t", b"a", partition=0).result(WAIT_S)
    producer.close()
    assert fake.ends == [("me", 0, False)]
    with pytest.raises(errors.ClosedError):
        producer.begin_transaction()


def test_commit_that_timed_out_can_be_repeated(fake: FakeCluster, cluster: Cluster) -> None:
    """Its outcome was not known; it was committed."""
    producer = cluster.producer(transactional_id="me", max_block_ms=2000)
    producer.begin_transaction()
    producer.send("t", b"a", partition=0)
    fake.rules.append(lambda ask: Fault(lost_reply=True) if ask.api == "EndTxn" else None)
    with pytest.raises(errors.ApiTimeoutError):
        producer.commit_transaction()
    fake.rules.clear()
    producer.commit_transaction()
    assert fake.read_committed("t", 0) == [b"a"]
    assert len(fake.ends) == 1
