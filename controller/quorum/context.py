"""What the states of one controller share: its identity, its epoch and vote, its log, and the step's
effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.messages.quorum import QuorumEndpoint
from ...protocol.model import NO_NODE
from .election_state import ElectionState
from .events import Committed, Effect, Flush, Reply
from .requests import Requests
from .voters import Endpoint, ReplicaKey, endpoint_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.model import FeatureRange
    from ...protocol.records.header import Buffer
    from ...runtime.random_source import RandomSource
    from ..config import ControllerConfig
    from .metadata_log import MetadataLog


class QuorumContext:
    """One controller in the quorum, whatever its role.

    Invariant: epoch and vote are durable before a message that follows from them is sent.
    Invariant: the epoch never decreases, and covers the epochs in the log.
    Invariant: at most one flush is in progress, and none while the log is truncated.
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
        self._wall_offset_ms = (
            wall_offset_ms  # calendar time minus monotonic time, for record timestamps only
        )
        self.cluster_id = ""  # empty until known; set by the shell
        # Whether a controller with these feature levels may be a voter; set by the shell, which has the
        # cluster's levels. Errors: UnsupportedVersionError, which names the controller by the text.
        self.check_levels: Callable[[tuple[FeatureRange, ...], str], None] = lambda _ranges, _name: None
        self.epoch = 0
        self.leader_id: int = NO_NODE  # of this epoch
        self.voted: ReplicaKey | None = None  # in this epoch
        self.effects: list[Effect] = []
        self.requests = Requests(
            self.effects, config.quorum_request_timeout_ms, config.quorum_retry_backoff_ms
        )
        self.is_flushing = False
        self._endpoints: dict[int, Endpoint] = {}  # of a leader that is not in the voter set yet
        self._other_voters: tuple[tuple[ReplicaKey, ...], list[ReplicaKey]] = ((), [])

    def check(self) -> None:
        """Assert the invariants; after a step."""
        assert self.log.last_epoch <= self.epoch, "LogWithinEpoch: the log has a record of a later epoch"
        assert not self.effects, "every step returns its effects"
        self.log.check()

    # --- epoch and vote ---------------------------------------------------------------------------------

    def recover_vote(self) -> None:
        """Read epoch and vote. The leader id is not restored: a leader that restarts may have lost records
        that other replicas have with its epoch, and must not write others in their place.

        Errors: KafkaStorageError if the vote is lost.
        """
        stored = self.log.read_election_state()
        if stored is None:
            return
        self.epoch, self.cluster_id = stored.leader_epoch, stored.cluster_id
        if stored.voted_id != NO_NODE:
            self.voted = ReplicaKey(stored.voted_id, stored.voted_directory_id)

    def enter_epoch(self, epoch: int, leader_id: int, voted: ReplicaKey | None) -> None:
        """Change epoch, leader and vote. Order: epoch and vote are durable on return."""
        assert epoch >= self.epoch, f"epoch {self.epoch} does not decrease to {epoch}"
        has_changed = (epoch, voted) != (self.epoch, self.voted)
        self.epoch, self.leader_id, self.voted = epoch, leader_id, voted
        if has_changed:
            vote = voted or ReplicaKey(NO_NODE, b"")
            self.log.write_election_state(ElectionState(self.cluster_id, leader_id, epoch, *vote))

    def vote_in(self, epoch: int) -> ReplicaKey | None:
        """The candidate that got this controller's vote in an epoch, as far as it is known."""
        return self.voted if epoch == self.epoch else None

    # --- voters and leader ------------------------------------------------------------------------------

    @property
    def voters(self) -> tuple[ReplicaKey, ...]:
        """The latest voter set."""
        return self.log.voters.latest_keys

    @property
    def other_voters(self) -> Sequence[ReplicaKey]:
        """The latest voter set without this controller."""
        voters = self.log.voters.latest_keys
        if self._other_voters[0] is not voters:
            self._other_voters = (voters, [key for key in voters if key != self.key])
        return self._other_voters[1]

    @property
    def is_voter(self) -> bool:
        """Whether this controller is in the latest voter set."""
        return self.key in self.voters

    def endpoint_of(self, replica_id: int) -> Endpoint | None:
        """Where a controller listens; None if unknown."""
        return self._endpoints.get(replica_id) or endpoint_of(self.log.voters.latest, replica_id)

    def learn_endpoint(self, replica_id: int, endpoint: QuorumEndpoint) -> None:
        """A message named the leader's endpoint. Only that of the last leader is kept."""
        if endpoint.port:
            self._endpoints = {replica_id: Endpoint(endpoint.host, endpoint.port)}

    def leader_fields(self) -> dict[str, Any]:
        """The fields of every response that name the leader."""
        known = self.endpoint if self.leader_id == self.key.replica_id else self.endpoint_of(self.leader_id)
        endpoint = QuorumEndpoint(*known) if known and self.leader_id >= 0 else QuorumEndpoint()
        return {"leader_id": self.leader_id, "leader_epoch": self.epoch, "endpoint": endpoint}

    # --- time -------------------------------------------------------------------------------------------

    def wall_ms(self, now_ms: int) -> int:
        """The calendar time, approximately."""
        return now_ms + self._wall_offset_ms

    def election_timeout_ms(self) -> int:
        """A random wait before the next election, so that voters rarely campaign at the same time."""
        timeout_ms = self.config.quorum_election_timeout_ms
        return timeout_ms + self.random.randrange(timeout_ms)

    def election_backoff_ms(self) -> int:
        """A random wait after an election without a leader."""
        return 1 + self.random.randrange(self.config.quorum_election_backoff_max_ms)

    # --- effects ----------------------------------------------------------------------------------------

    def reply(self, token: Any, body: Any, frames: Sequence[Buffer] = ()) -> None:
        """Respond to the request that came with `token`."""
        self.effects.append(Reply(token, body, tuple(frames)))

    def flush(self) -> None:
        """Request a flush if there is something to flush and no flush is in progress."""
        if not self.is_flushing and self.log.flushed_offset < self.log.end_offset:
            self.is_flushing = True
            self.effects.append(Flush())

    def commit(self, end_offset: int) -> None:
        """Advance the high watermark."""
        if end_offset > self.log.high_watermark:
            self.log.high_watermark = end_offset
            self.effects.append(Committed(end_offset))
