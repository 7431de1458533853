"""What goes into the quorum's core and what comes out of it.

Order: when `Raft.step` returns, every file it had to change is changed, and votes and epochs are on the disk;
only appended batches wait for `Flush`. So its effects may be performed one after the other, and a crash
between any two of them is a crash that lost messages.
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
    """The time of the last SetTimer has come. The first event is one of these too."""


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A request of another controller; `token` comes back with the Reply, which there is exactly one of."""

    token: Any
    body: Any


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """The answer to a Send."""

    correlation_id: int
    body: Any
    frames: Sequence[Buffer] = ()


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """There will be no answer to a Send: the connection is gone. The core has timeouts of its own, but this
    makes it look for another leader sooner."""

    correlation_id: int


@dataclass(frozen=True, slots=True)
class Append:
    """The active leader has decided: write these batches, one per decision, from the log's end on."""

    batches: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Flushed:
    """The flush that was asked for is done, and the log knows."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """This controller is about to end: a leader says goodbye, so that the others need not wait."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The host begins a quorum with these voters, this controller among them; its disk is blank."""

    voters: VoterSet


Event = (
    TimerFired | RequestReceived | ResponseReceived | RequestFailed | Append | Flushed | StopRequested | Begin
)

# --- effects ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Ask another controller. A negative target is the -n-th of the bootstrap servers."""

    target: int
    correlation_id: int
    body: Any


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request."""

    token: Any
    body: Any
    frames: tuple[Buffer, ...] = ()


@dataclass(frozen=True, slots=True)
class Flush:
    """Bring the log to the disk, then report Flushed. Never asked for while one is under way."""


@dataclass(frozen=True, slots=True)
class Committed:
    """Everything below `end_offset` will stay for ever: apply it."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class LoadSnapshot:
    """The log goes on behind this snapshot now: replace all that was applied by it."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class BecameLeader:
    """This controller decides from now on. Order: after the Committed of everything before its epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Resigned:
    """This controller no longer leads `epoch`: what it decided and is not committed may be lost."""

    epoch: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The id of the leader, -1 while none is known; `reason` is in words, for the log."""

    leader_id: int
    epoch: int
    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Campaigning:
    """This controller asks for votes because of `reason`; for the log."""

    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Fire the one timer at `deadline_ms`, and not at the time said before."""

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
