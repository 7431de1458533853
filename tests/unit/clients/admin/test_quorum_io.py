"""Changes of the voters with the admin client, on a fake cluster in virtual time."""

from typing import Any

import pytest
from fake_cluster import Fault
from headrace.protocol import errors
from headrace.protocol.messages import quorum

DISK = b"d" * 16


class FakeQuorum:
    """Voters by (id, directory id); `busy` changes are refused because another one is under way."""

    def __init__(self, fake: Any) -> None:
        self.voters = {(1, b"1" * 16)}
        self.busy = 0
        for name in ("AddRaftVoter", "RemoveRaftVoter", "DescribeQuorum"):
            setattr(fake, f"_do_{name}", getattr(self, name))

    def _refusal(self) -> Any:
        self.busy -= 1
        return quorum.RaftVoterResponse(errors.RequestTimedOutError.code, "another change is under way")

    def AddRaftVoter(self, body: Any) -> Any:
        if self.busy:
            return self._refusal()
        if body.voter_id in {voter for voter, _ in self.voters}:
            return quorum.RaftVoterResponse(errors.DuplicateVoterError.code, "exists")
        assert (body.host, body.port) == ("h", 7)
        self.voters.add((body.voter_id, body.directory_id))
        return quorum.RaftVoterResponse(0)

    def RemoveRaftVoter(self, body: Any) -> Any:
        if self.busy:
            return self._refusal()
        if (body.voter_id, body.directory_id) not in self.voters:
            return quorum.RaftVoterResponse(errors.VoterNotFoundError.code, "no such voter")
        self.voters.remove((body.voter_id, body.directory_id))
        return quorum.RaftVoterResponse(0)

    def DescribeQuorum(self, _body: Any) -> Any:
        return quorum.DescribeQuorumResponse(
            0, leader_id=1, voters=tuple(quorum.QuorumReplica(*key) for key in sorted(self.voters))
        )


async def test_change_waits_for_the_previous_one(fake: Any, cluster: Any) -> None:
    """Then the voter has been added, or removed."""
    found, admin = FakeQuorum(fake), cluster.admin()
    found.busy = 3
    await admin.add_raft_voter(2, DISK, ("h", 7))
    assert (2, DISK) in found.voters
    found.busy = 3
    await admin.remove_raft_voter(2, DISK)
    assert found.voters == {(1, b"1" * 16)}


async def test_timeout_names_the_change_in_progress(fake: Any, cluster: Any) -> None:
    """With the error of the quorum."""
    FakeQuorum(fake).busy = 10**6
    with pytest.raises(errors.ApiTimeoutError, match="another change is under way"):
        await cluster.admin().add_raft_voter(2, DISK, ("h", 7), timeout=3)


async def test_retry_after_a_lost_response_succeeds(fake: Any, cluster: Any) -> None:
    """The retry finds the target state."""
    found, admin = FakeQuorum(fake), cluster.admin()
    fake.fail_next("AddRaftVoter", Fault(lost_reply=True))
    await admin.add_raft_voter(2, DISK, ("h", 7))
    fake.fail_next("RemoveRaftVoter", Fault(lost_reply=True))
    await admin.remove_raft_voter(2, DISK)
    assert found.voters == {(1, b"1" * 16)}
    fake.fail_next("AddRaftVoter", Fault(lost_request=True))
    with pytest.raises(errors.DuplicateVoterError):
        await admin.add_raft_voter(1, DISK, ("h", 7))


async def test_errors_of_the_quorum_are_raised(fake: Any, cluster: Any) -> None:
    """Unchanged."""
    FakeQuorum(fake)
    with pytest.raises(errors.DuplicateVoterError, match="exists"):
        await cluster.admin().add_raft_voter(1, DISK, ("h", 7))
    with pytest.raises(errors.VoterNotFoundError, match="no such voter"):
        await cluster.admin().remove_raft_voter(1, DISK)
