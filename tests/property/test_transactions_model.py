"""Transactions under every fault of a coordinator, against a simple model.

Producers, two of them with the same transactional id, begin, write, end, repeat requests, and expire. The
coordinator moves to another node with or without its uncommitted state, its log refuses or does not commit,
marker requests and responses are lost, doubled and late, leaders move. Drivers prepare some transactions and
end them later, whatever the id's producers do meanwhile.
Laws: a transaction is committed or aborted as a whole, with the outcome of its response, which never changes;
a prepared one ends by its driver only; an id's producers never get an epoch twice, nor an older one; once the
faults end no request is pending.
"""

from dataclasses import dataclass, field
from typing import Any

from headrace.protocol import errors
from headrace.protocol.model import NO_NODE
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from recount import check_transaction_state_counts
from txn_rig import Call, TxnRig

KEYS = [("t", 0), ("t", 1), ("u", 0)]
NAMES = ["a", "a", "b"]  # transactional ids of the producers
RETRIABLE = {
    errors.ConcurrentTransactionsError.code,
    errors.CoordinatorLoadInProgressError.code,
    errors.NotEnoughReplicasError.code,
}


@dataclass(eq=False)
class Txn:
    """One transaction as its producer sees it, or its driver once `is_prepared`. `wanted`: the requested
    outcome, `answered`: the outcome of a response."""

    name: str
    producer: tuple[int, int]
    writes: list[tuple[tuple[str, int], int]] = field(default_factory=list)
    wanted: bool | None = None
    answered: bool | None = None
    is_prepared: bool = False


@dataclass(eq=False)
class Producer:
    """A client. While `txn.wanted` is set it only retries that EndTxn; while `recovers` is set it only
    retries InitProducerId."""

    name: str
    ids: tuple[int, int] | None = None
    txn: Txn | None = None
    recovers: bool = False

    def may_write(self) -> bool:
        """Whether a transaction is open, or can be."""
        return self.ids is not None and not self.recovers and (self.txn is None or self.txn.wanted is None)


