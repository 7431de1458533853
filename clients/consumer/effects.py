"""What a fetcher asks its engine to do. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ...protocol.messages.data import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
    from ...protocol.model import TopicPartition
    from .fetch_state import PartitionState


class RequestedPartition(NamedTuple):
    """One partition in a request, with its version and leader epoch when the request was made."""

    state: PartitionState
    version: int
    leader_epoch: int
    is_follower: bool = False  # a fetch from a replica that does not lead


@dataclass(frozen=True, slots=True)
class SendFetch:
    """Effect: send it; report `on_fetched` or `on_failure`."""

    node_id: int
    request: FetchRequest
    partitions: tuple[RequestedPartition, ...]


@dataclass(frozen=True, slots=True)
class SendListOffsets:
    """Effect: look positions up by timestamp; report `on_offsets_listed` or `on_failure`."""

    node_id: int
    request: ListOffsetsRequest
    partitions: tuple[RequestedPartition, ...]


@dataclass(frozen=True, slots=True)
class SendOffsetForLeaderEpoch:
    """Effect: validate positions; report `on_epoch_ends` or `on_failure`."""

    node_id: int
    request: OffsetForLeaderEpochRequest
    partitions: tuple[RequestedPartition, ...]


@dataclass(frozen=True, slots=True)
class UpdateLeader:
    """Effect: a fetch response named a newer leader."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class RefreshMetadata:
    """Effect: the metadata is stale."""


@dataclass(frozen=True, slots=True)
class Truncated:
    """Effect: the log lost records that the application got; the position went back to `offset`, or is reset
    by policy where that is -1."""

    tp: TopicPartition
    position: int
    offset: int


@dataclass(frozen=True, slots=True)
class NotifyReader:
    """Effect: wake the application; there may be records, positions or errors."""


Request = SendFetch | SendListOffsets | SendOffsetForLeaderEpoch
Effect = Request | UpdateLeader | RefreshMetadata | Truncated | NotifyReader
