"""Scenarios 38, 42 to 44, 46, 47 and 50 of RELIABILITY 1.8: transactions while their coordinators, partition
leaders and producers are killed, paused and isolated."""

import threading
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import headrace
import pytest
from fault_cluster import FaultCluster, Server
from fault_workload import note
from headrace import TopicPartition, errors
from headrace.protocol.coordinator_ids import partition_of_id
from history import History, Op, outcome_of_abort
from proxy import Way
from waiting import PATIENCE_S, wait_for

FIGURES = "faults"  # as in conftest
STATE, OFFSETS = "__transaction_state", "__consumer_offsets"
SHORT_OR_LONG = [6, pytest.param(40, marks=pytest.mark.faults)]
QUICK = {"request_timeout_ms": 3_000, "socket_connection_setup_timeout_ms": 2_000}


def coordinator(cluster: FaultCluster, transactional_id: str) -> Server:
    """The node that coordinates the transactions of this id."""
    count = len(cluster.image().topics[STATE].partitions)
    return cluster.node(cluster.leader(STATE, partition_of_id(transactional_id, count)))


def until_ended(cluster: FaultCluster, *tps: TopicPartition) -> dict[TopicPartition, int]:
    """Wait until no transaction is open in the partitions: EndTxn is acknowledged before all markers are
    written. Returns the end offsets."""
    ends: dict[str, dict[TopicPartition, int]] = {}

    def is_so() -> bool:
        for isolation in ("read_uncommitted", "read_committed"):
            with cluster.clients.consumer(isolation_level=isolation) as consumer:
                ends[isolation] = consumer.end_offsets(*tps, timeout=PATIENCE_S)
        return ends["read_uncommitted"] == ends["read_committed"]

    cluster.until(is_so, "no transaction is open")
    return ends["read_committed"]


def committed_records(cluster: FaultCluster, *tps: TopicPartition) -> Iterator[list[Any]]:
    """The polls of a read_committed consumer, after all transactions have ended."""
    ends = until_ended(cluster, *tps)
    options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with cluster.clients.consumer(**options) as consumer:
        consumer.assign(tps)
        ends_at = time.monotonic() + PATIENCE_S
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            assert time.monotonic() < ends_at, f"the reader has stalled\n{cluster.evidence()}"
            yield consumer.poll(0.2)


def committed_values(cluster: FaultCluster, tp: TopicPartition) -> list[bytes]:
    """The committed values of one partition, after all transactions have ended."""
    return [record.value for records in committed_records(cluster, tp) for record in records]


class Transactor:
    """One transactional id in a thread, with one producer after the other: each transaction sends a value to
    every partition, a transfer from one to the next; its outcome goes into the history."""

    def __init__(self, history: History, cluster: FaultCluster, number: int, partitions: int) -> None:
        self.ended = 0
        self.complaint: BaseException | None = None
        self.lives = 0
        self._history, self._cluster, self._number = history, cluster, number
        self._partitions = partitions
        self._random = Random(number)
        self._is_over, self._may_go = threading.Event(), threading.Event()
        self._may_go.set()
        self.is_resting = False
        self._sequence = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def rest(self) -> None:
        """Complete the current transaction and pause."""
        self._may_go.clear()
        wait_for(lambda: self.is_resting or self.complaint, "the transactor rests")

    def go_on(self) -> None:
        """Resume after `rest`."""
        self.is_resting = False
        self._may_go.set()

    def end(self) -> None:
        """Stop after the current transaction."""
        self._is_over.set()
        self._may_go.set()
        self._thread.join(2 * PATIENCE_S)
        assert not self._thread.is_alive(), "it has stalled"
        assert self.complaint is None, self.complaint

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self._live()
        except BaseException as error:  # noqa: BLE001 - the test tells it
            self.complaint = error

    def _live(self) -> None:
        """Run transactions until the producer fails."""
        self.lives += 1
        process = self._history.process(f"transactor-{self._number}-{self.lives}")
        options = {"transactional_id": f"t-{self._number}", "client_id": f"client-{self._number}", **QUICK}
        with headrace.Producer(self._cluster.bootstrap, **options) as producer:
            while not self._is_over.is_set():
                if not self._may_go.is_set():
                    self.is_resting = True
                    self._may_go.wait()
                    continue
                producer.begin_transaction()
                if not self._transact(producer, process.txn()):
                    return

    def _transact(self, producer: Any, op: Op) -> bool:
        """Run one transaction; returns whether the producer is still usable."""
        commit_error: BaseException | None = None
        is_to_commit = self._random.random() < 0.75
        try:
            amount = self._random.randrange(1, 1000)
            for partition in range(self._partitions):
                moved = (amount, -amount, *[0] * self._partitions)[partition]
                value = b"%d/%d %d" % (self._number, self._sequence, moved)
                self._sequence += 1
                producer.send("t", value, partition=partition)
                op.send(f"t-{partition}", value)
            if is_to_commit:
                producer.commit_transaction()
                op.ended(None)
                self.ended += 1
                return True
        except errors.HeadraceError as error:
            commit_error = error
        was_aborted = True
        try:
            producer.abort_transaction()
        except errors.HeadraceError:
            was_aborted = False
        op.outcome = outcome_of_abort(commit_error if is_to_commit else None, was_aborted=was_aborted)
        self.ended += 1
        return was_aborted


