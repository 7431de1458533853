"""The transaction coordinator of one partition of `__transaction_state`.

    client ── InitProducerId ───────────────► Empty
    client, leaders ── AddPartitionsToTxn ──► Ongoing
    drivers ── PrepareTxn ──────────────────► Prepared               if several transactions commit together
    client ── EndTxn ───────────────────────► PrepareCommit/Abort    once committed, markers are sent
    leaders ── all markers are written ─────► CompleteCommit/Abort

Invariant: markers are sent only after PrepareCommit/Abort is committed, and partitions of the next
transaction are added only after the completion of the previous one.
Source: Kafka TransactionCoordinator.scala, TransactionStateManager.scala.
"""

from __future__ import annotations

from functools import partial
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
from .listing import described, listed
from .markers import Markers
from .parked_requests import PARK_MS, ParkedRequest, ParkedRequests
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
    from collections.abc import Callable, Iterable, Sequence

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
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import ProducerIdAndEpoch, ShardContext, ShardMetrics, Token
    from .transaction import Partition

MAX_PARTITIONS = 10_000  # Bound: of one transaction; each of its records lists all of them
# Records per batch for timers and for completions, halved after a batch was too large. The rest follows in
# later turns of the event loop.
MAX_RECORDS, MAX_COMPLETIONS = 100, 1_000
_OVERDUE, _EXPIRED, _PARK, _RESUME = "overdue", "unused", "hold", "go on"


