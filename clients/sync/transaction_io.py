"""Transactions of the synchronous producer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from ...protocol.errors import HeadraceError, InvalidTxnStateError, TransactionAbortableError
from ..records import K, V

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

    from ..arrow.sending_io import ArrowData
    from ..cluster.cluster_io import ClusterIo
    from ..group.group_metadata import GroupMetadata
    from ..group.offsets_to_commit import Offsets
    from ..producer.delivery_io import BatchResult, RecordFuture
    from ..producer.producer_io import ProducerEngine
    from ..producer.transactional_io import TransactionalHalf
    from ..producer.transactions import PreparedTransaction
    from ..records import HeadersLike, ProducerRecord, Record, TimestampLike
    from .consumer_io import Consumer
    from .producer_io import Producer


class TransactionalCalls:
    """The calls of a producer that are about transactions. Each takes up to max.block.ms; one that ends with
    ApiTimeoutError is to be called again."""

    _io: ClusterIo
    _engine: ProducerEngine

    def init_transactions(self) -> None:
        """Become the producer of this transactional.id; the first transaction does it, if nobody did.

        Fences off the producer before, and aborts what that left open. Errors: ApiTimeoutError,
        InvalidTxnStateError (called twice, or without a transactional.id), KafkaError.
        """
        self._io.call(self._half.init())

    def begin_transaction(self) -> None:
        """Open a transaction: what is sent from now on belongs to it.

        Errors: InvalidTxnStateError if one is open, ProducerFencedError, ApiTimeoutError.
        """
        self._io.call(self._half.begin())

    def send_offsets_to_transaction(self, offsets: Offsets, group_metadata: GroupMetadata) -> None:
        """Let a group's next offsets count when the transaction commits; `group_metadata` is the consumer's.

        Errors: TransactionAbortableError, for instance if the consumer lost the partitions; else as
        `begin_transaction`.
        """
        self._io.call(self._half.send_offsets(offsets, group_metadata))

    def commit_transaction(self) -> None:
        """Wait until everything sent is acknowledged, and commit: readers of committed data see all of it.

        Errors: TransactionAbortableError if something was not stored (abort then), ApiTimeoutError when the
        outcome is not known (call again), InvalidTxnStateError, ProducerFencedError.
        """
        self._io.call(self._half.commit())

    def prepare_transaction(self) -> PreparedTransaction:
        """Wait until everything sent is acknowledged, and leave the transaction open, after `close` too:
        whoever has what this returns can end it, until it is aborted after transaction.timeout.ms.

        Errors: as `commit_transaction`. Source: KIP-939.
        """
        return self._io.call(self._half.prepare())

    def abort_transaction(self) -> None:
        """Undo the open transaction: readers of committed data see nothing of it.

        What was not sent yet ends with TransactionAbortedError. Errors: as `begin_transaction`.
        """
        self._io.call(self._half.abort())

    def transaction(self) -> Transaction[Any, Any]:
        """`with producer.transaction() as txn:`: commits at the end, aborts on an exception."""
        return Transaction(self, self._half)  # type: ignore[arg-type]

    @property
    def _half(self) -> TransactionalHalf:
        if self._engine.transactions is None:
            raise InvalidTxnStateError("transactions need a producer with transactional_id=...")
        return self._engine.transactions


class Transaction(Generic[K, V]):
    """One transaction, from `with` to its end. An error of the commit is raised, and the transaction aborted
    if it can be; a commit that timed out may be repeated with `Producer.commit_transaction`."""

    def __init__(self, producer: Producer[K, V], half: TransactionalHalf) -> None:
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
    ) -> RecordFuture:
        """As `Producer.send`."""
        raise NotImplementedError

    def send_many(self, topic: str, records: Iterable[ProducerRecord[K, V] | V | None]) -> BatchResult:
        """As `Producer.send_many`; what failed makes the commit fail."""
        return self._producer.send_many(topic, records)

    def send_arrow(self, topic: str, data: ArrowData, **columns: str | None) -> BatchResult:
        """As `Producer.send_arrow`; what failed makes the commit fail."""
        return self._producer.send_arrow(topic, data, **columns)

    def send_offsets(self, offsets: Offsets, group_metadata: GroupMetadata) -> None:
        """As `Producer.send_offsets_to_transaction`."""
        self._producer.send_offsets_to_transaction(offsets, group_metadata)

    def commit_offsets(
        self,
        consumer: Consumer[Any, Any],
        offsets: Record[Any, Any] | Iterable[Record[Any, Any]] | Offsets | None = None,
    ) -> None:
        """Let what a group's consumer has read count when the transaction commits: all that it has handed
        out, or what `Consumer.commit` takes. Auto-commit, if the consumer has it, ends with the first call:
        it would commit what a transaction over several polls may abort. Errors: ConfigError for a consumer
        without a group; as `send_offsets`."""
        self.send_offsets(*consumer.offsets_for_transaction(offsets))

    def __enter__(self) -> Self:
        self._producer.begin_transaction()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        half = self._half
        if half.is_over:  # the block has ended it itself
            return
        if error is not None:
            if not half.is_open:  # fenced off, or a commit of unknown outcome: the error says so
                return
            try:
                self._producer.abort_transaction()
            except HeadraceError as failed:
                error.add_note(f"the transaction could not be aborted: {failed!r}")
            return
        try:
            self._producer.commit_transaction()
        except TransactionAbortableError:
            self._producer.abort_transaction()
            raise