def until_more(transactors: list[Transactor], count: int, cluster: FaultCluster) -> None:
    """Wait until each has completed this many more transactions."""
    goals = [transactor.ended + count for transactor in transactors]

    def is_so() -> bool:
        for transactor in transactors:
            assert transactor.complaint is None, transactor.complaint
        return all(each.ended >= goal for each, goal in zip(transactors, goals, strict=True))

    cluster.until(is_so, "more transactions are completed")


class Follower:
    """A read_committed consumer in a thread; its reads go into the history."""

    def __init__(self, history: History, cluster: FaultCluster) -> None:
        self.complaint: BaseException | None = None
        self._process, self._cluster = history.process("follower"), cluster
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)
        assert self.complaint is None, self.complaint

    def _run(self) -> None:
        options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        try:
            with self._cluster.clients.consumer("t", **options) as consumer:
                while not self._is_over.is_set():
                    note(self._process, consumer.poll(0.1))
        except BaseException as error:  # noqa: BLE001 - the test tells it
            self.complaint = error


def read_finally(history: History, cluster: FaultCluster, partitions: int) -> None:
    """Read all committed records once more, as the last process of the history."""
    process = history.process("final")
    for records in committed_records(cluster, *(TopicPartition("t", number) for number in range(partitions))):
        note(process, records)