class TransactionShard:
    """Implements Shard. `_uncommitted_last_epochs`: `last_epoch` of transactions between their decision and
    the replay of their record, which does not contain it."""

    noop_record = Record(TransactionKey(""), None)  # no transactional id is empty

    def __init__(self, partition: int, context: ShardContext) -> None:
        self.partition = partition
        self._context = context
        self.transactions: dict[str, Transaction] = {}
        self._uncommitted_last_epochs: dict[str, int] = {}
        self._deadlines: dict[str, int | None] = {}  # of ongoing transactions; None: not computed yet
        self._initializing: set[str] = set()  # ids with an uncommitted InitProducerId
        self._halvings = 0  # of the number of records per batch
        self._markers = Markers(context, self._complete)
        self._parked_requests = ParkedRequests()
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
        handler = self._handlers.get(api.key)
        if handler is None:
            raise UnsupportedVersionError(f"the transaction coordinator does not support {api.name}")
        return handler(body, token, now)

    def replay(self, record: Record, _offset: int, _producer: ProducerIdAndEpoch) -> None:
        """Apply a record. Errors: InvalidRecordError for an invalid one."""
        transactional_id = record.key.transactional_id
        before = self.transactions.get(transactional_id)
        if record.value is None:
            self._state_counts.changed(before, None)
            self.transactions.pop(transactional_id, None)
            self._deadlines.pop(transactional_id, None)
            self._markers.end(transactional_id)
            return
        transaction = Transaction(record.value)
        last_epoch = self._uncommitted_last_epochs.pop(transactional_id, transaction.last_epoch)
        self.transactions[transactional_id] = transaction = transaction._replace(last_epoch=last_epoch)
        self._state_counts.changed(before, transaction)
        if transaction.state is TxnState.ONGOING:
            self._deadlines.setdefault(transactional_id)
        else:
            self._deadlines.pop(transactional_id, None)
        if transaction.state not in ENDING:
            self._markers.end(transactional_id)
            if transactional_id in self._parked_requests:
                self._context.timers.set(
                    (_RESUME, transactional_id), 0, self._resume_parked(transactional_id)
                )

    def replay_marker(self, producer: ProducerIdAndEpoch, *, is_commit: bool, offset: int) -> None:
        """No effect: transactions do not write to this topic."""

    def on_loaded(self, now: Now) -> Outcome:
        """Start timers; once the loaded records are committed, send the markers of all ending
        transactions."""
        self._state_counts.is_loaded = True
        config = self._context.config.now
        interval_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._context.timers.set(_OVERDUE, now.ms + interval_ms, self._abort_overdue)
        interval_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._context.timers.set(_EXPIRED, now.ms + interval_ms, self._delete_expired_ids)
        decided = [(name, each) for name, each in self.transactions.items() if each.state in ENDING]
        return Outcome(on_committed=lambda later: self._markers.begin(decided, later))

    def on_metadata(self, _image: MetadataImage, _delta: MetadataDelta | None, now: Now) -> Outcome:
        """Partitions may have new leaders."""
        return self._markers.on_metadata(now)

    def on_peer_gone(self, session: int, _now: Now) -> Outcome:
        """Drop waiting requests of the closed connection."""
        self._parked_requests.forget(session)
        return Outcome()

    def metrics(self) -> ShardMetrics:
        return self._state_counts.metrics()

    def offset_groups(self) -> list[str]:
        """None: this shard has no groups."""
        return []

    def committed_offsets(self, group_id: str) -> list[tuple[TopicPartition, int]]:
        """None."""
        return []

    def close(self) -> list[Token]:
        """Requests that wait for the end of a transaction; the runtime knows those that wait for commits."""
        return list(self._parked_requests.tokens())

    # --- requests --------------------------------------------------------------------------------------

    def _init_producer_id(self, body: InitProducerIdRequest, token: Token, now: Now) -> Outcome:
        name = body.transactional_id
        if not name:
            raise InvalidRequestError("the transactional id must not be empty")
        longest_ms = self._context.config.now.transaction_max_timeout_ms
        if not 0 < body.transaction_timeout_ms <= longest_ms:
            raise InvalidTransactionTimeoutError(
                f"transaction timeout {body.transaction_timeout_ms} ms is not within 1..{longest_ms} ms"
            )
        # A retry of an uncommitted InitProducerId must not use up another epoch.
        if name in self._initializing:
            raise ConcurrentTransactionsError(
                f"another InitProducerId of transactional id {name!r} is in progress: retry"
            )
        before, take_id = self.transactions.get(name), partial(self._context.next_producer_id, now.ms)
        if before is None:
            after = created(body, now.wall_ms, take_id())
        else:
            try:
                after = initialized(before, body, now.wall_ms, take_id)
            except ConcurrentTransactionsError as error:
                if before.state not in ENDING:  # its driver may end it at any later time
                    raise
                return self._park(name, ParkedRequest(registry.INIT_PRODUCER_ID, body, token, error), now)
        if after.state in ENDING:
            outcome = self._write_decisions([(name, after)])
            detail = "the previous producer's transaction is being aborted: retry"
            code = ConcurrentTransactionsError.code
            outcome.answer(token, InitProducerIdResponse(code, error_detail=detail))
            return outcome
        self._initializing.add(name)
        outcome = self._write([(name, after)], undo=lambda: self._initializing.discard(name))
        outcome.on_committed = lambda _: self._initialized(name)
        outcome.answer(token, InitProducerIdResponse(0, after.value.producer_id, after.value.producer_epoch))
        return outcome

    def _initialized(self, name: str) -> Outcome:
        self._initializing.discard(name)
        return Outcome()

    def _add_partitions(self, body: AddPartitionsToTxnRequest, token: Token, now: Now) -> Outcome:
        changed: dict[str, Transaction] = {}
        answers = tuple(self._added(each, changed, now) for each in body.transactions)
        answer = AddPartitionsToTxnResponse(answers)
        if [each.error_code for each in answers] == [ConcurrentTransactionsError.code]:
            asked = body.transactions[0]
            request = ParkedRequest(registry.ADD_PARTITIONS_TO_TXN, body, token, answer)
            if not asked.verify_only:  # a verification concerns the current transaction, not the next one
                return self._park(asked.transactional_id, request, now)
        outcome = self._write(list(changed.items()))
        outcome.answer(token, answer)
        return outcome

    def _added(
        self, asked: TransactionPartitions, changed: dict[str, Transaction], now: Now
    ) -> AddedPartitions:
        """The result for one transaction; its new value is put into `changed`."""
        name = asked.transactional_id
        partitions = [(each.topic, number) for each in asked.topics for number in each.partitions]
        try:
            if not name or len(partitions) > MAX_PARTITIONS:
                raise InvalidRequestError(
                    f"the transactional id is empty, or there are more than {MAX_PARTITIONS} partitions"
                )
            before = changed.get(name, self.transactions.get(name))
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
        topics = self._context.image.topics
        return {
            (topic, number): UnknownTopicOrPartitionError.code
            for topic, number in partitions
            if topic not in topics or not 0 <= number < len(topics[topic].partitions)
        }

    def _add_offsets(self, body: AddOffsetsToTxnRequest, token: Token, now: Now) -> Outcome:
        if not body.transactional_id or not body.group_id:
            raise InvalidRequestError("the transactional id and the group id must not be empty")
        name = body.transactional_id
        try:
            current = check_producer(self.transactions.get(name), body.producer_id, body.producer_epoch)
        except ConcurrentTransactionsError as error:
            return self._park(name, ParkedRequest(registry.ADD_OFFSETS_TO_TXN, body, token, error), now)
        topic = self._context.image.topics.get(CONSUMER_OFFSETS)
        if topic is None:
            raise CoordinatorNotAvailableError(f"topic {CONSUMER_OFFSETS} does not exist yet: retry")
        number = partition_of_id(body.group_id, len(topic.partitions))
        after = with_partitions(current, [(CONSUMER_OFFSETS, number)], now.wall_ms)
        pairs = [] if after is None else [(name, _bounded(after))]
        outcome = self._write(pairs)
        outcome.answer(token, AddOffsetsToTxnResponse(0))
        return outcome

    def _prepare(self, body: PrepareTxnRequest, token: Token, now: Now) -> Outcome:
        name = body.transactional_id
        after = prepared(self.transactions.get(name), body, now.wall_ms)
        outcome = self._write([] if after is None else [(name, after)])
        outcome.answer(token, PrepareTxnResponse(0))
        return outcome

    def _end(self, body: EndTxnRequest, token: Token, now: Now) -> Outcome:
        name = body.transactional_id
        if not name:
            raise InvalidRequestError("the transactional id must not be empty")
        before = self.transactions.get(name)
        after = ended(before, body, now.wall_ms, partial(self._context.next_producer_id, now.ms))
        outcome = self._write_decisions([] if after is None else [(name, after)])
        transaction = after or self.transactions[name]
        outcome.answer(
            token, EndTxnResponse(0, *next_producer(transaction)) if body.bumps_epoch else EndTxnResponse(0)
        )
        return outcome

    def _describe(self, body: DescribeTransactionsRequest, token: Token, _now: Now) -> Outcome:
        outcome = Outcome()
        outcome.answer(token, described(self.transactions, body))
        return outcome

    def _list(self, body: ListTransactionsRequest, token: Token, now: Now) -> Outcome:
        outcome = Outcome()
        outcome.answer(token, listed(self.transactions, body, now.wall_ms))
        return outcome

    # --- requests that wait for the end of a transaction ----------------------------------------------------

    def _park(self, name: str, request: ParkedRequest, now: Now) -> Outcome:
        """Park the request until the previous transaction has ended, for at most PARK_MS."""
        key = (_PARK, name)
        if not self._parked_requests.add(name, request):
            return _refused([request])
        if self._context.timers.deadline_of(key) is None:
            self._context.timers.set(
                key, now.ms + PARK_MS, lambda _: _refused(self._parked_requests.pop_all(name))
            )
        return Outcome()

    def _resume_parked(self, name: str) -> Callable[[Now], Outcome]:
        """After the end of a transaction: handle the oldest waiting request, then schedule the next."""

        def go_on(now: Now) -> Outcome:
            known = self.transactions.get(name)
            # An earlier one of them may have started a transaction that is ending: the others wait for its
            # end.
            if name not in self._parked_requests or (known is not None and known.state in ENDING):
                return Outcome()
            request = self._parked_requests.pop(name)
            if name in self._parked_requests:
                self._context.timers.set((_RESUME, name), 0, go_on)
            else:
                self._context.timers.cancel((_PARK, name))
            try:
                return self.handle(request.api, request.body, request.token, now)
            except KafkaError as error:
                return _refused([request._replace(refusal=error)])

        return go_on

    # --- records --------------------------------------------------------------------------------------------

    def _write(
        self, pairs: Sequence[tuple[str, Transaction]], undo: Callable[[], None] = lambda: None
    ) -> Outcome:
        """An outcome that writes the transactions."""
        for name, transaction in pairs:
            self._uncommitted_last_epochs[name] = transaction.last_epoch

        def failed(error: KafkaError, _now: Now) -> Outcome:
            for name, _ in pairs:
                self._uncommitted_last_epochs.pop(name, None)
            undo()
            self._refused(error, len(pairs))
            return Outcome()

        records = [Record(TransactionKey(name), transaction.value) for name, transaction in pairs]
        return Outcome(records, on_failed=failed)

    def _write_decisions(self, pairs: Sequence[tuple[str, Transaction]]) -> Outcome:
        """Write PrepareCommit or PrepareAbort, and send the markers once that is committed."""
        outcome = self._write(pairs)
        if pairs:
            outcome.on_committed = lambda now: self._markers.begin(pairs, now)
        return outcome

    def _complete(self, names: Sequence[str], now: Now) -> Outcome:
        """Write the completion of transactions that have all their markers; a failed append is retried."""
        most = self._most(MAX_COMPLETIONS)
        self._markers.again(names[most:], now)
        names = names[:most]
        pairs = [(name, completed(self.transactions[name], now.wall_ms)) for name in names]
        outcome = self._write(pairs)
        undo = outcome.on_failed

        def failed(error: KafkaError, later: Now) -> Outcome:
            self._markers.again(names, later)
            return undo(error, later) if undo is not None else Outcome()

        outcome.on_failed = failed
        return outcome

    # --- timers ---------------------------------------------------------------------------------------------

    def _abort_overdue(self, now: Now) -> Outcome:
        """Abort transactions that exceeded their timeout. Their deadlines are computed from the wall clock
        when they are first checked here: later changes of the wall clock do not abort them."""
        interval_ms = self._context.config.now.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._context.timers.set(_OVERDUE, now.ms + interval_ms, self._abort_overdue)
        names = [name for name in self._deadlines if self._is_overdue(name, now)]
        return self._in_parts(names, self._abort, 0, now)

    def _is_overdue(self, name: str, now: Now) -> bool:
        if name not in self._deadlines:
            return False
        deadline_ms = self._deadlines[name]
        if deadline_ms is None:
            value = self.transactions[name].value
            left_ms = min(max(value.start_ms + value.timeout_ms - now.wall_ms, 0), value.timeout_ms)
            deadline_ms = self._deadlines[name] = now.ms + left_ms
        return deadline_ms < now.ms

    def _abort(self, names: Sequence[str], now: Now) -> Outcome:
        overdue = [name for name in names if self._is_overdue(name, now)]
        return self._write_decisions(
            [(name, fenced(self.transactions[name], now.wall_ms)) for name in overdue]
        )

    def _delete_expired_ids(self, now: Now) -> Outcome:
        """Delete transactional ids that were unused for transactional.id.expiration.ms."""
        interval_ms = self._context.config.now.transaction_remove_expired_transaction_cleanup_interval_ms
        self._context.timers.set(_EXPIRED, now.ms + interval_ms, self._delete_expired_ids)
        names = [name for name in self.transactions if self._is_expired(name, now)]
        return self._in_parts(names, self._delete_ids, 0, now)

    def _is_expired(self, name: str, now: Now) -> bool:
        transaction = self.transactions.get(name)
        before_ms = now.wall_ms - self._context.config.now.transactional_id_expiration_ms
        return (
            transaction is not None
            and transaction.state in EXPIRING
            and transaction.value.last_update_ms <= before_ms
        )

    def _delete_ids(self, names: Sequence[str], now: Now) -> Outcome:
        records = [Record(TransactionKey(name), None) for name in names if self._is_expired(name, now)]

        def failed(error: KafkaError, _now: Now) -> Outcome:
            self._refused(error, len(records))
            return Outcome()

        return Outcome(records, on_failed=failed)

    def _in_parts(
        self, names: Sequence[str], decide: Callable[[Sequence[str], Now], Outcome], start: int, now: Now
    ) -> Outcome:
        """Decide on one batch of `names` from `start` on, and schedule the rest for a later turn."""
        end = start + self._most(MAX_RECORDS)
        if end < len(names):
            self._context.timers.set(decide, now.ms, lambda later: self._in_parts(names, decide, end, later))
        return decide(names[start:end], now)

    def _most(self, records: int) -> int:
        """Records per batch after halving."""
        return max(records >> self._halvings, 1)

    def _refused(self, error: KafkaError, records: int) -> None:
        """Halve the records per batch if the failed batch was too large."""
        if isinstance(error, MessageTooLargeError | RecordBatchTooLargeError) and records > 1:
            self._halvings += 1


def _refused(requests: Iterable[ParkedRequest]) -> Outcome:
    outcome = Outcome()
    for request in requests:
        outcome.answer(request.token, request.refusal)
    return outcome


def _bounded(transaction: Transaction) -> Transaction:
    count = sum(len(each.partitions) for each in transaction.value.partitions or ())
    if count > MAX_PARTITIONS:
        raise InvalidRequestError(
            f"the transaction has {count} partitions, at most {MAX_PARTITIONS} are allowed"
        )
    return transaction