class Transactions(RuleBasedStateMachine):
    """The faults and requests of the module's docstring."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = TxnRig()
        self.producers = [Producer(name) for name in NAMES]
        self.txns: list[Txn] = []
        self.given: dict[str, tuple[int, int]] = {}
        self.values = 0

    @initialize(epoch=st.sampled_from([None, 32_758, 32_763]))
    def long_ago(self, epoch: int | None) -> None:
        """Put an id into the log whose producer epoch is nearly exhausted."""
        if epoch is not None:
            self.rig.put(0, epoch, "a")

    # --- producers ---------------------------------------------------------------------------------------

    @rule(number=st.integers(0, 2), is_lost=st.booleans())
    def begin(self, number: int, is_lost: bool) -> None:
        producer = self.producers[number]
        call = self.rig.init(producer.name, timeout_ms=30_000)
        producer.ids = producer.txn = None
        producer.recovers = False
        if call.answers and call.code == 0:
            new = (call.answer.producer_id, call.answer.producer_epoch)
            assert new > self.given.get(producer.name, (-1, -1))
            self.given[producer.name] = new
            producer.ids = None if is_lost else new

    @rule(number=st.integers(0, 2), is_lost=st.booleans())
    def recover(self, number: int, is_lost: bool) -> None:
        """KIP-360, as after an error; a lost response is requested again."""
        producer = self.producers[number]
        if producer.ids is None:
            return
        call = self.rig.init(producer.name, producer.ids, timeout_ms=30_000)
        producer.txn, producer.recovers = None, True
        if not call.answers or (call.code and call.code not in RETRIABLE):
            producer.ids = None
        elif call.code == 0:
            new = (call.answer.producer_id, call.answer.producer_epoch)
            assert new > producer.ids
            assert new >= self.given[producer.name]
            self.given[producer.name] = new
            if not is_lost:
                producer.ids, producer.recovers = new, False

    @rule(
        number=st.integers(0, 2),
        keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3),
        is_commit=st.booleans(),
        is_lost=st.booleans(),
    )
    def transact(self, number: int, keys: list[tuple[str, int]], is_commit: bool, is_lost: bool) -> None:
        """A whole transaction, up to its first error."""
        for key in keys:
            self.write(number, key)
        self.end(number, is_commit, is_lost)

    @rule(number=st.integers(0, 2), key=st.sampled_from(KEYS))
    def write(self, number: int, key: tuple[str, int]) -> None:
        producer = self.producers[number]
        if producer.ids is None:
            self.begin(number, is_lost=False)
        if not producer.may_write():
            return
        assert producer.ids is not None
        if producer.txn is None:
            producer.txn = Txn(producer.name, producer.ids)
            self.txns.append(producer.txn)
        self.values += 1
        if self.rig.write(producer.ids, key, self.values, producer.name):
            producer.txn.writes.append((key, self.values))

    @rule(number=st.integers(0, 2), is_commit=st.booleans(), is_lost=st.booleans())
    def end(self, number: int, is_commit: bool, is_lost: bool) -> None:
        producer = self.producers[number]
        txn = producer.txn
        if producer.ids is None or txn is None:
            return
        if txn.wanted is None:
            txn.wanted = is_commit
        call = self.rig.end(producer.ids, commit=txn.wanted, name=producer.name)
        if is_lost:
            self._received(txn, call)
            return
        if not call.answers or call.code in RETRIABLE:
            return
        self._received(txn, call)
        producer.txn = None
        producer.ids = None
        if call.code == 0:
            producer.ids = (call.answer.producer_id, call.answer.producer_epoch)
            assert producer.ids > txn.producer

    def _received(self, txn: Txn, call: Call) -> None:
        if call.answers and call.code == 0:
            assert txn.wanted is not None
            txn.answered = txn.wanted

    # --- drivers -----------------------------------------------------------------------------------------

    @rule(number=st.integers(0, 2), is_lost=st.booleans())
    def prepare(self, number: int, is_lost: bool) -> None:
        """The producer ends: the next one with its id starts again."""
        producer = self.producers[number]
        txn = producer.txn
        if producer.ids is None or txn is None or txn.wanted is not None or not txn.writes:
            return
        call = self.rig.prepare(txn.producer, txn.name)
        txn.is_prepared = bool(call.answers) and call.code == 0 and not is_lost
        producer.txn = producer.ids = None

    @precondition(lambda self: any(txn.is_prepared for txn in self.txns))
    @rule(data=st.data(), is_commit=st.booleans(), is_lost=st.booleans())
    def a_driver_ends_a_prepared_transaction(self, data: Any, is_commit: bool, is_lost: bool) -> None:
        """Successfully, or with a retriable error."""
        txn = data.draw(st.sampled_from([txn for txn in self.txns if txn.is_prepared]))
        if txn.wanted is None:
            txn.wanted = is_commit
        call = self.rig.end(txn.producer, commit=txn.wanted, name=txn.name)
        if call.answers and call.code not in RETRIABLE and not is_lost:
            assert call.code == 0 or self._is_ended(txn), "a prepared transaction is gone"
            txn.answered, txn.is_prepared = txn.wanted, False

    def _is_ended(self, txn: Txn) -> bool:
        """Whether the next producer has begun since, so that a retry is refused."""
        leaders = self.rig.leaders
        return all(
            value in (leaders[key].committed if txn.wanted else leaders[key].aborted)
            for key, value in txn.writes
        )

    @precondition(lambda self: self.txns)
    @rule(data=st.data())
    def a_word_of_a_driver_arrives_late(self, data: Any) -> None:
        """A late EndTxn of an earlier driver: the transaction stays prepared for the next driver."""
        txn = data.draw(st.sampled_from(self.txns))
        self.rig.prepare(txn.producer, txn.name)

    @precondition(lambda self: any(txn.wanted is not None for txn in self.txns))
    @rule(data=st.data())
    def an_end_arrives_late(self, data: Any) -> None:
        """A repeated EndTxn arrives much later (KAFKA-17754)."""
        txn = data.draw(st.sampled_from([txn for txn in self.txns if txn.wanted is not None]))
        call = self.rig.end(txn.producer, commit=txn.wanted, name=txn.name)
        self._received(txn, call)

    @precondition(lambda self: self.txns)
    @rule(data=st.data(), key=st.sampled_from(KEYS))
    def a_zombie_writes(self, data: Any, key: tuple[str, int]) -> None:
        """A write with the epoch of an earlier transaction: if it is accepted, it belongs to that
        transaction."""
        txn = data.draw(st.sampled_from(self.txns))
        self.values += 1
        if self.rig.write(txn.producer, key, self.values, txn.name):
            txn.writes.append((key, self.values))

    # --- markers -----------------------------------------------------------------------------------------

    @precondition(lambda self: self.rig.asks)
    @rule(data=st.data(), how=st.sampled_from(["arrives", "arrives", "no answer", "again", "lost"]))
    def a_request_for_markers(self, data: Any, how: str) -> None:
        index = data.draw(st.integers(0, len(self.rig.asks) - 1))
        if how == "lost":
            self.rig.lose(index)
        else:
            self.rig.deliver(index, is_lost=how == "no answer", again=how == "again")

    @rule(key=st.sampled_from(KEYS), leader=st.sampled_from([NO_NODE, 1, 2, 2]))
    def a_leader_moves(self, key: tuple[str, int], leader: int) -> None:
        self.rig.move(key, leader)

    @rule(key=st.sampled_from(KEYS), code=st.sampled_from([0, 0, 6, 19, 7]))
    def a_leader_refuses(self, key: tuple[str, int], code: int) -> None:
        self.rig.leaders[key].refuses = code

    # --- the coordinator ---------------------------------------------------------------------------------

    @rule(keeps=st.integers(0, 5))
    def the_coordinator_moves(self, keeps: int) -> None:
        self.rig.restart(keeps=self.rig.high_watermark + keeps)

    @rule(is_on=st.sampled_from([True, False, False]))
    def commits_stand_still(self, is_on: bool) -> None:
        self.rig.commits_at_once = not is_on
        if not is_on:
            self.rig.commit()

    @rule(count=st.integers(1, 3))
    def some_is_committed(self, count: int) -> None:
        self.rig.commit(min(len(self.rig.log), self.rig.high_watermark + count))

    @rule(is_on=st.sampled_from([True, False, False]))
    def the_log_refuses(self, is_on: bool) -> None:
        self.rig.refuses = errors.NotEnoughReplicasError("one replica") if is_on else None

    @rule(milliseconds=st.sampled_from([100, 1_000, 45_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.rig.pass_time(milliseconds)

    # --- laws --------------------------------------------------------------------------------------------

    @invariant()
    def ids_are_counted(self) -> None:
        check_transaction_state_counts(self.rig.shard)

    @invariant()
    def what_was_answered_holds(self) -> None:
        """All written markers agree with the answered outcome."""
        for txn in self.txns:
            for key, value in txn.writes:
                leader = self.rig.leaders[key]
                assert not (value in leader.committed and value in leader.aborted)
                if txn.answered is not None:
                    assert value not in (leader.aborted if txn.answered else leader.committed)

    @invariant()
    def prepared_transactions_are_open(self) -> None:
        """No marker is written before a driver ends the transaction."""
        for txn in (txn for txn in self.txns if txn.is_prepared and txn.wanted is None):
            for key, value in txn.writes:
                assert value in self.rig.leaders[key].open[txn.producer[0]]

    def teardown(self) -> None:
        rig = self.rig
        rig.refuses = None
        rig.commits_at_once = True
        rig.commit()
        for key in KEYS:
            rig.leaders[key].refuses = 0
            rig.move(key, 1)
        rig.settle()
        for txn in (txn for txn in self.txns if txn.is_prepared):
            txn.wanted = txn.wanted is not False
            call = rig.end(txn.producer, commit=txn.wanted, name=txn.name)
            is_taken = call.code in (0, errors.ConcurrentTransactionsError.code)
            assert is_taken or self._is_ended(txn), "a prepared transaction is gone"
            txn.answered = txn.wanted
        for name in set(NAMES) & rig.shard.transactions.keys():  # of drivers that did not get a response
            if rig.state(name) == "Prepared":
                value = rig.known(name).value
                rig.end((value.producer_id, value.producer_epoch), commit=False, name=name)
        rig.pass_time(60_000)
        rig.settle()
        assert all(not leader.open for leader in rig.leaders.values())
        for name in rig.shard.transactions:
            assert rig.state(name) in ("Empty", "CompleteCommit", "CompleteAbort")
        for txn in self.txns:
            found = {value in rig.leaders[key].committed for key, value in txn.writes}
            assert len(found) <= 1, "torn"
            assert all(
                value in rig.leaders[key].committed + rig.leaders[key].aborted for key, value in txn.writes
            )
            if found:
                (is_committed,) = found
                assert not is_committed or txn.wanted
                assert txn.answered in (None, is_committed)


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=150, stateful_step_count=80)
