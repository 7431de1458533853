"""The controller quorum: votes, epochs, fetches of the metadata log and of snapshots.

A replica is identified by its id and its directory id, which changes with a new disk. A response with an
error still has the leader and epoch that the responding controller knows; leader id -1 if it knows none. An
empty cluster id is sent by a controller that does not know it yet. Batches and snapshot bytes are frames.
Source: KIP-595, KIP-630, KIP-853, KIP-996.
"""

from __future__ import annotations

import msgspec

from ..model import FeatureRange


class QuorumEndpoint(msgspec.Struct, array_like=True, frozen=True):
    """The endpoint of a controller; port 0 if unknown."""

    host: str = ""
    port: int = 0


class VoteRequest(msgspec.Struct, array_like=True, frozen=True):
    """A candidate requests the vote of one voter, by its key, for `epoch`. A pre-vote asks whether the voter
    would vote for it in the next epoch, and does not bind the voter. `end_offset` and `last_epoch` are those
    of the candidate's log."""

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
    """The leader of an epoch announces itself to one voter, by its key."""

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
    """The leader of an epoch resigns; the `preferred_successors` should start elections in that order."""

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
    """A replica that has flushed all records below `fetch_offset`, the last one of `last_fetched_epoch`,
    fetches the metadata log. `features`: the levels of each feature that it supports."""

    cluster_id: str
    replica_id: int
    directory_id: bytes
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int
    max_bytes: int
    max_wait_ms: int
    features: tuple[FeatureRange, ...] = ()


class QuorumFetchResponse(msgspec.Struct, array_like=True, frozen=True):
    """Batches as frames; or the divergence of the replica's log (`diverging_epoch` is not -1); or the
    snapshot to fetch first (`snapshot_end_offset` is not -1)."""

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
    """Fetch bytes of a snapshot from `position` on."""

    cluster_id: str
    replica_id: int
    directory_id: bytes
    leader_epoch: int
    snapshot_end_offset: int
    snapshot_epoch: int
    position: int
    max_bytes: int


class FetchSnapshotResponse(msgspec.Struct, array_like=True, frozen=True):
    """One frame of bytes; `size`: of the whole snapshot."""

    error_code: int
    leader_id: int = -1
    leader_epoch: int = 0
    size: int = 0
    position: int = 0
    endpoint: QuorumEndpoint = QuorumEndpoint()


class AddRaftVoterRequest(msgspec.Struct, array_like=True, frozen=True):
    """Make a caught-up observer a voter. The response is sent once that is committed."""

    cluster_id: str
    voter_id: int
    directory_id: bytes
    host: str
    port: int


class RemoveRaftVoterRequest(msgspec.Struct, array_like=True, frozen=True):
    """Make a voter an observer. The response is sent once that is committed."""

    cluster_id: str
    voter_id: int
    directory_id: bytes


class UpdateRaftVoterRequest(msgspec.Struct, array_like=True, frozen=True):
    """Change the endpoint of a voter. The response is sent once that is committed."""

    cluster_id: str
    voter_id: int
    directory_id: bytes
    host: str
    port: int


class RaftVoterResponse(msgspec.Struct, array_like=True, frozen=True):
    """The result of a change of the voters."""

    error_code: int
    error_detail: str = ""
    leader_id: int = -1
    leader_epoch: int = 0
    endpoint: QuorumEndpoint = QuorumEndpoint()


class DescribeQuorumRequest(msgspec.Struct, array_like=True, frozen=True):
    """Describe the quorum; only the leader can answer."""


class QuorumReplica(msgspec.Struct, array_like=True, frozen=True):
    """A voter or observer as the leader sees it; -1 for unknown values. Times are in ms before the
    response."""

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
