"""The effects of the sender core, which `producer_io.py` performs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .batches import Batch


class Target(NamedTuple):
    """The partition of one batch of a request, by the metadata when it was sent."""

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
    """Effect: resolve the delivery of the batch; `record_errors` are those of single records, by index."""

    batch: Batch
    base_offset: int = -1
    log_append_time_ms: int = -1
    error: BaseException | None = None
    record_errors: dict[int, BaseException] | None = None


@dataclass(frozen=True, slots=True)
class RecordsRefused:
    """Effect: fail these records of the batch, by index; the others are sent again in a new batch."""

    batch: Batch
    record_errors: dict[int, BaseException]


@dataclass(frozen=True, slots=True)
class TakeHint:
    """Effect: put the newer leader that a response named into the metadata."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class RefreshMetadata:
    """Effect: refresh the metadata; it is stale, or has no leader for a batch."""


@dataclass(frozen=True, slots=True)
class MemoryFreed:
    """Effect: buffer memory may be free; wake the callers that wait for it."""


@dataclass(frozen=True, slots=True)
class RequestProducerId:
    """Effect: send InitProducerId; report the result with `on_identity`."""


Effect = SendProduce | Resolve | RecordsRefused | TakeHint | RefreshMetadata | MemoryFreed | RequestProducerId
