"""What the sender's core asks its shell to do. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .batches import Batch


class Target(NamedTuple):
    """Where one batch of a request goes, as known when it was sent."""

    topic_id: bytes
    partition: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class SendProduce:
    """Effect: send these batches in one request; report `on_response` or `on_failure` with its id."""

    request_id: int
    node_id: int
    batches: tuple[Batch, ...]
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Resolve:
    """Effect: the batch has its outcome; `record_errors` are those of single records, by their index."""

    batch: Batch
    base_offset: int = -1
    log_append_time_ms: int = -1
    error: BaseException | None = None
    record_errors: dict[int, BaseException] | None = None


@dataclass(frozen=True, slots=True)
class RecordsRefused:
    """Effect: these records of the batch failed, by their index; the others are sent again in a new batch."""

    batch: Batch
    record_errors: dict[int, BaseException]


@dataclass(frozen=True, slots=True)
class TakeHint:
    """Effect: a node named a newer leader."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class RefreshMetadata:
    """Effect: the view is stale, or lacks a leader that a batch waits for."""


@dataclass(frozen=True, slots=True)
class RoomMade:
    """Effect: memory was given back; callers that wait for room may try again."""


@dataclass(frozen=True, slots=True)
class AskIdentity:
    """Effect: a producer id is needed; report it by `on_identity`."""


Effect = SendProduce | Resolve | RecordsRefused | TakeHint | RefreshMetadata | RoomMade | AskIdentity
