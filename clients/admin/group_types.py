"""Results of the admin client about groups and transactions: frozen values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.model import TopicPartition


class GroupType(StrEnum):
    """The protocol of a group."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    STREAMS = "streams"
    UNKNOWN = "unknown"  # not known to this client

    @classmethod
    def _missing_(cls, value: object) -> GroupType:
        return cls.UNKNOWN


class GroupState(StrEnum):
    """Kafka's names. Classic groups prepare and complete rebalances, others assign and reconcile; a streams
    group is not ready while topics of its topology are missing."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"
    UNKNOWN = "Unknown"  # not known to this client

    @classmethod
    def _missing_(cls, value: object) -> GroupState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group. `protocol_type` is "consumer" for all that read topics, "streams" for streams groups, ""
    before the first member."""

    group_id: str
    group_type: GroupType
    state: GroupState
    protocol_type: str


@dataclass(frozen=True, slots=True)
class GroupMemberDescription:
    """A member and its assignment. `target` is the target assignment; in classic groups, which have none, it
    is the same, and `member_epoch` is -1. While a classic group rebalances, assignments are empty."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...]
    member_epoch: int = -1
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group, of any type. `assignor` is "" without one; the epochs are -1 for classic groups;
    `coordinator` is a node id."""

    group_id: str
    group_type: GroupType
    state: GroupState
    protocol_type: str
    assignor: str
    coordinator: int
    members: tuple[GroupMemberDescription, ...]
    group_epoch: int = -1
    assignment_epoch: int = -1


class TransactionState(StrEnum):
    """Kafka's names, and Prepared: open until its driver ends it."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARED = "Prepared"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"
    UNKNOWN = "Unknown"  # not known to this client

    @classmethod
    def _missing_(cls, value: object) -> TransactionState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """One transactional id, and its coordinator; `prepared_ms`: the time of its prepare, None without one."""

    transactional_id: str
    producer_id: int
    state: TransactionState
    coordinator: int
    prepared_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The state of a transactional id at its coordinator. `start_ms` is None without an open transaction,
    `prepared_ms` unless it is prepared; `partitions` are those of the transaction without a marker yet."""

    transactional_id: str
    state: TransactionState
    coordinator: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]
    prepared_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """A producer id in a partition. `transaction_start_offset` is None without an open transaction there;
    `coordinator_epoch` is that of the last marker, -1 before the first one."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int | None


class ProducerIdAndEpoch(NamedTuple):
    """The current producer id and epoch of a transactional id."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that is open in a partition, and that no coordinator will end there."""

    topic_partition: TopicPartition
    producer: ProducerDescription
    transactional_id: str | None  # if a coordinator knows the producer id


def known_names(kind: type[StrEnum], given: Iterable[str]) -> tuple[str, ...]:
    """The values of `kind` by their names in any case. Errors: ConfigError for other names."""
    by_name = {each.value.lower(): each.value for each in kind if each.name != "UNKNOWN"}
    wanted = tuple(given)
    for name in wanted:
        if name.lower() not in by_name:
            raise ConfigError(f"{name!r} is none of {', '.join(by_name.values())}")
    return tuple(by_name[name.lower()] for name in wanted)
