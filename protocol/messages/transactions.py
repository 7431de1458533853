"""Producer ids and transactions: requests of clients, coordinators, partition leaders and admins.

Source: Kafka's message schemas; KIP-98, KIP-360, KIP-447, KIP-664, KIP-890.
"""

from __future__ import annotations

import msgspec

from .groups import CommittedOffset, PartitionResult, TopicNamePartitions


class InitProducerIdRequest(msgspec.Struct, array_like=True, frozen=True):
    """A producer id for an idempotent producer (without transactional id: any node answers), or the next
    epoch of a transactional one, whose open transaction is aborted. With producer id and epoch: the same
    producer continues after an error (KIP-360)."""

    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    producer_id: int = -1
    producer_epoch: int = -1


class InitProducerIdResponse(msgspec.Struct, array_like=True, frozen=True):
    """The producer id and epoch."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1
    error_detail: str = ""


class TransactionPartitions(msgspec.Struct, array_like=True, frozen=True):
    """Partitions of one transaction to add, or with `verify_only` to verify."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    topics: tuple[TopicNamePartitions, ...]
    verify_only: bool = False


class AddPartitionsToTxnRequest(msgspec.Struct, array_like=True, frozen=True):
    """Sent by a client before it writes, or, in transaction version 2, by partition leaders."""

    transactions: tuple[TransactionPartitions, ...]


class AddedPartitions(msgspec.Struct, array_like=True, frozen=True):
    """Without results if the transaction has an error."""

    transactional_id: str
    error_code: int
    results: tuple[PartitionResult, ...] = ()
    error_detail: str = ""


class AddPartitionsToTxnResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the transactions."""

    transactions: tuple[AddedPartitions, ...]


class AddOffsetsToTxnRequest(msgspec.Struct, array_like=True, frozen=True):
    """The transaction will commit offsets of a group (transaction version 1)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


class AddOffsetsToTxnResponse(msgspec.Struct, array_like=True, frozen=True):
    """The result; without an error the group's partition is part of the transaction."""

    error_code: int
    error_detail: str = ""


class PrepareTxnRequest(msgspec.Struct, array_like=True, frozen=True):
    """Prepare the open transaction: from here on only EndTxn with this producer id and epoch ends it, not a
    timeout or a new producer, and no partition can be added. Idempotent."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class PrepareTxnResponse(msgspec.Struct, array_like=True, frozen=True):
    """Without an error the transaction is prepared, durably."""

    error_code: int
    error_detail: str = ""


class EndTxnRequest(msgspec.Struct, array_like=True, frozen=True):
    """Commit or abort. `bumps_epoch`: transaction version 2, in which each end increments the epoch
    (KIP-890)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    bumps_epoch: bool = True


class EndTxnResponse(msgspec.Struct, array_like=True, frozen=True):
    """The decision is committed; markers follow. Producer id and epoch are those of the next transaction."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1
    error_detail: str = ""


class TxnOffsetCommitRequest(msgspec.Struct, array_like=True, frozen=True):
    """Offsets of a group that become visible when the transaction commits. `adds_partition`: transaction
    version 2, in which the group coordinator adds its partition to the transaction."""

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
    """Results in the order of the request's offsets."""

    results: tuple[PartitionResult, ...]


# --- between servers --------------------------------------------------------------------------------------


class TransactionMarker(msgspec.Struct, array_like=True, frozen=True):
    """The end of a producer's transaction, for its partitions on the receiving node."""

    producer_id: int
    producer_epoch: int
    committed: bool
    topics: tuple[TopicNamePartitions, ...]
    coordinator_epoch: int
    transaction_version: int = 2


class WriteTxnMarkersRequest(msgspec.Struct, array_like=True, frozen=True):
    """Sent by a transaction coordinator, or by an admin that aborts a hanging transaction."""

    markers: tuple[TransactionMarker, ...]


class WrittenMarker(msgspec.Struct, array_like=True, frozen=True):
    """The results of one marker."""

    producer_id: int
    results: tuple[PartitionResult, ...]


class WriteTxnMarkersResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the markers, once they are committed."""

    markers: tuple[WrittenMarker, ...]


class AllocateProducerIdsRequest(msgspec.Struct, array_like=True, frozen=True):
    """A node requests a block of producer ids from the controller."""

    node_id: int
    broker_epoch: int


class AllocateProducerIdsResponse(msgspec.Struct, array_like=True, frozen=True):
    """The ids from `start` on belong to the node."""

    error_code: int
    producer_id_start: int = -1
    producer_id_len: int = 0
    error_detail: str = ""


# --- admins -----------------------------------------------------------------------------------------------


class DescribeProducersRequest(msgspec.Struct, array_like=True, frozen=True):
    """Producers with an id and their open transactions, as known to the receiving replica."""

    topics: tuple[TopicNamePartitions, ...]


class ActiveProducer(msgspec.Struct, array_like=True, frozen=True):
    """`current_txn_start_offset` -1: no open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    current_txn_start_offset: int


class PartitionProducers(msgspec.Struct, array_like=True, frozen=True):
    """The producers of one partition, or an error."""

    topic: str
    partition: int
    error_code: int
    producers: tuple[ActiveProducer, ...] = ()
    error_detail: str = ""


class DescribeProducersResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request."""

    partitions: tuple[PartitionProducers, ...]


class DescribeTransactionsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Describe transactions by transactional id."""

    transactional_ids: tuple[str, ...]


class DescribedTransaction(msgspec.Struct, array_like=True, frozen=True):
    """`state`: Empty, Ongoing, Prepared, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead,
    PrepareEpochFence. `start_ms` -1: no open transaction; `prepared_ms` -1: not prepared."""

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
    """Results in the order of the ids."""

    transactions: tuple[DescribedTransaction, ...]


class ListTransactionsRequest(msgspec.Struct, array_like=True, frozen=True):
    """The transactional ids that the receiving node coordinates; empty filters match all. `duration_ms`: only
    transactions that have been open for longer."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    duration_ms: int = -1
    transactional_id_pattern: str | None = None


class ListedTransaction(msgspec.Struct, array_like=True, frozen=True):
    """One transactional id; `prepared_ms` as in DescribedTransaction."""

    transactional_id: str
    producer_id: int
    state: str
    prepared_ms: int = -1


class ListTransactionsResponse(msgspec.Struct, array_like=True, frozen=True):
    """`unknown_states`: filters that are not the name of a state."""

    error_code: int
    unknown_states: tuple[str, ...] = ()
    transactions: tuple[ListedTransaction, ...] = ()
    error_detail: str = ""
