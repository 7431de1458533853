"""Clients that follow a script: the production cores, driven as in the simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_stage import TOPIC
from headrace.clients.cluster.backoff import Backoff
from headrace.clients.group.assignors import RangeAssignor
from headrace.clients.group.classic import ClassicMember
from sim_clients import SimClient, SimProducer
from sim_members import SimMember
from sim_scripts import run, sleep
from sim_transactions import TransactionalApp, TransactionalProducer

if TYPE_CHECKING:
    from cluster_stage import ClusterStage
    from sim_scripts import Steps


class ScriptedProducer(SimProducer):
    """An idempotent producer with acks=all."""

    def __init__(self, stage: ClusterStage, name: str) -> None:
        super().__init__(stage, name, acks=-1, gap_ms=0, producer_id=1)

    def start(self) -> None:
        """Ask for metadata."""
        SimClient.start(self)

    def send(self, partition: int, *values: bytes) -> None:
        """Send these values as one batch."""
        queue = self.accumulator.set_topic(TOPIC, self.cluster.plan.partitions).queues[partition]
        assert self.accumulator.open_batch(queue, self.world.now_ms)
        assert queue.open is not None
        for value in values:
            self.accumulator.try_append(queue, self.world.wall_ms, None, value, ())
            queue.open.delivery.append(self.process.send((TOPIC, partition), value))
        self.accumulator.seal_all()
        self._poll()

    @property
    def is_acknowledged(self) -> bool:
        """Whether every record has its outcome."""
        return not self.accumulator.live


class ScriptedMember(SimMember):
    """A member of a classic group that reads TOPIC and commits on command."""

    topic = TOPIC

    def __init__(self, stage: ClusterStage, name: str) -> None:
        super().__init__(stage, name, "billing")
        backoff = Backoff(20, 300, self.random)
        self.core = ClassicMember(self.core.config, (RangeAssignor(),), backoff)
        self.is_idle = True

    def _read_and_commit(self) -> Steps:
        while self.is_reading:
            self.apply_assignment()
            reads = self.take()
            if reads:
                yield from self._commit(reads)
            yield from sleep(self, 50)


class ScriptedTransactions(TransactionalProducer):
    """A transactional producer: each transaction writes one record to each of some partitions."""

    def __init__(self, stage: ClusterStage, transactional_id: str) -> None:
        app = TransactionalApp(stage, transactional_id)
        app.transactional_id = transactional_id
        super().__init__(app, "producer")
        app.producers.append(self)

    def _live(self) -> Steps:
        yield from self._become_producer()

    def transact(self, partitions: tuple[int, ...], *, is_commit: bool) -> None:
        """Begin a transaction, send, and end it."""
        run(self._transact_once(partitions, is_commit=is_commit))

    def _transact_once(self, partitions: tuple[int, ...], *, is_commit: bool) -> Steps:
        self._begin()
        for partition in partitions:
            assert self.put(TOPIC, partition, b"value %d" % partition)
        self.accumulator.seal_all()
        self._poll()
        yield from self._until(lambda: not self.accumulator.live)
        yield from self._commit() if is_commit else self._abort()
