"""One partition that a node follows, in one leadership, and what it waits for. Pure."""

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
    """What a followed partition waits for."""

    READY = "ready"  # to be named in a request, or the leader's news
    FLUSHING = "flushing"  # the disk, before it asks for more
    CUTTING = "cutting"  # the end of a flush, a checkpoint or a cleaning, to cut its log
    DELAYED = "delayed"  # time, after an error, or because it is throttled
    STOPPED = "stopped"  # other metadata: its leader epoch is over


_F = FollowState
TRANSITIONS: Mapping[FollowState, frozenset[FollowState]] = MappingProxyType(
    {
        _F.READY: frozenset((_F.FLUSHING, _F.CUTTING, _F.DELAYED, _F.STOPPED)),
        _F.FLUSHING: frozenset((_F.READY,)),
        _F.CUTTING: frozenset((_F.READY, _F.FLUSHING)),
        _F.DELAYED: frozenset((_F.READY, _F.FLUSHING)),
        _F.STOPPED: frozenset(),
    }
)
"""Another leader or leader epoch begins anew; a failed disk or a removal ends it in any state."""


class Cut(NamedTuple):
    """How the log is to be cut: to `offset`, or emptied to go on there."""

    offset: int
    is_restart: bool


@dataclass(slots=True, eq=False)
class Followed:
    """One partition in one leadership of another node."""

    partition: Partition
    leader_epoch: int
    state: FollowState = FollowState.READY
    named_first: int = 0  # the request that named it first; older answers are of another leadership
    named_in: int = 0  # the request that named it last; older answers are of a place that it has left
    leader_watermark: int = NO_OFFSET
    leader_start: int = NO_OFFSET
    failures: int = 0
    retry_ms: int = 0
    cut: Cut | None = None
    has_producers: bool = False  # the leader has said what it knows of those before an empty log

    @property
    def wants_producers(self) -> bool:
        """Whether this log begins behind records that it never had: somebody who may send some of them again
        would not be known."""
        log = self.partition.log
        if log is None or self.has_producers or not log.producers.states.is_empty:
            return False
        return log.log_end_offset == log.log_start_offset > 0

    def become(self, state: FollowState) -> None:
        """Change the state, along TRANSITIONS."""
        assert state is self.state or state in TRANSITIONS[self.state], (
            f"{self.state} -> {state} is not legal"
        )
        self.state = state

    @property
    def lag(self) -> int:
        """Records that the leader has committed and this log has not, as far as is known."""
        log = self.partition.log
        return 0 if log is None else max(self.leader_watermark - log.log_end_offset, 0)
