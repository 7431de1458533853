"""What all roles of one controller share: its identity, its epoch, its log, and the effects of this step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.messages.quorum import QuorumEndpoint
from ...protocol.model import NO_NODE
from .events import Committed, Effect, Flush, Reply
from .requests import Requests
from .voters import Endpoint, ReplicaKey, endpoint_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.records.header import Buffer
    from ...runtime.random_source import RandomSource
    from ..config import ControllerConfig
    from .metadata_log import MetadataLog


class Context:
    """Owned by Raft, which alone changes epoch, leader and vote.

    Invariant: epoch and vote are on the disk before anything that rests on them is sent.
    Invariant: at most one flush is under way, and none while the log gets shorter.
    """

    def __init__(
        self,
        config: ControllerConfig,
        key: ReplicaKey,
        endpoint: Endpoint,
        log: MetadataLog,
        random: RandomSource,
        wall_offset_ms: int,
    ) -> None:
        self.config = config
        self.key = key
        self.endpoint = endpoint
        self.log = log
        self.random = random
        self.wall_offset_ms = wall_offset_ms  # calendar time minus monotonic time, for time stamps only
        self.cluster_id = ""  # empty until it is known; the shell sets it
        self.epoch = 0
        self.leader_id: int = NO_NODE  # of this epoch
        self.voted: ReplicaKey | None = None  # in this epoch
        self.effects: list[Effect] = []
        self.requests = Requests(
            self.effects, config.quorum_request_timeout_ms, config.quorum_retry_backoff_ms
        )
        self.is_flushing = False
        self._endpoints: dict[int, Endpoint] = {}  # of leaders that the log does not name yet

    @property
    def voters(self) -> tuple[ReplicaKey, ...]:
        """The voters of now."""
        return self.log.voters.latest_keys

    @property
    def is_voter(self) -> bool:
        """Whether this controller is one of them."""
        return self.key in self.voters

    def wall_ms(self, now_ms: int) -> int:
        """The calendar time, about."""
        return now_ms + self.wall_offset_ms

    def endpoint_of(self, replica_id: int) -> Endpoint | None:
        """Where a controller listens; None if that is not known."""
        return self._endpoints.get(replica_id) or endpoint_of(self.log.voters.latest, replica_id)

    def learn_endpoint(self, replica_id: int, endpoint: QuorumEndpoint) -> None:
        """A controller said where the leader listens. Only the last leader is remembered: one is enough."""
        if endpoint.port:
            self._endpoints = {replica_id: Endpoint(endpoint.host, endpoint.port)}

    def leader_facts(self) -> dict[str, Any]:
        """What every response says of the leader."""
        known = self.endpoint if self.leader_id == self.key.replica_id else self.endpoint_of(self.leader_id)
        endpoint = QuorumEndpoint(*known) if known and self.leader_id >= 0 else QuorumEndpoint()
        return {"leader_id": self.leader_id, "leader_epoch": self.epoch, "endpoint": endpoint}

    def reply(self, token: Any, body: Any, frames: Sequence[Buffer] = ()) -> None:
        """Answer a request."""
        self.effects.append(Reply(token, body, tuple(frames)))

    def flush(self) -> None:
        """Ask for a flush if there is something to flush and none is under way."""
        if not self.is_flushing and self.log.flushed_offset < self.log.end_offset:
            self.is_flushing = True
            self.effects.append(Flush())

    def commit(self, end_offset: int) -> None:
        """Everything below is committed."""
        if end_offset > self.log.high_watermark:
            self.log.high_watermark = end_offset
            self.effects.append(Committed(end_offset))
