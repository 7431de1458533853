"""Transactional producers in simulation: production cores, driven by an application that commits, aborts,
crashes or stalls.

A `TransactionalApp` owns one transactional id. It starts a new producer when the last one has crashed or was
fenced, and sometimes while the last one still works, which then is a zombie until it is fenced. Some
producers prepare their transaction and end; a `Driver` commits or aborts it later, also after its timeout and
after a newer producer has sent InitProducerId.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.clients.producer.batches import Identity
from headrace.clients.producer.transactions import Transactions, TxnState
from headrace.protocol.errors import KafkaError, TransactionAbortedError
from headrace.protocol.messages.groups import TRANSACTION_KEY
from headrace.protocol.messages.registry import END_TXN, INIT_PRODUCER_ID, PREPARE_TXN
from headrace.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest, PrepareTxnRequest
from history import Outcome
from sim_clients import SimClient, SimProducer
from sim_scripts import CoordinatorLink, error_of, run, sleep

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster import SimCluster
    from headrace.clients.producer.effects import Resolve
    from sim_scripts import Steps

SOURCE, COPY = "x", "y"  # the topic of the transactions; its exactly-once copy
TIMEOUT_MS = 2_500


class TransactionalProducer(SimProducer):
    """One producer of a transactional id; calls `app.producer_ended` when it ends."""

    def __init__(self, app: TransactionalApp, name: str) -> None:
        super().__init__(app.cluster, name, -1, app.gap_ms, transactional_id=app.transactional_id)
        self.app = app
        self.transactions = Transactions(app.transactional_id)
        self._coordinator = CoordinatorLink(self, TRANSACTION_KEY, app.transactional_id)
        self._op: Any = None
        self._sent_before = 0
        self._waits: tuple[Callable[[], bool], Callable[[Any], None]] | None = None
        self.has_ended = False

    @property
    def is_usable(self) -> bool:
        """Whether the producer may begin another transaction."""
        return self.transactions.state is TxnState.READY

    # --- its transactions ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Request a producer id and begin transactions."""
        self._poll()
        run(self._live())

    def _live(self) -> Steps:
        yield from self._become_producer()
        while self.is_usable and self.app.may_begin(self):
            yield from self._transact()
            yield from sleep(self, 1 + self.random.randrange(4 * self.app.gap_ms))
        self._end()

    def _end(self) -> None:
        self.has_ended = True
        if self._timer is not None:
            self._timer.cancel()
        self.app.producer_ended(self)

    def _become_producer(self) -> Steps:
        self.transactions.init()
        body = InitProducerIdRequest(self.transactional_id, TIMEOUT_MS)
        answer = yield from self._coordinator.insist(INIT_PRODUCER_ID, body, error_of, lambda: False)
        if isinstance(answer, KafkaError):
            self._refused(answer)
            return
        self.sender.on_identity(Identity(answer.producer_id, answer.producer_epoch), self.world.now_ms)
        self.transactions.initialized()

    def _transact(self) -> Steps:
        """One transaction, from its first record to commit, abort, crash or prepare."""
        self._begin()
        yield from self._fill()
        if self.random.random() < (0.06 if self.app.is_sending else 0.5):
            # The process crashes and sends nothing more: the coordinator must abort its transaction.
            yield from sleep(self, self.random.randrange(200))
            self._op.outcome = Outcome.FAIL
            self.transactions.fail(KafkaError("killed"))
            return
        if self.random.random() < 0.08:
            self.app.start_another()
            yield from sleep(self, self.random.randrange(1_000))
        if self.random.random() < 0.1:
            yield from sleep(self, self.random.randrange(2 * TIMEOUT_MS))
        if self.cluster.plan.drivers and self.random.random() < 0.4:
            yield from self._prepare()
            return
        wants_commit = self.random.random() < 0.75
        if wants_commit and self.transactions.state is TxnState.IN_TRANSACTION:
            yield from self._commit()
        elif self.transactions.is_open:
            yield from self._abort()
        else:
            self._op.outcome = Outcome.FAIL  # fenced before the commit

    def _begin(self) -> None:
        self.transactions.begin()
        self._sent_before = self.sender.counters.batches_sent
        self.sender.fail_unsent(None, self.world.now_ms)
        self._op = self.process.txn()
        self.cluster.groups.begun(self._op)

    def _fill(self) -> Steps:
        """Send some records, with or without pauses."""
        for _ in range(self.random.randrange(1, 4)):
            if SOURCE in self.view.topics and self.transactions.state is TxnState.IN_TRANSACTION:
                for _ in range(self.random.randrange(1, 4)):
                    partition = self.random.randrange(len(self.view.topics[SOURCE].partitions))
                    self.put(SOURCE, partition, f"{self.name}/{self.sent}".encode())
                self._poll()
            if self.random.random() < 0.5:
                yield from sleep(self, self.random.randrange(1, 100))

    def put(self, topic: str, partition: int, value: bytes) -> bool:
        """Append one record of the transaction; False if the buffer is full."""
        queue = self.accumulator.set_topic(topic, len(self.view.topics[topic].partitions)).queues[partition]
        for _ in range(2):
            if queue.open is None and not self.accumulator.open_batch(queue, self.world.now_ms):
                return False
            if self.accumulator.try_append(queue, self.world.wall_ms, None, value, ()) >= 0:
                self.sent += 1
                send = self._op.send((topic, partition), value)
                (queue.open or queue.batches[-1]).delivery.append(send)
                return True
        return False

    # --- ends ---------------------------------------------------------------------------------------------

    def _prepare(self) -> Steps:
        """Prepare the transaction for the driver; if that fails it is never committed. This producer ends."""
        self._op.outcome = Outcome.FAIL
        if self.transactions.state is TxnState.IN_TRANSACTION and (yield from self._flush_all()):
            identity = self._identity()
            body = PrepareTxnRequest(self.transactional_id or "", *identity)
            answer = yield from self._coordinator.insist(PREPARE_TXN, body, error_of, lambda: False)
            if not isinstance(answer, KafkaError):
                self.cluster.rules.marks["transaction prepared"] += 1
                self._op.outcome = Outcome.INFO
                self.app.drive(self._op, identity)
        self.transactions.fail(KafkaError("its work is done"))

    def _commit(self) -> Steps:
        if not (yield from self._flush_all()):
            return
        error = yield from self._finish(is_commit=True)
        if error is None:
            self._op.outcome = Outcome.OK
            self.app.committed += 1
            self.cluster.rules.marks["transaction committed"] += 1
        elif self.transactions.is_open:
            yield from self._abort()
        else:
            self.cluster.rules.marks["outcome unknown"] += 1

    def _flush_all(self) -> Steps:
        """Wait until all records are acknowledged; otherwise abort, and return False."""
        self.transactions.commit()
        self.accumulator.seal_all()
        live = self.accumulator.flush(self.world.now_ms)
        self._poll()
        yield from self._until(lambda: not any(batch in self.accumulator.live for batch in live))
        if self.transactions.state is not TxnState.COMMITTING:
            if self.transactions.is_open:
                yield from self._abort()
            else:
                self._op.outcome = Outcome.FAIL
            return False
        return True

    def _identity(self) -> Identity:
        assert self.sender.sequences is not None
        identity = self.sender.sequences.identity
        assert identity is not None
        return identity

    def _abort(self) -> Steps:
        self.transactions.abort()
        error = TransactionAbortedError("aborted before it was stored")
        self._do(self.sender.fail_unsent(error, self.world.now_ms))
        yield from self._until(lambda: not self.accumulator.live)
        self._op.outcome = Outcome.FAIL
        if (yield from self._finish(is_commit=False)) is None:
            self.cluster.rules.marks["transaction aborted"] += 1

    def _finish(self, *, is_commit: bool) -> Steps:
        """Send EndTxn. Returns None, or the error that is not retriable."""
        identity = self._identity()
        if self.transactions.has_begun or self.sender.counters.batches_sent != self._sent_before:
            body = EndTxnRequest(self.transactional_id or "", *identity, is_commit)
            answer = yield from self._coordinator.insist(END_TXN, body, error_of, lambda: False)
            if isinstance(answer, KafkaError):
                self._refused(answer)
                return answer
            identity = Identity(answer.producer_id, answer.producer_epoch)
        self.sender.on_identity(identity, self.world.now_ms)
        self.transactions.ended()
        return None

    def _refused(self, error: KafkaError) -> None:
        self.transactions.refused(error)
        assert self.transactions.error is not None
        if self.transactions.state is TxnState.FATAL_ERROR:
            self.cluster.rules.marks["fenced off"] += 1
        self._do(self.sender.fail_unsent(self.transactions.error, self.world.now_ms))

    # --- sending ------------------------------------------------------------------------------------------

    def _until(self, condition: Callable[[], bool]) -> Steps:
        if not condition():
            yield lambda resume: setattr(self, "_waits", (condition, resume))

    def _poll(self) -> None:
        if self.has_ended:
            return
        super()._poll()
        if self._waits is not None and self._waits[0]():
            (_, resume), self._waits = self._waits, None
            resume(None)

    def _resolve(self, resolved: Resolve) -> None:
        sends = resolved.batch.delivery
        if resolved.error is None:
            for index, send in enumerate(sends):
                send.offset = resolved.base_offset + index
            key = (resolved.batch.queue.topic.name, resolved.batch.queue.partition)
            self.cluster.rules.on_acknowledged(key, {send.offset: send.value for send in sends})
            return
        before = self.transactions.state
        self.transactions.failed(resolved.error, of_batch=True)
        if self.transactions.state is not before:
            assert self.transactions.error is not None
            self._do(self.sender.fail_unsent(self.transactions.error, self.world.now_ms))


