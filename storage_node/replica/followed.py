"""The state of one followed partition in one leader epoch. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.model import NO_OFFSET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .partition import Partition


class FollowState(Enum):
    """The event that a followed partition waits for."""

    READY = "ready"  # the next fetch or its response
    FLUSHING = "flushing"  # a flush, before the next fetch (durability=fsync)
    TRUNCATING = "truncating"  # the end of a flush, a checkpoint or a cleaning, to truncate its log
    DELAYED = "delayed"  # the backoff of an error or of the throttle
    FENCED = "fenced"  # metadata: the leader has a newer leader epoch


_F = FollowState
TRANSITIONS: Mapping[FollowState, frozenset[FollowState]] = MappingProxyType(
    {
        _F.READY: frozenset((_F.FLUSHING, _F.TRUNCATING, _F.DELAYED, _F.FENCED)),
        _F.FLUSHING: frozenset((_F.READY,)),
        _F.TRUNCATING: frozenset((_F.READY, _F.FLUSHING)),
        _F.DELAYED: frozenset((_F.READY, _F.FLUSHING)),
        _F.FENCED: frozenset(),
    }
)
"""A new leader or leader epoch makes a new object; a failed disk or a removal drops it in any state."""


class Truncation(NamedTuple):
    """A pending truncation to `offset`; `is_restart`: remove all records and restart the log there."""

    offset: int
    is_restart: bool


@dataclass(slots=True, eq=False)
class Followed:
    """See the module's docstring."""

    partition: Partition
    leader_epoch: int
    state: FollowState = FollowState.READY
    first_request: int = 0  # number of the first fetch; older responses are of another leader epoch
    last_request: int = 0  # number of the last fetch; older responses are of an earlier fetch offset
    leader_watermark: int = NO_OFFSET
    leader_start: int = NO_OFFSET
    failures: int = 0
    retry_ms: int = 0
    truncation: Truncation | None = None
    has_producers: bool = False  # the producer state before the start of an empty log was fetched

    @property
    def wants_producers(self) -> bool:
        """Whether this log starts behind records that it never had: without the leader's producer state a
        retry of some of them would not be detected."""
        log = self.partition.log
        if log is None or self.has_producers or not log.producers.states.is_empty:
            return False
        return log.log_end_offset == log.log_start_offset > 0

    def become(self, state: FollowState) -> None:
        """Change the state. Asserts TRANSITIONS."""
        assert state is self.state or state in TRANSITIONS[self.state], (
            f"{self.state} -> {state} is not legal"
        )
        self.state = state

    @property
    def lag(self) -> int:
        """The known number of records below the leader's high watermark that this log lacks."""
        log = self.partition.log
        return 0 if log is None else max(self.leader_watermark - log.log_end_offset, 0)
