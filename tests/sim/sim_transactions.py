"""Transactional producers in simulation: production cores, and a user who commits, aborts, dies, or stays.

Of each transactional id there is a `Seat`: it puts a new producer on when the one there has died or was
fenced off, and sometimes although it is well; the one before then goes on as a zombie, until it is told.
Some have their transaction prepared and go; a `Driver` ends it, when others want the id and its time is over.
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

SOURCE, COPY = "x", "y"  # what transactions write into; what copies the first, exactly once
TIMEOUT_MS = 2_500


class TransactionalProducer(SimProducer):
    """One producer of a transactional id; `seat` hears when it has ended."""

    def __init__(self, seat: Seat, name: str) -> None:
        super().__init__(seat.cluster, name, -1, seat.gap_ms, transactional_id=seat.transactional_id)
        self.seat = seat
        self.transactions = Transactions(seat.transactional_id)
        self._coordinator = CoordinatorLink(self, TRANSACTION_KEY, seat.transactional_id)
        self._op: Any = None
        self._sent_before = 0
        self._waits: tuple[Callable[[], bool], Callable[[Any], None]] | None = None
        self.has_ended = False

    @property
    def is_usable(self) -> bool:
        """Whether another transaction may begin."""
        return self.transactions.state is TxnState.READY

    # --- its life -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self._poll()
        run(self._live())

    def _live(self) -> Steps:
        yield from self._become_producer()
        while self.is_usable and self.seat.wants_more(self):
            yield from self._transact()
            yield from sleep(self, 1 + self.random.randrange(4 * self.seat.gap_ms))
        self._end()

    def _end(self) -> None:
        self.has_ended = True
        if self._timer is not None:
            self._timer.cancel()
        self.seat.left(self)

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
        """One transaction from its begin to its end."""
        self._begin()
        yield from self._fill()
        if self.random.random() < (0.06 if self.seat.is_sending else 0.5):
            # The process dies, nothing more is sent: of what was, the coordinator must make an end.
            yield from sleep(self, self.random.randrange(200))
            self._op.outcome = Outcome.FAIL
            self.transactions.fail(KafkaError("killed"))
            return
        if self.random.random() < 0.08:
            self.seat.take_over()
            yield from sleep(self, self.random.randrange(1_000))
        if self.random.random() < 0.1:
            yield from sleep(self, self.random.randrange(2 * TIMEOUT_MS))
        if self.cluster.plan.drivers and self.random.random() < 0.4:
            yield from self._hand_over()
            return
        wants_commit = self.random.random() < 0.75
        if wants_commit and self.transactions.state is TxnState.IN_TRANSACTION:
            yield from self._commit()
        elif self.transactions.is_open:
            yield from self._abort()
        else:
            self._op.outcome = Outcome.FAIL  # fenced off before any commit

    def _begin(self) -> None:
        self.transactions.begin()
        self._sent_before = self.sender.counters.batches_sent
        self.sender.fail_unsent(None, self.world.now_ms)
        self._op = self.process.txn()
        self.cluster.groups.begun(self._op)

    def _fill(self) -> Steps:
        """Send some records, in one go or with pauses."""
        for _ in range(self.random.randrange(1, 4)):
            if SOURCE in self.view.topics and self.transactions.state is TxnState.IN_TRANSACTION:
                for _ in range(self.random.randrange(1, 4)):
                    partition = self.random.randrange(len(self.view.topics[SOURCE].partitions))
                    self.put(SOURCE, partition, f"{self.name}/{self.sent}".encode())
                self._poll()
            if self.random.random() < 0.5:
                yield from sleep(self, self.random.randrange(1, 100))

    def put(self, topic: str, partition: int, value: bytes) -> bool:
        """One record of the transaction; whether there was room."""
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

    def _hand_over(self) -> Steps:
        """To a driver, if it can be prepared; if not nobody commits it. This producer goes."""
        self._op.outcome = Outcome.FAIL
        if self.transactions.state is TxnState.IN_TRANSACTION and (yield from self._store()):
            identity = self._identity()
            body = PrepareTxnRequest(self.transactional_id or "", *identity)
            answer = yield from self._coordinator.insist(PREPARE_TXN, body, error_of, lambda: False)
            if not isinstance(answer, KafkaError):
                self.cluster.rules.marks["transaction prepared"] += 1
                self._op.outcome = Outcome.INFO
                self.seat.drive(self._op, identity)
        self.transactions.fail(KafkaError("its work is done"))

    def _commit(self) -> Steps:
        if not (yield from self._store()):
            return
        error = yield from self._finish(is_commit=True)
        if error is None:
            self._op.outcome = Outcome.OK
            self.seat.committed += 1
            self.cluster.rules.marks["transaction committed"] += 1
        elif self.transactions.is_open:
            yield from self._abort()
        else:
            self.cluster.rules.marks["outcome unknown"] += 1

    def _store(self) -> Steps:
        """Whether all of it is acknowledged; if not it is undone."""
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
        """Have the transaction ended; None, or the error that no retry helps."""
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
    """Ends what is prepared of one transactional id: as it decides, whatever comes, and in its own time."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat.cluster, f"{seat.name}.driver")
        self._seat = seat
        self._coordinator = CoordinatorLink(self, TRANSACTION_KEY, seat.transactional_id)

    def decide(self, op: Any, identity: Identity) -> Steps:
        """One transaction."""
        is_commit = self.random.random() < 0.75
        yield from sleep(self, self.random.randrange(2 * TIMEOUT_MS))
        op.outcome = Outcome.OK if is_commit else Outcome.FAIL
        body = EndTxnRequest(self._seat.transactional_id, *identity, is_commit)
        # That it is refused tells nothing: it may come again, when the next producer has begun.
        yield from self._coordinator.insist(END_TXN, body, error_of, lambda: False)
        self._seat.committed += is_commit
        self._seat.deciding -= 1


class Seat:
    """One transactional id. In the cluster it stands for its producers."""

    make: Callable[[Seat, str], TransactionalProducer] = TransactionalProducer

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
        """Transactions whose commit was answered."""
        return self.committed

    @property
    def is_done(self) -> bool:
        """Whether nobody sends."""
        has_ended = all(each.has_ended for each in self.producers)
        return not self.is_sending and not self.deciding and has_ended

    def start(self) -> None:
        """The first producer begins."""
        producer = self.make(self, f"{self.name}.{len(self.producers)}")
        self.producers.append(producer)
        producer.start()

    def wants_more(self, producer: TransactionalProducer) -> bool:
        """Whether this producer may begin another transaction; a zombie tries one now and then."""
        is_newest = producer is self.producers[-1]
        return self.is_sending and (is_newest or producer.random.random() < 0.5)

    def drive(self, op: Any, identity: Identity) -> None:
        """Its transaction is prepared."""
        self.deciding += 1
        run(self._driver.decide(op, identity))

    def take_over(self) -> None:
        """Somebody believes that the producer here is dead."""
        if self.is_sending:
            self.cluster.rules.marks["zombie"] += 1
            self.start()

    def left(self, producer: TransactionalProducer) -> None:
        """It is over with this one."""
        if self.is_sending and producer is self.producers[-1]:
            world = self.cluster.world
            world.after(50, f"{self.name} goes on", lambda: self.start() if self.is_sending else None)
