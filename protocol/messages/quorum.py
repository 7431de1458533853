"""The controller quorum: votes, epochs, the voters' fetch of the metadata log and of its snapshots.

A replica is named by its id and its directory id, which a new disk changes. A response with an error still
says which leader and epoch the answering controller knows; its leader id is -1 if it knows none. An empty
cluster id is of a controller that has not learned it yet. Batches and snapshot bytes ride as frames.
Source: KIP-595, KIP-630, KIP-853, KIP-996.
"""

from __future__ import annotations

import msgspec


class QuorumEndpoint(msgspec.Struct, array_like=True, frozen=True):
    """Where a controller listens; port 0 if that is not known."""

    host: str = ""
    port: int = 0


class VoteRequest(msgspec.Struct, array_like=True, frozen=True):
    """A candidate asks one voter, by its key, for its vote in `epoch`. A pre-vote asks whether it would get
    it in the epoch after that, and binds nobody. `end_offset` and `last_epoch` are of the candidate's log."""

    cluster_id: str
    voter_id: int
    voter_directory_id: bytes
    epoch: int
    candidate_id: int
    candidate_directory_id: bytes
    last_epoch: int
    end_offset: int
    pre_vote: bool = False


class VoteResponse(msgspec.Struct, array_like=True, frozen=True):
    """The vote, for the epoch of the request."""

    error_code: int
    leader_id: int = -1
    leader_epoch: int = 0
    vote_granted: bool = False
    endpoint: QuorumEndpoint = QuorumEndpoint()


class BeginQuorumEpochRequest(msgspec.Struct, array_like=True, frozen=True):
    """The leader of an epoch makes itself known to one voter, by its key."""

    cluster_id: str
    voter_id: int
    voter_directory_id: bytes
    leader_id: int
    leader_epoch: int
    endpoint: QuorumEndpoint = QuorumEndpoint()


class BeginQuorumEpochResponse(msgspec.Struct, array_like=True, frozen=True):
    """The leader and epoch that the voter knows after the request."""

    error_code: int
    leader_id: int = -1
    leader_epoch: int = 0
    endpoint: QuorumEndpoint = QuorumEndpoint()


class EndQuorumEpochRequest(msgspec.Struct, array_like=True, frozen=True):
    """The leader of an epoch steps down; the ids in `preferred_successors` should campaign in that order."""

    cluster_id: str
    leader_id: int
    leader_epoch: int
    preferred_successors: tuple[int, ...] = ()


class EndQuorumEpochResponse(msgspec.Struct, array_like=True, frozen=True):
    """The leader and epoch that the voter knows after the request."""

    error_code: int
    leader_id: int = -1
    leader_epoch: int = 0
    endpoint: QuorumEndpoint = QuorumEndpoint()


class QuorumFetchRequest(msgspec.Struct, array_like=True, frozen=True):
    """A replica that has flushed everything below `fetch_offset`, whose last record is of
    `last_fetched_epoch`, asks for more of the metadata log."""

    cluster_id: str
    replica_id: int
    directory_id: bytes
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int
    max_bytes: int
    max_wait_ms: int


class QuorumFetchResponse(msgspec.Struct, array_like=True, frozen=True):
    """Batches as frames; or where the replica's log parts from the leader's (`diverging_epoch` is not -1);
    or the snapshot to fetch first (`snapshot_end_offset` is not -1)."""

    error_code: int
    leader_id: int = -1
    leader_epoch: int = 0
    high_watermark: int = 0
    log_start_offset: int = 0
    diverging_epoch: int = -1
    diverging_end_offset: int = -1
    snapshot_end_offset: int = -1
    snapshot_epoch: int = -1
    endpoint: QuorumEndpoint = QuorumEndpoint()


class FetchSnapshotRequest(msgspec.Struct, array_like=True, frozen=True):
    """Bytes of a snapshot of the leader from `position` on."""

    cluster_id: str
    replica_id: int
    directory_id: bytes
    leader_epoch: int
    snapshot_end_offset: int
    snapshot_epoch: int
    position: int
    max_bytes: int


class FetchSnapshotResponse(msgspec.Struct, array_like=True, frozen=True):
    """One frame of bytes; `size` is that of the whole snapshot."""

    error_code: int
    leader_id: int = -1
    leader_epoch: int = 0
    size: int = 0
    position: int = 0
    endpoint: QuorumEndpoint = QuorumEndpoint()


class AddRaftVoterRequest(msgspec.Struct, array_like=True, frozen=True):
    """Make a replica that has caught up a voter. Answered once that is committed."""

    cluster_id: str
    voter_id: int
    directory_id: bytes
    host: str
    port: int


class RemoveRaftVoterRequest(msgspec.Struct, array_like=True, frozen=True):
    """Make a voter an observer. Answered once that is committed."""

    cluster_id: str
    voter_id: int
    directory_id: bytes


class UpdateRaftVoterRequest(msgspec.Struct, array_like=True, frozen=True):
    """A voter listens somewhere else now. Answered once that is committed."""

    cluster_id: str
    voter_id: int
    directory_id: bytes
    host: str
    port: int


class RaftVoterResponse(msgspec.Struct, array_like=True, frozen=True):
    """The outcome of a change of the voters."""

    error_code: int
    error_detail: str = ""
    leader_id: int = -1
    leader_epoch: int = 0
    endpoint: QuorumEndpoint = QuorumEndpoint()


class DescribeQuorumRequest(msgspec.Struct, array_like=True, frozen=True):
    """How the quorum is; the leader knows."""


class QuorumReplica(msgspec.Struct, array_like=True, frozen=True):
    """A voter or observer as the leader sees it; -1 for what it has not seen. Times are in ms before the
    answer."""

    replica_id: int
    directory_id: bytes
    log_end_offset: int = -1
    last_fetch_ago_ms: int = -1
    last_caught_up_ago_ms: int = -1
    endpoint: QuorumEndpoint = QuorumEndpoint()


class DescribeQuorumResponse(msgspec.Struct, array_like=True, frozen=True):
    """Voters and observers by id."""

    error_code: int
    leader_id: int = -1
    leader_epoch: int = 0
    high_watermark: int = 0
    voters: tuple[QuorumReplica, ...] = ()
    observers: tuple[QuorumReplica, ...] = ()
    endpoint: QuorumEndpoint = QuorumEndpoint()