class Driver(SimClient):
    """Commits or aborts the prepared transactions of one transactional id, after any delay."""

    def __init__(self, app: TransactionalApp) -> None:
        super().__init__(app.cluster, f"{app.name}.driver")
        self._seat = app
        self._coordinator = CoordinatorLink(self, TRANSACTION_KEY, app.transactional_id)

    def decide(self, op: Any, identity: Identity) -> Steps:
        """Commit or abort one transaction, and retry until the coordinator has decided."""
        is_commit = self.random.random() < 0.75
        yield from sleep(self, self.random.randrange(2 * TIMEOUT_MS))
        op.outcome = Outcome.OK if is_commit else Outcome.FAIL
        body = EndTxnRequest(self._seat.transactional_id, *identity, is_commit)
        # An error does not change the outcome: a retry may arrive after the next producer has begun.
        yield from self._coordinator.insist(END_TXN, body, error_of, lambda: False)
        self._seat.committed += is_commit
        self._seat.deciding -= 1


class TransactionalApp:
    """The application of one transactional id, which starts its producers; other code sees one producer."""

    make: Callable[[TransactionalApp, str], TransactionalProducer] = TransactionalProducer

    def __init__(self, cluster: SimCluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.transactional_id = f"id-{name}"
        self.gap_ms = max(cluster.plan.send_gap_ms, 50)
        self.is_sending = True
        self.committed = 0
        self.producers: list[TransactionalProducer] = []
        self.deciding = 0
        self._driver = Driver(self)

    @property
    def acknowledged(self) -> int:
        """Transactions whose commit was acknowledged."""
        return self.committed

    @property
    def is_done(self) -> bool:
        """Whether all producers have ended and all prepared transactions are decided."""
        has_ended = all(each.has_ended for each in self.producers)
        return not self.is_sending and not self.deciding and has_ended

    def start(self) -> None:
        """Start the next producer."""
        producer = self.make(self, f"{self.name}.{len(self.producers)}")
        self.producers.append(producer)
        producer.start()

    def may_begin(self, producer: TransactionalProducer) -> bool:
        """Whether this producer may begin another transaction; a zombie tries one now and then."""
        is_newest = producer is self.producers[-1]
        return self.is_sending and (is_newest or producer.random.random() < 0.5)

    def drive(self, op: Any, identity: Identity) -> None:
        """Have the driver decide a prepared transaction."""
        self.deciding += 1
        run(self._driver.decide(op, identity))

    def start_another(self) -> None:
        """Start another producer while the last one, now a zombie, still runs."""
        if self.is_sending:
            self.cluster.rules.marks["zombie"] += 1
            self.start()

    def producer_ended(self, producer: TransactionalProducer) -> None:
        """A producer has ended: start the next one."""
        if self.is_sending and producer is self.producers[-1]:
            world = self.cluster.world
            world.after(50, f"{self.name} goes on", lambda: self.start() if self.is_sending else None)
