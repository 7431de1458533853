"""The events and effects of the quorum's core.

Order: when `Raft.step` returns, every file that it had to change is changed, and epoch and vote are durable;
only appended batches wait for `Flush`. So the effects may be performed one after the other, and a crash
between two of them only loses messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.records.control import VoterSet
    from ...protocol.records.header import Buffer
    from .snapshots import SnapshotId

# --- events -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The deadline of the last SetTimer has passed; also the first event."""


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A request of another controller; exactly one Reply with `token` follows."""

    token: Any
    body: Any


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """The response to a Send."""

    correlation_id: int
    body: Any
    frames: Sequence[Buffer] = ()


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A Send gets no response, because the connection is closed. The core has timeouts of its own, but this
    event makes it search for another leader earlier."""

    correlation_id: int


@dataclass(frozen=True, slots=True)
class AppendRequested:
    """The active controller has decided: append these batches, one per decision."""

    batches: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Flushed:
    """The requested flush is complete, after `MetadataLog.finish_flush`."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """This controller is about to stop: a leader resigns, so that the others do not wait for a timeout."""


@dataclass(frozen=True, slots=True)
class BootstrapRequested:
    """Begin a quorum with these voters, which include this controller; its disk is blank."""

    voters: VoterSet


Event = (
    TimerFired
    | RequestReceived
    | ResponseReceived
    | RequestFailed
    | AppendRequested
    | Flushed
    | StopRequested
    | BootstrapRequested
)

# --- effects ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request to a controller; target -n is the n-th bootstrap server."""

    target: int
    correlation_id: int
    body: Any


@dataclass(frozen=True, slots=True)
class Reply:
    """Respond to a request."""

    token: Any
    body: Any
    frames: tuple[Buffer, ...] = ()


@dataclass(frozen=True, slots=True)
class Flush:
    """Flush the log, then report Flushed. At most one flush is in progress."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The records below `end_offset` are committed: apply them."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class LoadSnapshot:
    """The log now begins after this snapshot: replace the applied state by it."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class BecameLeader:
    """This controller is active. Order: after the Committed of all records of earlier epochs."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Resigned:
    """This controller no longer leads `epoch`: its uncommitted records may be lost."""

    epoch: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The epoch or its leader (-1: unknown) changed; `reason` is for log lines."""

    leader_id: int
    epoch: int
    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Campaigning:
    """This controller requests pre-votes; for log lines."""

    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Fire the timer at `deadline_ms` and not at the deadline set before."""

    deadline_ms: int


Effect = (
    Send
    | Reply
    | Flush
    | Committed
    | LoadSnapshot
    | BecameLeader
    | Resigned
    | LeaderChanged
    | Campaigning
    | SetTimer
)
