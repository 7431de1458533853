"""Producer ids and transactions: clients to coordinators, coordinators to partitions, and what admins ask.

Source: Kafka's message schemas; KIP-98, KIP-360, KIP-447, KIP-664, KIP-890.
"""

from __future__ import annotations

import msgspec

from .groups import CommittedOffset, PartitionResult, TopicNamePartitions


class InitProducerIdRequest(msgspec.Struct, array_like=True, frozen=True):
    """A producer id for an idempotent producer (no transactional id: any node answers), or the next epoch of
    a transactional one, whose transaction under way is aborted. With a producer id and epoch: go on after an
    error as the one who has them (KIP-360)."""

    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    producer_id: int = -1
    producer_epoch: int = -1


class InitProducerIdResponse(msgspec.Struct, array_like=True, frozen=True):
    """The id and epoch to write with."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1
    error_detail: str = ""


class TransactionPartitions(msgspec.Struct, array_like=True, frozen=True):
    """The partitions of one transaction that are to be added, or with `verify_only` looked for."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    topics: tuple[TopicNamePartitions, ...]
    verify_only: bool = False


class AddPartitionsToTxnRequest(msgspec.Struct, array_like=True, frozen=True):
    """From a client before it writes, or, with transaction version 2, from the partitions' leaders."""

    transactions: tuple[TransactionPartitions, ...]


class AddedPartitions(msgspec.Struct, array_like=True, frozen=True):
    """With an error of the transaction there are no results."""

    transactional_id: str
    error_code: int
    results: tuple[PartitionResult, ...] = ()
    error_detail: str = ""


class AddPartitionsToTxnResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the transactions."""

    transactions: tuple[AddedPartitions, ...]


class AddOffsetsToTxnRequest(msgspec.Struct, array_like=True, frozen=True):
    """The offsets of a group will be committed by the transaction (transaction version 1)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


class AddOffsetsToTxnResponse(msgspec.Struct, array_like=True, frozen=True):
    """How it went."""

    error_code: int
    error_detail: str = ""


class PrepareTxnRequest(msgspec.Struct, array_like=True, frozen=True):
    """Nothing but EndTxn with this producer id and epoch ends the open transaction from here on, no timeout
    and no next producer, and nothing joins it any more. Again is no error."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class PrepareTxnResponse(msgspec.Struct, array_like=True, frozen=True):
    """Without an error it is prepared, wherever its coordinator moves to."""

    error_code: int
    error_detail: str = ""


class EndTxnRequest(msgspec.Struct, array_like=True, frozen=True):
    """Commit or abort. `bumps_epoch`: transaction version 2, in which each end moves the epoch (KIP-890)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    bumps_epoch: bool = True


class EndTxnResponse(msgspec.Struct, array_like=True, frozen=True):
    """The decision is safe; the markers follow. The id and epoch are those of the next transaction."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1
    error_detail: str = ""


class TxnOffsetCommitRequest(msgspec.Struct, array_like=True, frozen=True):
    """Offsets of a group that count when the transaction commits. `adds_partition`: transaction version 2,
    the group's coordinator adds its partition to the transaction."""

    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    offsets: tuple[CommittedOffset, ...]
    generation_id: int = -1  # or member epoch
    member_id: str = ""
    group_instance_id: str | None = None
    adds_partition: bool = True


class TxnOffsetCommitResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the request's offsets."""

    results: tuple[PartitionResult, ...]


# --- between servers --------------------------------------------------------------------------------------


class TransactionMarker(msgspec.Struct, array_like=True, frozen=True):
    """The end of a producer's transaction, for its partitions on the asked node."""

    producer_id: int
    producer_epoch: int
    committed: bool
    topics: tuple[TopicNamePartitions, ...]
    coordinator_epoch: int
    transaction_version: int = 2


class WriteTxnMarkersRequest(msgspec.Struct, array_like=True, frozen=True):
    """From a transaction coordinator, or from an admin who aborts a hanging transaction."""

    markers: tuple[TransactionMarker, ...]


class WrittenMarker(msgspec.Struct, array_like=True, frozen=True):
    """How it went with the partitions of one marker."""

    producer_id: int
    results: tuple[PartitionResult, ...]


class WriteTxnMarkersResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the markers, once they are committed."""

    markers: tuple[WrittenMarker, ...]


class AllocateProducerIdsRequest(msgspec.Struct, array_like=True, frozen=True):
    """A node wants a block of producer ids from the controller."""

    node_id: int
    broker_epoch: int


class AllocateProducerIdsResponse(msgspec.Struct, array_like=True, frozen=True):
    """The ids from `start` on are the node's alone."""

    error_code: int
    producer_id_start: int = -1
    producer_id_len: int = 0
    error_detail: str = ""


# --- admins -----------------------------------------------------------------------------------------------


class DescribeProducersRequest(msgspec.Struct, array_like=True, frozen=True):
    """Who writes with a producer id into these partitions, as the replica that is asked knows."""

    topics: tuple[TopicNamePartitions, ...]


class ActiveProducer(msgspec.Struct, array_like=True, frozen=True):
    """`current_txn_start_offset` -1: no transaction is open."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    current_txn_start_offset: int


class PartitionProducers(msgspec.Struct, array_like=True, frozen=True):
    """The producers of one partition."""

    topic: str
    partition: int
    error_code: int
    producers: tuple[ActiveProducer, ...] = ()
    error_detail: str = ""


class DescribeProducersResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the request."""

    partitions: tuple[PartitionProducers, ...]


class DescribeTransactionsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Transactions by transactional id."""

    transactional_ids: tuple[str, ...]


class DescribedTransaction(msgspec.Struct, array_like=True, frozen=True):
    """`state`: Empty, Ongoing, Prepared, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead,
    PrepareEpochFence. `start_ms` -1: none is under way; `prepared_ms` -1: it is not prepared."""

    error_code: int
    transactional_id: str
    state: str = ""
    timeout_ms: int = -1
    start_ms: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    topics: tuple[TopicNamePartitions, ...] = ()
    error_detail: str = ""
    prepared_ms: int = -1


class DescribeTransactionsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the ids."""

    transactions: tuple[DescribedTransaction, ...]


class ListTransactionsRequest(msgspec.Struct, array_like=True, frozen=True):
    """The transactional ids that the asked node coordinates; empty filters let all through. `duration_ms`:
    only transactions that have been under way for longer."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    duration_ms: int = -1
    transactional_id_pattern: str | None = None


class ListedTransaction(msgspec.Struct, array_like=True, frozen=True):
    """One transactional id; `prepared_ms` as of a DescribedTransaction."""

    transactional_id: str
    producer_id: int
    state: str
    prepared_ms: int = -1


class ListTransactionsResponse(msgspec.Struct, array_like=True, frozen=True):
    """`unknown_states`: filters that name no state."""

    error_code: int
    unknown_states: tuple[str, ...] = ()
    transactions: tuple[ListedTransaction, ...] = ()
    error_detail: str = ""
