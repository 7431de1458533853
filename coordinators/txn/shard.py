"""The transaction coordinator of one partition of `__transaction_state`.

    client ── InitProducerId ───────────────► Empty
    client, leaders ── AddPartitionsToTxn ──► Ongoing
    drivers ── PrepareTxn ──────────────────► Prepared               if there are many to commit together
    client ── EndTxn ───────────────────────► PrepareCommit/Abort    committed: the markers go out
    leaders ── all markers are written ─────► CompleteCommit/Abort

Invariant: no marker leaves before its decision is committed, and no partition of the next transaction is
added before the completion of the one before is committed with it.
Source: Kafka TransactionCoordinator.scala, TransactionStateManager.scala.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.coordinator_ids import partition_of_id
from ...protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    KafkaError,
    MessageTooLargeError,
    OperationNotAttemptedError,
    RecordBatchTooLargeError,
    TransactionAbortableError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from ...protocol.messages import registry
from ...protocol.messages.groups import PartitionResult
from ...protocol.messages.transactions import (
    AddedPartitions,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
    PrepareTxnResponse,
)
from ...protocol.model import CONSUMER_OFFSETS
from ...protocol.records.transaction_records import TransactionKey
from ..runtime.ports import Outcome, Record
from .held import HOLD_MS, Held, HeldRequest
from .listing import described, listed
from .markers import Markers
from .states import ENDING, EXPIRING, TxnState
from .transaction import (
    Transaction,
    check_producer,
    completed,
    created,
    ended,
    fenced,
    initialized,
    next_producer,
    prepared,
    with_partitions,
)
from .transaction_state_counts import TransactionStateCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ...protocol.messages.envelope import Api
    from ...protocol.messages.transactions import (
        AddOffsetsToTxnRequest,
        AddPartitionsToTxnRequest,
        DescribeTransactionsRequest,
        EndTxnRequest,
        InitProducerIdRequest,
        ListTransactionsRequest,
        PrepareTxnRequest,
        TransactionPartitions,
    )
    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ...protocol.model import TopicPartition
    from ..runtime.ports import Now, ShardMetrics, Stamp, Surroundings, Token
    from .transaction import Partition

MAX_PARTITIONS = 10_000  # Bound: of one transaction, all of which are in each of its records
# In one batch, fewer once it was too large: what one timer decides, and completions. The rest follows when
# others had their turn.
MAX_RECORDS, MAX_COMPLETIONS = 100, 1_000
_OVERDUE, _UNUSED, _HOLD, _GO_ON = "overdue", "unused", "hold", "go on"


class TransactionShard:
    """A Shard. `_coming` is what records do not say of what they bring, from the decision to the replay."""

    nothing = Record(TransactionKey(""), None)  # no transaction has this id

    def __init__(self, partition: int, around: Surroundings) -> None:
        self.partition = partition
        self._around = around
        self._known: dict[str, Transaction] = {}
        self._coming: dict[str, int] = {}
        self._deadlines: dict[str, int | None] = {}  # of the ongoing; None: not looked at yet
        self._beginning: set[str] = set()  # ids whose new producer is not committed yet
        self._halvings = 0  # of what goes into one batch
        self._markers = Markers(around, self._complete)
        self._held = Held()
        self._state_counts = TransactionStateCounts()
        self._handlers: dict[int, Callable[[Any, Token, Now], Outcome]] = {
            registry.INIT_PRODUCER_ID.key: self._init_producer_id,
            registry.ADD_PARTITIONS_TO_TXN.key: self._add_partitions,
            registry.ADD_OFFSETS_TO_TXN.key: self._add_offsets,
            registry.PREPARE_TXN.key: self._prepare,
            registry.END_TXN.key: self._end,
            registry.DESCRIBE_TRANSACTIONS.key: self._describe,
            registry.LIST_TRANSACTIONS.key: self._list,
        }

    # --- events ----------------------------------------------------------------------------------------

    def handle(self, api: Api, body: Any, token: Token, now: Now) -> Outcome:
        """See Shard."""
        handler = self._handlers.get(api.key)
        if handler is None:
            raise UnsupportedVersionError(f"the transaction coordinator does not serve {api.name}")
        return handler(body, token, now)

    def replay(self, record: Record, _offset: int, _stamp: Stamp) -> None:
        """See Shard. Errors: InvalidRecordError for what no coordinator wrote."""
        transactional_id = record.key.transactional_id
        before = self._known.get(transactional_id)
        if record.value is None:
            self._state_counts.changed(before, None)
            self._known.pop(transactional_id, None)
            self._deadlines.pop(transactional_id, None)
            self._markers.end(transactional_id)
            return
        transaction = Transaction(record.value)
        last_epoch = self._coming.pop(transactional_id, transaction.last_epoch)
        self._known[transactional_id] = transaction = transaction._replace(last_epoch=last_epoch)
        self._state_counts.changed(before, transaction)
        if transaction.state is TxnState.ONGOING:
            self._deadlines.setdefault(transactional_id)
        else:
            self._deadlines.pop(transactional_id, None)
        if transaction.state not in ENDING:
            self._markers.end(transactional_id)
            if transactional_id in self._held:
                self._around.timers.set((_GO_ON, transactional_id), 0, self._going_on(transactional_id))

    def replay_marker(self, stamp: Stamp, *, is_commit: bool, offset: int) -> None:
        """No transaction writes here."""

    def on_loaded(self, now: Now) -> Outcome:
        """What was decided is ended, once it is committed that it was decided."""
        self._state_counts.is_loaded = True
        config = self._around.config.now
        interval_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._around.timers.set(_OVERDUE, now.ms + interval_ms, self._abort_overdue)
        interval_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._around.timers.set(_UNUSED, now.ms + interval_ms, self._forget_unused)
        decided = [(name, each) for name, each in self._known.items() if each.state in ENDING]
        return Outcome(on_committed=lambda later: self._markers.begin(decided, later))

    def on_metadata(self, _image: MetadataImage, _delta: MetadataDelta | None, now: Now) -> Outcome:
        """Partitions may have found leaders."""
        return self._markers.on_metadata(now)

    def on_peer_gone(self, session: int, _now: Now) -> Outcome:
        """What it asked for is not done."""
        self._held.forget(session)
        return Outcome()

    def metrics(self) -> ShardMetrics:
        """See Shard."""
        return self._state_counts.metrics()

    def committed_offsets(self) -> Iterator[tuple[str, TopicPartition, int]]:
        """None: no groups are here."""
        return iter(())

    def close(self) -> list[Token]:
        """Those that wait for an end; others wait for commits."""
        return list(self._held.tokens())

    # --- requests --------------------------------------------------------------------------------------

    def _init_producer_id(self, body: InitProducerIdRequest, token: Token, now: Now) -> Outcome:
        name = body.transactional_id
        if not name:
            raise InvalidRequestError("a transactional id must not be empty")
        longest_ms = self._around.config.now.transaction_max_timeout_ms
        if not 0 < body.transaction_timeout_ms <= longest_ms:
            raise InvalidTransactionTimeoutError(
                f"{body.transaction_timeout_ms} ms is not within 1..{longest_ms} ms"
            )
        # While a new producer is not committed, retries must not use up further epochs.
        if name in self._beginning:
            raise ConcurrentTransactionsError("another producer begins with this id")
        before, take_id = self._known.get(name), self._around.next_producer_id
        if before is None:
            after = created(body, now.wall_ms, take_id())
        else:
            try:
                after = initialized(before, body, now.wall_ms, take_id)
            except ConcurrentTransactionsError as error:
                if before.state not in ENDING:  # nobody knows when who has prepared it comes
                    raise
                return self._hold(name, HeldRequest(registry.INIT_PRODUCER_ID, body, token, error), now)
        if after.state in ENDING:
            outcome = self._decided([(name, after)])
            detail = "the transaction of the producer before is aborted first"
            code = ConcurrentTransactionsError.code
            outcome.answer(token, InitProducerIdResponse(code, error_detail=detail))
            return outcome
        self._beginning.add(name)
        outcome = self._recorded([(name, after)], undo=lambda: self._beginning.discard(name))
        outcome.on_committed = lambda _: self._begun(name)
        outcome.answer(token, InitProducerIdResponse(0, after.value.producer_id, after.value.producer_epoch))
        return outcome

    def _begun(self, name: str) -> Outcome:
        self._beginning.discard(name)
        return Outcome()

    def _add_partitions(self, body: AddPartitionsToTxnRequest, token: Token, now: Now) -> Outcome:
        changed: dict[str, Transaction] = {}
        answers = tuple(self._added(each, changed, now) for each in body.transactions)
        answer = AddPartitionsToTxnResponse(answers)
        if [each.error_code for each in answers] == [ConcurrentTransactionsError.code]:
            asked = body.transactions[0]
            request = HeldRequest(registry.ADD_PARTITIONS_TO_TXN, body, token, answer)
            if not asked.verify_only:  # the records of who asks for that belong to no next transaction
                return self._hold(asked.transactional_id, request, now)
        outcome = self._recorded(list(changed.items()))
        outcome.answer(token, answer)
        return outcome

    def _added(
        self, asked: TransactionPartitions, changed: dict[str, Transaction], now: Now
    ) -> AddedPartitions:
        """One transaction's answer; what becomes of it is put into `changed`."""
        name = asked.transactional_id
        partitions = [(each.topic, number) for each in asked.topics for number in each.partitions]
        try:
            if not name or len(partitions) > MAX_PARTITIONS:
                raise InvalidRequestError(f"no transactional id, or more than {MAX_PARTITIONS} partitions")
            before = changed.get(name, self._known.get(name))
            current = check_producer(before, asked.producer_id, asked.producer_epoch)
            codes = self._unknown(partitions)
            if asked.verify_only:
                missing = [each for each in partitions if each not in codes and not current.has(each)]
                codes.update(dict.fromkeys(missing, TransactionAbortableError.code))
            elif codes:
                untried = [each for each in partitions if each not in codes]
                codes.update(dict.fromkeys(untried, OperationNotAttemptedError.code))
            else:
                after = with_partitions(current, partitions, now.wall_ms)
                if after is not None:
                    changed[name] = _bounded(after)
        except KafkaError as error:
            return AddedPartitions(name, error.code, (), error.detail)
        return AddedPartitions(
            name, 0, tuple(PartitionResult(*each, codes.get(each, 0)) for each in partitions)
        )

    def _unknown(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        topics = self._around.image.topics
        return {
            (topic, number): UnknownTopicOrPartitionError.code
            for topic, number in partitions
            if topic not in topics or not 0 <= number < len(topics[topic].partitions)
        }

    def _add_offsets(self, body: AddOffsetsToTxnRequest, token: Token, now: Now) -> Outcome:
        if not body.transactional_id or not body.group_id:
            raise InvalidRequestError("a transactional id and a group id must not be empty")
        name = body.transactional_id
        try:
            current = check_producer(self._known.get(name), body.producer_id, body.producer_epoch)
        except ConcurrentTransactionsError as error:
            return self._hold(name, HeldRequest(registry.ADD_OFFSETS_TO_TXN, body, token, error), now)
        topic = self._around.image.topics.get(CONSUMER_OFFSETS)
        if topic is None:
            raise CoordinatorNotAvailableError(f"there is no {CONSUMER_OFFSETS} yet")
        number = partition_of_id(body.group_id, len(topic.partitions))
        after = with_partitions(current, [(CONSUMER_OFFSETS, number)], now.wall_ms)
        pairs = [] if after is None else [(name, _bounded(after))]
        outcome = self._recorded(pairs)
        outcome.answer(token, AddOffsetsToTxnResponse(0))
        return outcome

    def _prepare(self, body: PrepareTxnRequest, token: Token, now: Now) -> Outcome:
        name = body.transactional_id
        after = prepared(self._known.get(name), body, now.wall_ms)
        outcome = self._recorded([] if after is None else [(name, after)])
        outcome.answer(token, PrepareTxnResponse(0))
        return outcome

    def _end(self, body: EndTxnRequest, token: Token, now: Now) -> Outcome:
        name = body.transactional_id
        if not name:
            raise InvalidRequestError("a transactional id must not be empty")
        before = self._known.get(name)
        after = ended(before, body, now.wall_ms, self._around.next_producer_id)
        outcome = self._decided([] if after is None else [(name, after)])
        transaction = after or self._known[name]
        outcome.answer(
            token, EndTxnResponse(0, *next_producer(transaction)) if body.bumps_epoch else EndTxnResponse(0)
        )
        return outcome

    def _describe(self, body: DescribeTransactionsRequest, token: Token, _now: Now) -> Outcome:
        outcome = Outcome()
        outcome.answer(token, described(self._known, body))
        return outcome

    def _list(self, body: ListTransactionsRequest, token: Token, now: Now) -> Outcome:
        outcome = Outcome()
        outcome.answer(token, listed(self._known, body, now.wall_ms))
        return outcome

    # --- requests that wait for an end -----------------------------------------------------------------

    def _hold(self, name: str, request: HeldRequest, now: Now) -> Outcome:
        """The transaction before is being ended: its end is near."""
        key = (_HOLD, name)
        if not self._held.add(name, request):
            return _refused([request])
        if self._around.timers.deadline_of(key) is None:
            self._around.timers.set(key, now.ms + HOLD_MS, lambda _: _refused(self._held.pop_all(name)))
        return Outcome()

    def _going_on(self, name: str) -> Callable[[Now], Outcome]:
        """The end has come: the first of those that wait is asked anew, then the next."""

        def go_on(now: Now) -> Outcome:
            known = self._known.get(name)
            # One of them may have begun what is being ended now: the others wait for that.
            if name not in self._held or (known is not None and known.state in ENDING):
                return Outcome()
            request = self._held.pop(name)
            if name in self._held:
                self._around.timers.set((_GO_ON, name), 0, go_on)
            else:
                self._around.timers.cancel((_HOLD, name))
            try:
                return self.handle(request.api, request.body, request.token, now)
            except KafkaError as error:
                return _refused([request._replace(refusal=error)])

        return go_on

    # --- decisions -------------------------------------------------------------------------------------

    def _recorded(
        self, pairs: Sequence[tuple[str, Transaction]], undo: Callable[[], None] = lambda: None
    ) -> Outcome:
        """Write what transactions become."""
        for name, transaction in pairs:
            self._coming[name] = transaction.last_epoch

        def failed(error: KafkaError, _now: Now) -> Outcome:
            for name, _ in pairs:
                self._coming.pop(name, None)
            undo()
            self._refused(error, len(pairs))
            return Outcome()

        records = [Record(TransactionKey(name), transaction.value) for name, transaction in pairs]
        return Outcome(records, on_failed=failed)

    def _decided(self, pairs: Sequence[tuple[str, Transaction]]) -> Outcome:
        """Write decisions, and then have the markers written."""
        outcome = self._recorded(pairs)
        if pairs:
            outcome.on_committed = lambda now: self._markers.begin(pairs, now)
        return outcome

    def _complete(self, names: Sequence[str], now: Now) -> Outcome:
        """These have all their markers. What cannot be written now is tried again."""
        most = self._most(MAX_COMPLETIONS)
        self._markers.again(names[most:], now)
        names = names[:most]
        pairs = [(name, completed(self._known[name], now.wall_ms)) for name in names]
        outcome = self._recorded(pairs)
        undo = outcome.on_failed

        def failed(error: KafkaError, later: Now) -> Outcome:
            self._markers.again(names, later)
            return undo(error, later) if undo is not None else Outcome()

        outcome.on_failed = failed
        return outcome

    # --- time ------------------------------------------------------------------------------------------

    def _abort_overdue(self, now: Now) -> Outcome:
        """Transactions that took too long. By the wall clock as it is when they are first seen here: later
        jumps of it end none."""
        interval_ms = self._around.config.now.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._around.timers.set(_OVERDUE, now.ms + interval_ms, self._abort_overdue)
        names = [name for name in self._deadlines if self._is_overdue(name, now)]
        return self._in_parts(names, self._abort, 0, now)

    def _is_overdue(self, name: str, now: Now) -> bool:
        if name not in self._deadlines:
            return False
        deadline_ms = self._deadlines[name]
        if deadline_ms is None:
            value = self._known[name].value
            left_ms = min(max(value.start_ms + value.timeout_ms - now.wall_ms, 0), value.timeout_ms)
            deadline_ms = self._deadlines[name] = now.ms + left_ms
        return deadline_ms < now.ms

    def _abort(self, names: Sequence[str], now: Now) -> Outcome:
        overdue = [name for name in names if self._is_overdue(name, now)]
        return self._decided([(name, fenced(self._known[name], now.wall_ms)) for name in overdue])

    def _forget_unused(self, now: Now) -> Outcome:
        """Transactional ids that nobody used for long."""
        interval_ms = self._around.config.now.transaction_remove_expired_transaction_cleanup_interval_ms
        self._around.timers.set(_UNUSED, now.ms + interval_ms, self._forget_unused)
        names = [name for name in self._known if self._is_unused(name, now)]
        return self._in_parts(names, self._forget, 0, now)

    def _is_unused(self, name: str, now: Now) -> bool:
        transaction = self._known.get(name)
        before_ms = now.wall_ms - self._around.config.now.transactional_id_expiration_ms
        return (
            transaction is not None
            and transaction.state in EXPIRING
            and transaction.value.last_update_ms <= before_ms
        )

    def _forget(self, names: Sequence[str], now: Now) -> Outcome:
        records = [Record(TransactionKey(name), None) for name in names if self._is_unused(name, now)]

        def failed(error: KafkaError, _now: Now) -> Outcome:
            self._refused(error, len(records))
            return Outcome()

        return Outcome(records, on_failed=failed)

    def _in_parts(
        self, names: Sequence[str], decide: Callable[[Sequence[str], Now], Outcome], start: int, now: Now
    ) -> Outcome:
        """Decide on MAX_RECORDS of them from `start` on, and on the rest when others had their turn."""
        end = start + self._most(MAX_RECORDS)
        if end < len(names):
            self._around.timers.set(decide, now.ms, lambda later: self._in_parts(names, decide, end, later))
        return decide(names[start:end], now)

    def _most(self, records: int) -> int:
        """How many records a batch may have."""
        return max(records >> self._halvings, 1)

    def _refused(self, error: KafkaError, records: int) -> None:
        """A batch could not be written; if it was too large, the next ones have fewer records."""
        if isinstance(error, MessageTooLargeError | RecordBatchTooLargeError) and records > 1:
            self._halvings += 1


def _refused(requests: Iterable[HeldRequest]) -> Outcome:
    outcome = Outcome()
    for request in requests:
        outcome.answer(request.token, request.refusal)
    return outcome


def _bounded(transaction: Transaction) -> Transaction:
    count = sum(len(each.partitions) for each in transaction.value.partitions or ())
    if count > MAX_PARTITIONS:
        raise InvalidRequestError(f"{count} partitions in one transaction, at most {MAX_PARTITIONS}")
    return transaction
