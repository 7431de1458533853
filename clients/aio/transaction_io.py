"""The asyncio transactions of a producer."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Generic

from ...protocol.errors import HeadraceError, InvalidTxnStateError, TransactionAbortableError
from ..records import K, V

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    from ..arrow.sending_io import ArrowData
    from ..cluster.async_cluster_io import AsyncClusterIo
    from ..group.group_metadata import GroupMetadata
    from ..group.offsets_to_commit import Offsets
    from ..producer.delivery_io import AsyncRecordFuture, BatchResult
    from ..producer.transaction_manager_io import TransactionManager
    from ..producer.transactions import PreparedTransaction
    from ..records import HeadersLike, ProducerRecord, Record, TimestampLike
    from .consumer_io import AsyncConsumer


class AsyncSending(Generic[K, V]):
    """The ways to send of a producer, and of its transactions: there a record that fails makes the commit
    fail."""

    def send(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        partition: int | None = None,
        timestamp: TimestampLike | None = None,
        headers: HeadersLike = (),
    ) -> AsyncRecordFuture:
        """As `AsyncProducer.send`."""
        raise NotImplementedError

    async def send_many(self, topic: str, records: Iterable[ProducerRecord[K, V] | V | None]) -> BatchResult:
        """As `AsyncProducer.send_many`."""
        raise NotImplementedError

    async def send_arrow(
        self,
        topic: str,
        data: ArrowData,
        *,
        key: str | None = "key",
        value: str | None = "value",
        headers: str | None = "headers",
        partition: str | None = "partition",
        timestamp: str | None = "timestamp",
    ) -> BatchResult:
        """As `AsyncProducer.send_arrow`."""
        raise NotImplementedError


class AsyncTransactionalProducer(AsyncSending[K, V], Generic[K, V]):
    """The transactions of a producer. Each call takes up to max.block.ms; one that ends with ApiTimeoutError
    is to be called again."""

    _io: AsyncClusterIo

    def _transactions(self) -> TransactionManager | None:
        """None without a transactional.id."""
        raise NotImplementedError

    async def _until_buffered(self) -> None:
        """Wait until each record that was sent is in a batch."""
        raise NotImplementedError

    async def _drop_unbuffered(self) -> None:
        """Fail the records that are not in a batch yet: the transaction was aborted."""
        raise NotImplementedError

    def _commit_span(self) -> AbstractContextManager[None]:
        """Around the commit of a transaction."""
        return nullcontext()

    async def init_transactions(self) -> None:
        """Initialize the transactional.id; otherwise the first `begin_transaction` does.

        Fences older producers of the id, and aborts the transaction that they left open. Errors:
        ApiTimeoutError, InvalidTxnStateError (called twice, or without a transactional.id), KafkaError.
        """
        await self._io.call(self._transaction_manager.init())

    async def begin_transaction(self) -> None:
        """Begin a transaction; records that are sent from now on belong to it.

        Errors: InvalidTxnStateError if a transaction is open, ProducerFencedError, ApiTimeoutError.
        """
        await self._io.call(self._transaction_manager.begin())

    async def send_offsets_to_transaction(self, offsets: Offsets, group_metadata: GroupMetadata) -> None:
        """Commit offsets of a group with the transaction; `group_metadata` is that of the consumer.

        Errors: TransactionAbortableError, for instance if the consumer lost the partitions; else as
        `begin_transaction`.
        """
        await self._io.call(self._transaction_manager.send_offsets(offsets, group_metadata))

    async def commit_transaction(self) -> None:
        """Wait until all records of the transaction are acknowledged, and commit it.

        Errors: TransactionAbortableError if a record was not stored (abort then), ApiTimeoutError when the
        outcome is not known (call again), InvalidTxnStateError, ProducerFencedError.
        """
        half = self._transaction_manager
        with self._commit_span():
            await self._until_buffered()
            await self._io.call(half.commit())

    async def prepare_transaction(self) -> PreparedTransaction:
        """Wait until all records of the transaction are acknowledged, and leave it open, after `close` too.
        Any process that has the result can commit or abort it, until transaction.timeout.ms have passed.

        Errors: as `commit_transaction`. Source: KIP-939.
        """
        half = self._transaction_manager
        await self._until_buffered()
        return await self._io.call(half.prepare())

    async def abort_transaction(self) -> None:
        """Abort the open transaction: consumers of committed records see none of its records.

        Records that were not sent yet fail with TransactionAbortedError. Errors: as `begin_transaction`.
        """
        half = self._transaction_manager
        try:
            await self._io.call(half.abort())
        finally:  # these records must not join the next transaction
            await self._drop_unbuffered()

    def transaction(self) -> AsyncTransaction[K, V]:
        """`async with producer.transaction() as txn:` commits at the end of the block, or aborts when the
        block raises."""
        return AsyncTransaction(self, self._transaction_manager)

    @property
    def _transaction_manager(self) -> TransactionManager:
        half = self._transactions()
        if half is None:
            raise InvalidTxnStateError("transactions need a producer with transactional_id=...")
        return half


class AsyncTransaction(AsyncSending[K, V], Generic[K, V]):
    """One transaction, from `async with` to its end. An error of the commit is raised, and the transaction
    aborted if possible; a commit that timed out may be repeated with `AsyncProducer.commit_transaction`."""

    def __init__(self, producer: AsyncTransactionalProducer[K, V], half: TransactionManager) -> None:
        self._producer, self._transaction_manager = producer, half
        # Over the methods of the class: one call less for every record.
        self.send = producer.send  # type: ignore[method-assign]
        self.send_many = producer.send_many  # type: ignore[method-assign]
        self.send_arrow = producer.send_arrow  # type: ignore[method-assign]

    async def send_offsets(self, offsets: Offsets, group_metadata: GroupMetadata) -> None:
        """As `AsyncProducer.send_offsets_to_transaction`."""
        await self._producer.send_offsets_to_transaction(offsets, group_metadata)

    async def commit_offsets(
        self,
        consumer: AsyncConsumer[Any, Any],
        offsets: Record[Any, Any] | Iterable[Record[Any, Any]] | Offsets | None = None,
    ) -> None:
        """Commit offsets of a consumer in a group with the transaction: of all records that `poll` and
        iterations returned, or of what `AsyncConsumer.commit` takes. The first call ends the auto-commit of
        the consumer, which would commit records of a transaction that may abort. Errors: ConfigError for a
        consumer without a group; as `send_offsets`."""
        await self.send_offsets(*consumer.offsets_for_transaction(offsets))

    async def __aenter__(self) -> Self:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        half = self._transaction_manager
        if half.is_over:  # the block has ended it itself
            return
        if error is not None:
            if not half.is_open:  # fenced, or a commit with an unknown outcome: the error says so
                return
            try:
                await self._producer.abort_transaction()
            except HeadraceError as failed:
                error.add_note(f"the transaction could not be aborted: {failed!r}")
            return
        try:
            await self._producer.commit_transaction()
        except TransactionAbortableError:
            await self._producer.abort_transaction()
            raise