@pytest.mark.parametrize("kills", SHORT_OR_LONG)
def test_s43_the_coordinator_is_killed_while_transactions_run(
    make_cluster: Any, record_property: Any, kills: int
) -> None:
    """The coordinator is killed at random moments, so in every state: each transaction is visible whole or
    not at all, no acknowledged one is lost, and no aborted one is read."""
    cluster, history = make_cluster(), History(lambda: time.monotonic_ns() // 1_000_000)
    cluster.create_topic("t", 2, min_insync_replicas=2)
    transactors = [Transactor(history, cluster, number, 2) for number in range(3)]
    follower = Follower(history, cluster)
    until_more(transactors, 3, cluster)
    begun_s, random = time.monotonic(), Random(kills)
    for _ in range(kills):
        threading.Event().wait(random.uniform(0, 0.05))  # at any moment of a transaction
        node = coordinator(cluster, f"t-{random.randrange(3)}")
        node.kill()
        until_more(transactors, 1, cluster)
        node.start()
        for topic in ("t", STATE):
            cluster.until_in_sync(topic)
    until_more(transactors, 3, cluster)
    for transactor in transactors:
        transactor.end()
    ended = sum(transactor.ended for transactor in transactors)
    lives = sum(transactor.lives for transactor in transactors)
    took_s = time.monotonic() - begun_s
    read_finally(history, cluster, 2)
    follower.end()
    assert {name: texts[:5] for name, texts in history.anomalies().items()} == {}
    record_property(FIGURES, f"{ended} transactions, {kills} kills, {lives} lives in {took_s:.1f} s")


def test_s38_s42_zombie_with_lost_responses_is_fenced(make_cluster: Any) -> None:
    """A producer is isolated during a transaction; another with its transactional id takes over. When the
    link heals, leaders, coordinators and groups refuse all requests of the first."""
    cluster = make_cluster()
    cluster.create_topic("t", 2, min_insync_replicas=2)
    tps = [TopicPartition("t", number) for number in range(2)]
    old = headrace.Producer(cluster.bootstrap, transactional_id="me", client_id="client-0", **QUICK)
    old.begin_transaction()
    old.send("t", b"old", partition=0).result(PATIENCE_S)
    cluster.network.freeze(cluster.client_links(cluster.nodes, 1), Way.BACK)
    late = old.send("t", b"late", partition=1)
    with cluster.clients.producer(transactional_id="me") as new, new.transaction() as txn:
        for tp in tps:
            txn.send("t", b"new", partition=tp.partition)
        txn.send_offsets({tps[0]: 5}, headrace.GroupMetadata("g"))
    # it may have been appended to the aborted transaction, and its response lost, too
    cluster.network.reset(cluster.client_links(cluster.nodes, 1))
    cluster.network.heal()
    assert isinstance(late.exception(PATIENCE_S), errors.InvalidProducerEpochError)
    with pytest.raises(errors.HeadraceError):
        old.send_offsets_to_transaction({tps[0]: 1}, headrace.GroupMetadata("g"))
    with pytest.raises(errors.ProducerFencedError):
        old.abort_transaction()
    with pytest.raises(errors.ProducerFencedError):
        old.begin_transaction()
    old.close()
    assert [committed_values(cluster, tp) for tp in tps] == [[b"new"], [b"new"]]
    with cluster.clients.consumer(group="g", isolation_level="read_committed") as consumer:
        found = consumer.committed(tps[0], timeout=PATIENCE_S)[tps[0]]
    assert found is not None
    assert found.offset == 5


@pytest.mark.faults
@pytest.mark.parametrize("rounds", [3, 20])
def test_s50_transfers_keep_their_sum(make_cluster: Any, rounds: int) -> None:
    """Transfers between two partitions while nodes are killed: every snapshot of the committed records, taken
    between transfers, sums to 0."""
    cluster, history = make_cluster(), History()
    cluster.create_topic("t", 2, min_insync_replicas=2)
    tps = [TopicPartition("t", number) for number in range(2)]
    transactors = [Transactor(history, cluster, number, 2) for number in range(3)]
    until_more(transactors, 3, cluster)
    for number in range(rounds):
        node = cluster.nodes[number % 3]
        node.kill()
        until_more(transactors, 1, cluster)
        node.start()
        for topic in ("t", STATE):
            cluster.until_in_sync(topic)
        for transactor in transactors:
            transactor.rest()
        records = [record for some in committed_records(cluster, *tps) for record in some]
        sums = [sum(int(r.value.split()[1]) for r in records if r.partition == tp.partition) for tp in tps]
        assert sums[0] > 0
        assert sum(sums) == 0
        for transactor in transactors:
            transactor.go_on()
    for transactor in transactors:
        transactor.end()


@pytest.mark.faults
def test_s44_markers_wait_for_a_leader(make_cluster: Any) -> None:
    """A partition has no leader when its transaction is committed: the commit is visible in other partitions,
    and the marker is written when the partition has a leader again."""
    cluster = make_cluster(nodes=4)
    cluster.create_topic("t", 1, min_insync_replicas=2)
    cluster.create_topic("alone", 1, 1)
    there, alone = TopicPartition("t", 0), TopicPartition("alone", 0)
    only = cluster.node(cluster.leader("alone"))
    names = (f"me-{number}" for number in range(1000))
    with cluster.clients.producer(transactional_id="any") as producer, producer.transaction() as txn:
        txn.send("t", b"first")  # creates the coordinators
    cluster.until_in_sync(STATE)
    name = next(name for name in names if coordinator(cluster, name) is not only)
    with cluster.clients.producer(transactional_id=name) as producer:
        producer.begin_transaction()
        for topic in ("t", "alone"):
            producer.send(topic, b"x").result(PATIENCE_S)
        only.kill()
        cluster.until(lambda: cluster.partition("alone").leader < 0, "the partition has no leader")
        producer.commit_transaction()
        assert committed_values(cluster, there) == [b"first", b"x"]
        only.start()
        assert committed_values(cluster, alone) == [b"x"]
        with producer.transaction() as txn:
            txn.send("alone", b"y")
    assert committed_values(cluster, alone) == [b"x", b"y"]


def test_s46_produce_after_the_abort_is_refused(make_cluster: Any) -> None:
    """A produce request held back by a frozen link arrives after the transaction has timed out: it is
    refused, and the last stable offset does not wait for it."""
    cluster = make_cluster(config={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100})
    cluster.create_topic("t", 1, min_insync_replicas=2)
    tp = TopicPartition("t", 0)
    late = headrace.Producer(
        cluster.bootstrap, transactional_id="late", client_id="client-0", transaction_timeout_ms=1_000
    )
    late.begin_transaction()
    late.send("t", b"in time").result(PATIENCE_S)
    cluster.network.freeze(cluster.client_links(cluster.nodes, 1), Way.OUT)
    held = late.send("t", b"too late")
    until_ended(cluster, tp)
    cluster.network.heal()
    with pytest.raises(errors.HeadraceError):
        held.result(PATIENCE_S)
    with pytest.raises(errors.HeadraceError):
        late.commit_transaction()
    late.close()
    assert committed_values(cluster, tp) == []
    with cluster.clients.producer(transactional_id="late") as again, again.transaction() as txn:
        txn.send("t", b"again")
    assert committed_values(cluster, tp) == [b"again"]


@pytest.mark.faults
def test_s47_a_transaction_times_out_under_a_paused_leader(make_cluster: Any) -> None:
    """The leader is paused with a pending produce request while the transaction times out."""
    cluster = make_cluster(config={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100})
    cluster.create_topic("t", 1, min_insync_replicas=2)
    tp = TopicPartition("t", 0)
    options = {"transaction_timeout_ms": 1_000, "client_id": "client-0", **QUICK}
    with headrace.Producer(cluster.bootstrap, transactional_id="slow", **options) as slow:
        slow.begin_transaction()
        slow.send("t", b"0").result(PATIENCE_S)
        leader = cluster.node(cluster.leader("t"))
        leader.pause()
        held = slow.send("t", b"1")
        cluster.until(lambda: cluster.leader("t") != leader.id, "another node leads")
        until_ended(cluster, tp)
        leader.resume()
        wait_for(held.done, "the record has its outcome")
        with pytest.raises(errors.HeadraceError):
            slow.commit_transaction()
    assert committed_values(cluster, tp) == []
    with cluster.clients.producer(transactional_id="slow") as again, again.transaction() as txn:
        txn.send("t", b"again")
    assert committed_values(cluster, tp) == [b"again"]
