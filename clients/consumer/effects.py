"""What a fetcher wants done. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ...protocol.messages.data import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
    from ...protocol.model import TopicPartition
    from .fetch_state import PartitionState


class Asked(NamedTuple):
    """One partition in a request: the version of it that asked, and the leader epoch it asked under."""

    state: PartitionState
    version: int
    leader_epoch: int
    is_follower: bool = False  # a fetch from a replica that does not lead


@dataclass(frozen=True, slots=True)
class SendFetch:
    """Effect: send it; report `on_fetched` or `on_failure`."""

    node_id: int
    request: FetchRequest
    asked: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class SendLookup:
    """Effect: find positions by time; report `on_looked_up` or `on_failure`."""

    node_id: int
    request: ListOffsetsRequest
    asked: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class SendEpochs:
    """Effect: ask where epochs end; report `on_epoch_ends` or `on_failure`."""

    node_id: int
    request: OffsetForLeaderEpochRequest
    asked: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class TakeHint:
    """Effect: a node named a newer leader."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class RefreshMetadata:
    """Effect: the view is stale."""


@dataclass(frozen=True, slots=True)
class Truncated:
    """Effect: records that were handed out are not in the log any more; reading went back to `offset`, or
    to where the reset policy leads where that is -1."""

    tp: TopicPartition
    position: int
    offset: int


@dataclass(frozen=True, slots=True)
class Notify:
    """Effect: whoever waits for records, positions or errors should look."""


Request = SendFetch | SendLookup | SendEpochs
Effect = Request | TakeHint | RefreshMetadata | Truncated | Notify
