"""The transactions of a producer on the event loop: requests to the coordinators, waits for deliveries.

`transactions.py` has the states and the meaning of errors. One call runs at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    ApiTimeoutError,
    HeadraceError,
    KafkaError,
    NetworkError,
    RequestTimedOutError,
    TransactionAbortedError,
    error_from_code,
)
from ...protocol.messages.groups import GROUP_KEY, TRANSACTION_KEY, CommittedOffset
from ...protocol.messages.registry import END_TXN, INIT_PRODUCER_ID, TXN_OFFSET_COMMIT
from ...protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest, TxnOffsetCommitRequest
from ..cluster.backoff import Backoff
from ..group.coordinator_io import CoordinatorLink, is_moved
from ..group.group_metadata import GroupMetadata
from ..group.offsets_to_commit import offsets_to_commit
from .batches import Identity
from .delivery_io import until_done
from .transactions import PreparedTransaction, Transactions, TxnState, wait_after

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractContextManager

    from ...protocol.messages.envelope import Api
    from ..cluster.hub_io import Hub
    from ..config import ProducerConfig
    from ..group.offsets_to_commit import Offsets
    from .effects import Effect
    from .sender import Sender


class TransactionManager:
    """The transactions of one producer.

    `turn` is the producer's lock, `perform` performs effects of its sender, `pump` polls that sender, and
    `refuse` makes `send` raise (None: no longer); it is called with the lock. All methods run on the loop.
    """

    def __init__(
        self,
        hub: Hub,
        config: ProducerConfig,
        sender: Sender,
        turn: AbstractContextManager[Any],
        perform: Callable[[tuple[Effect, ...]], None],
        pump: Callable[[], None],
        refuse: Callable[[HeadraceError | None], None],
    ) -> None:
        assert config.transactional_id is not None
        self._hub, self._config, self._sender = hub, config, sender
        self._turn, self._perform, self._pump, self._refuse = turn, perform, pump, refuse
        self._id = config.transactional_id
        self._transactions = Transactions(self._id)
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, hub.random)
        self._coordinator = self._link(TRANSACTION_KEY, self._id)
        self._groups: dict[str, CoordinatorLink] = {}
        self._call = asyncio.Lock()
        self._sent_before = 0  # `batches_sent` when the transaction began
        self._spent_ms = dict.fromkeys(("init", "begin", "send-offsets", "commit", "abort"), 0)
        refuse(self._transactions.refusal())

    async def init(self) -> None:
        """Initialize the transactional.id: fence older producers, and abort the transaction they left open.

        Errors: InvalidTxnStateError if it was done before, ApiTimeoutError after max.block.ms (call it
        again), fatal errors of the coordinator.
        """
        async with self._call:
            await self._init()

    async def begin(self) -> None:
        """Begin a transaction, after `init` if necessary. Errors: as `init`; InvalidTxnStateError if one is
        open."""
        async with self._call, self._timed("begin"):
            if self._transactions.state is TxnState.UNINITIALIZED:
                await self._init()
            with self._turn:
                self._transactions.begin()
                self._sent_before = self._sent
                self._sender.fail_unsent(None, self._hub.now_ms())
                self._refuse(None)

    async def send_offsets(self, offsets: Offsets, group: GroupMetadata) -> None:
        """Commit offsets of a group with the transaction.

        Errors: TransactionAbortableError (the member has lost its partitions, for instance),
        InvalidTxnStateError, ApiTimeoutError after max.block.ms, ProducerFencedError; TypeError, ValueError.
        """
        if not isinstance(group, GroupMetadata):
            raise TypeError(f"group_metadata= takes what consumer.group_metadata() gives, not {group!r}")
        wanted = offsets_to_commit(offsets)
        if wanted is None:
            raise TypeError("offsets= takes offsets by partition, not None")
        async with self._call, self._timed("send-offsets"):
            self._transactions.check_open("offsets are sent in transactions")
            if not wanted:
                return
            self._transactions.has_begun = True
            link = self._groups.get(group.group_id)
            if link is None:
                link = self._groups[group.group_id] = self._link(GROUP_KEY, group.group_id)
            identity = self.identity
            request = TxnOffsetCommitRequest(
                *(self._id, group.group_id, *identity),
                tuple(
                    CommittedOffset(*tp, offset.offset, offset.leader_epoch, offset.metadata)
                    for tp, offset in wanted.items()
                ),
                group.generation_id,
                group.member_id,
                group.group_instance_id,
            )
            await self._ask(link, TXN_OFFSET_COMMIT, request, _first_error)

    async def commit(self) -> None:
        """Wait until all records of the transaction are acknowledged, and commit it.

        Errors: TransactionAbortableError if records or offsets were not stored (abort then), ApiTimeoutError
        after max.block.ms, when the outcome is unknown (call it again), InvalidTxnStateError,
        ProducerFencedError.
        """
        async with self._call, self._timed("commit"):
            await self._store()
            await self._end(committed=True)

    async def prepare(self) -> PreparedTransaction:
        """Wait until all records of the transaction are acknowledged, and leave it open. Any client that has
        the result can commit or abort it, until transaction.timeout.ms have passed since it began, or prepare
        it at its coordinator (PrepareTxn): then neither a timeout nor a new producer of the id ends it.

        Errors: as `commit`.
        """
        async with self._call:
            await self._store()
            with self._turn:
                self._transactions.prepared()
                self._refuse(self._transactions.refusal())
            is_empty = not self._transactions.has_begun and self._sent_before == self._sent
            return PreparedTransaction(self._id, *self.identity, is_empty)

    async def abort(self) -> None:
        """Abort the transaction, after the requests in flight have ended. Records that were not sent fail
        with TransactionAbortedError. Errors: InvalidTxnStateError, ApiTimeoutError after max.block.ms (call
        it again), ProducerFencedError."""
        async with self._call, self._timed("abort"):
            with self._turn:
                self._transactions.abort()
                self._refuse(self._transactions.refusal())
                error = TransactionAbortedError("the transaction was aborted before the record was stored")
                effects = self._sender.fail_unsent(error, self._hub.now_ms())
                live = list(self._sender.accumulator.live)
            self._perform(effects)
            await until_done([batch.delivery for batch in live])
            await self._end(committed=False)

    async def close(self, timeout_s: float | None) -> None:
        """The producer is closed: abort an open transaction. The coordinator aborts one for which `timeout_s`
        is too short."""
        if self._transactions.is_open:
            with contextlib.suppress(HeadraceError, TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self.abort()

    def on_error(self, error: BaseException, *, of_batch: bool = False) -> None:
        """A record or offset of the open transaction was not stored; `of_batch` as in `Transactions`."""
        with self._turn:
            before = self._transactions.state
            self._transactions.failed(error, of_batch=of_batch)
            effects = self._after_error() if self._transactions.state is not before else ()
        if effects:
            self._perform(effects)

    def fail(self, reason: HeadraceError) -> None:
        """The producer has ended. Called with its lock."""
        self._transactions.fail(reason)

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open that can be aborted."""
        return self._transactions.is_open

    @property
    def is_over(self) -> bool:
        """Whether no transaction is open here, or only a prepared one."""
        return self._transactions.state in (TxnState.READY, TxnState.PREPARED)

    @property
    def identity(self) -> Identity:
        """The producer id and epoch of the open transaction, or of the next one; after `init`."""
        assert self._sender.sequences is not None
        identity = self._sender.sequences.identity
        assert identity is not None, "initialized"
        return identity

    def metrics(self) -> dict[str, float]:
        """The total time of each call, by Kafka's metric names; a `begin` that calls `init` has the time of
        both."""
        return {f"txn-{call}-time-ns-total": spent * 1_000_000 for call, spent in self._spent_ms.items()}

    # --- inside -----------------------------------------------------------------------------------------

    async def _init(self) -> None:
        with self._turn:
            self._transactions.init()
        request = InitProducerIdRequest(self._id, self._config.transaction_timeout_ms)
        try:
            async with self._timed("init"):
                answer = await self._ask(self._coordinator, INIT_PRODUCER_ID, request, _error_of)
        except (ApiTimeoutError, asyncio.CancelledError):
            if self._transactions.state is TxnState.INITIALIZING:
                self._transactions.not_initialized()
            raise
        with self._turn:
            identity = Identity(answer.producer_id, answer.producer_epoch)
            self._sender.on_identity(identity, self._hub.now_ms())
            self._transactions.initialized()
            self._refuse(self._transactions.refusal())

    async def _store(self) -> None:
        """Close the transaction for records, and wait until all are acknowledged. Errors: as `commit`."""
        with self._turn:
            self._transactions.commit()
            self._refuse(self._transactions.refusal())
            self._sender.accumulator.seal_all()
            live = self._sender.accumulator.flush(self._hub.now_ms())
        self._pump()
        await until_done([batch.delivery for batch in live])
        if self._transactions.state is not TxnState.COMMITTING:
            self._transactions.check_open()  # raises the error of a batch

    @property
    def _sent(self) -> int:
        return self._sender.counters.batches_sent

    async def _end(self, *, committed: bool) -> None:
        if self._transactions.has_begun or self._sent != self._sent_before:
            request = EndTxnRequest(self._id, *self.identity, committed)
            answer = await self._ask(self._coordinator, END_TXN, request, _error_of)
            identity = Identity(answer.producer_id, answer.producer_epoch)
        else:
            identity = self.identity  # neither coordinator nor partitions have a part of this transaction
        with self._turn:
            self._sender.on_identity(identity, self._hub.now_ms())
            self._transactions.ended()
            self._refuse(self._transactions.refusal())

    @contextlib.asynccontextmanager
    async def _timed(self, call: str) -> AsyncIterator[None]:
        began_ms = self._hub.now_ms()
        try:
            yield
        finally:
            self._spent_ms[call] += self._hub.now_ms() - began_ms

    async def _ask(
        self,
        link: CoordinatorLink,
        api: Api,
        request: Any,
        error_of: Callable[[Any], KafkaError | None],
    ) -> Any:
        """The response without an error. Errors: ApiTimeoutError after max.block.ms; otherwise the error of
        the transaction."""
        deadline_ms = self._hub.now_ms() + self._config.max_block_ms
        try:
            return await self._retried(link, api, request, deadline_ms, error_of)
        except KafkaError as error:
            with self._turn:
                self._transactions.refused(error)
                effects = self._after_error()
            self._perform(effects)
            assert self._transactions.error is not None
            raise self._transactions.error from error

    async def _retried(
        self,
        link: CoordinatorLink,
        api: Api,
        request: Any,
        deadline_ms: int,
        error_of: Callable[[Any], KafkaError | None],
    ) -> Any:
        failures, last = 0, ""
        while True:
            error: KafkaError | None
            try:
                answer = await link.ask(api, request, deadline_ms=deadline_ms)
                error = error_of(answer)
                if error is None:
                    return answer
            except KafkaError as lost:
                error = lost
            self._transactions.check_usable()
            if not error.retriable:
                raise error
            is_silence = isinstance(error, NetworkError | RequestTimedOutError)
            if not is_silence:
                last = f"; its last response: {error}"
            if is_moved(error):
                link.forget()
            failures += 1
            wait_ms = wait_after(error, failures, self._backoff)
            if self._hub.now_ms() + wait_ms >= deadline_ms:
                text = f"{api.name}: not done in time: {error}"
                raise ApiTimeoutError(text + last if is_silence else text) from error
            await asyncio.sleep(wait_ms / 1000)

    def _after_error(self) -> tuple[Effect, ...]:
        """With the lock: no batch of the transaction is sent any more."""
        error = self._transactions.error
        assert error is not None
        self._refuse(error)
        return self._sender.fail_unsent(error, self._hub.now_ms())

    def _link(self, key_type: int, key: str) -> CoordinatorLink:
        timeout_ms = self._config.request_timeout_ms
        return CoordinatorLink(
            self._hub, key, self._backoff, request_timeout_ms=timeout_ms, key_type=key_type
        )


def _error_of(answer: Any) -> KafkaError | None:
    return error_from_code(answer.error_code, answer.error_detail) if answer.error_code else None


def _first_error(answer: Any) -> KafkaError | None:
    """The error of a partition, one that is not retriable first."""
    codes = dict.fromkeys(result.error_code for result in answer.results if result.error_code)
    errors = [error_from_code(code) for code in codes]
    return min(errors, key=lambda error: error.retriable, default=None)
