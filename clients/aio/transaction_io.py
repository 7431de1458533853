"""Transactions of the asyncio producer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from ...protocol.errors import (
    HeadraceError,
    InvalidTxnStateError,
    TransactionAbortableError,
    TransactionAbortedError,
)
from ..records import K, V

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

    from ..arrow.sending_io import ArrowData
    from ..group.group_metadata import GroupMetadata
    from ..group.offsets_to_commit import Offsets
    from ..producer.delivery_io import BatchResult
    from ..producer.producer_io import ProducerEngine
    from ..producer.transactional_io import TransactionalHalf
    from ..producer.transactions import PreparedTransaction
    from ..records import HeadersLike, ProducerRecord, Record, RecordMetadata, TimestampLike
    from .consumer_io import AsyncConsumer
    from .lines_io import Lines
    from .producer_io import AsyncProducer


class AsyncTransactionalCalls:
    """The calls of a producer that are about transactions. Each takes up to max.block.ms; one that ends with
    ApiTimeoutError is to be called again."""

    _lines: Lines

    @property
    def _engine(self) -> ProducerEngine:
        raise NotImplementedError

    async def init_transactions(self) -> None:
        """Become the producer of this transactional.id; the first transaction does it, if nobody did.

        Fences off the producer before, and aborts what that left open. Errors: ApiTimeoutError,
        InvalidTxnStateError (called twice, or without a transactional.id), KafkaError.
        """
        await self._half.init()

    async def begin_transaction(self) -> None:
        """Open a transaction: what is sent from now on belongs to it.

        Errors: InvalidTxnStateError if one is open, ProducerFencedError, ApiTimeoutError.
        """
        await self._half.begin()

    async def send_offsets_to_transaction(self, offsets: Offsets, group_metadata: GroupMetadata) -> None:
        """Let a group's next offsets count when the transaction commits; `group_metadata` is the consumer's.

        Errors: TransactionAbortableError, for instance if the consumer lost the partitions; else as
        `begin_transaction`.
        """
        await self._half.send_offsets(offsets, group_metadata)

    async def commit_transaction(self) -> None:
        """Wait until everything sent is acknowledged, and commit: readers of committed data see all of it.

        Errors: TransactionAbortableError if something was not stored (abort then), ApiTimeoutError when the
        outcome is not known (call again), InvalidTxnStateError, ProducerFencedError.
        """
        half = self._half
        await self._lines.until_buffered()
        await half.commit()

    async def prepare_transaction(self) -> PreparedTransaction:
        """Wait until everything sent is acknowledged, and leave the transaction open, after `close` too:
        whoever has what this returns can end it, until it is aborted after transaction.timeout.ms.

        Errors: as `commit_transaction`. Source: KIP-939.
        """
        half = self._half
        await self._lines.until_buffered()
        return await half.prepare()

    async def abort_transaction(self) -> None:
        """Undo the open transaction: readers of committed data see nothing of it.

        What was not sent yet ends with TransactionAbortedError. Errors: as `begin_transaction`.
        """
        try:
            await self._half.abort()
        finally:  # what still waits in line must not come into the next one
            await self._lines.end(TransactionAbortedError("the transaction was aborted"))

    def transaction(self) -> AsyncTransaction[Any, Any]:
        """`async with producer.transaction() as txn:`: commits at the end, aborts on an exception."""
        return AsyncTransaction(self, self._half)  # type: ignore[arg-type]

    @property
    def _half(self) -> TransactionalHalf:
        if self._engine.transactions is None:
            raise InvalidTxnStateError("transactions need a producer with transactional_id=...")
        return self._engine.transactions


class AsyncTransaction(Generic[K, V]):
    """One transaction, from `async with` to its end. An error of the commit is raised, and the transaction
    aborted if it can be; a commit that timed out may be repeated with `AsyncProducer.commit_transaction`."""

    def __init__(self, producer: AsyncProducer[K, V], half: TransactionalHalf) -> None:
        self._producer, self._half = producer, half
        self.send = producer.send  # type: ignore[method-assign]  # one call less for every record

    def send(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        partition: int | None = None,
        timestamp: TimestampLike | None = None,
        headers: HeadersLike = (),
    ) -> asyncio.Future[RecordMetadata]:
        """As `AsyncProducer.send`."""
        raise NotImplementedError

    async def send_many(self, topic: str, records: Iterable[ProducerRecord[K, V] | V | None]) -> BatchResult:
        """As `AsyncProducer.send_many`; what failed makes the commit fail."""
        return await self._producer.send_many(topic, records)

    async def send_arrow(self, topic: str, data: ArrowData, **columns: str | None) -> BatchResult:
        """As `AsyncProducer.send_arrow`; what failed makes the commit fail."""
        return await self._producer.send_arrow(topic, data, **columns)

    async def send_offsets(self, offsets: Offsets, group_metadata: GroupMetadata) -> None:
        """As `AsyncProducer.send_offsets_to_transaction`."""
        await self._producer.send_offsets_to_transaction(offsets, group_metadata)

    async def commit_offsets(
        self,
        consumer: AsyncConsumer[Any, Any],
        offsets: Record[Any, Any] | Iterable[Record[Any, Any]] | Offsets | None = None,
    ) -> None:
        """Let what a group's consumer has read count when the transaction commits: all that it has handed
        out, or what `Consumer.commit` takes. Auto-commit, if the consumer has it, ends with the first call:
        it would commit what a transaction over several polls may abort. Errors: ConfigError for a consumer
        without a group; as `send_offsets`."""
        await self.send_offsets(*consumer.offsets_for_transaction(offsets))

    async def __aenter__(self) -> Self:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        half = self._half
        if half.is_over:  # the block has ended it itself
            return
        if error is not None:
            if not half.is_open:  # fenced off, or a commit of unknown outcome: the error says so
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
