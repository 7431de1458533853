"""What the admin client takes and returns of groups and transactions: frozen values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.model import TopicPartition
    from ..group.group_metadata import OffsetAndMetadata


class GroupType(StrEnum):
    """Which protocol the members of a group speak."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    UNKNOWN = "unknown"  # to this client

    @classmethod
    def _missing_(cls, value: object) -> GroupType:
        return cls.UNKNOWN


class GroupState(StrEnum):
    """Kafka's names. Classic groups prepare and complete rebalances, the others assign and reconcile."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"
    UNKNOWN = "Unknown"  # to this client

    @classmethod
    def _missing_(cls, value: object) -> GroupState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group. `protocol_type` is "consumer" for all that read topics, "" if nobody has ever joined."""

    group_id: str
    group_type: GroupType
    state: GroupState
    protocol_type: str


@dataclass(frozen=True, slots=True)
class GroupMemberDescription:
    """A member and what it has. `target` is what it shall have; of classic groups, whose members change at
    once, it is the same, and `member_epoch` is -1. While a classic group rebalances, nobody has anything."""

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
    """One group, of either protocol. `assignor` is "" while there is none; the epochs are -1 for classic
    groups; `coordinator` is a node id."""

    group_id: str
    group_type: GroupType
    state: GroupState
    protocol_type: str
    assignor: str
    coordinator: int
    members: tuple[GroupMemberDescription, ...]
    group_epoch: int = -1
    assignment_epoch: int = -1


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group is in a partition: `lag` records lie between what it has committed and `end`, the high
    watermark or last stable offset. None for what is not there, or not known."""

    committed: OffsetAndMetadata | None
    end: int | None

    @property
    def lag(self) -> int | None:
        """Negative if the partition has lost what was read of it."""
        if self.committed is None or self.end is None:
            return None
        return self.end - self.committed.offset


class TransactionState(StrEnum):
    """Kafka's names, but for Prepared: open until whoever has prepared it ends it."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARED = "Prepared"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"
    UNKNOWN = "Unknown"  # to this client

    @classmethod
    def _missing_(cls, value: object) -> TransactionState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """One transactional id, and the node that coordinates it; `prepared_ms`: since when its transaction is
    prepared, None if it is not."""

    transactional_id: str
    producer_id: int
    state: TransactionState
    coordinator: int
    prepared_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """What the coordinator knows of a transactional id. `start_ms` is None unless a transaction is under way,
    `prepared_ms` unless it is prepared; `partitions` are those that it has written to and that have no marker
    yet."""

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
    """Who writes into a partition with a producer id. `transaction_start_offset` is None unless its
    transaction is open there; `coordinator_epoch` is that of the last marker, -1 before the first."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int | None


class ProducerIdAndEpoch(NamedTuple):
    """Who may write for a transactional id from now on."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that is open in a partition and that no coordinator will ever end there."""

    topic_partition: TopicPartition
    producer: ProducerDescription
    transactional_id: str | None  # if a coordinator knows the producer id


def known_names(kind: type[StrEnum], given: Iterable[str]) -> tuple[str, ...]:
    """The values of `kind` that are meant, whatever their case. Errors: ConfigError for another."""
    by_name = {each.value.lower(): each.value for each in kind if each.name != "UNKNOWN"}
    wanted = tuple(given)
    for name in wanted:
        if name.lower() not in by_name:
            raise ConfigError(f"{name!r} is none of {', '.join(by_name.values())}")
    return tuple(by_name[name.lower()] for name in wanted)
