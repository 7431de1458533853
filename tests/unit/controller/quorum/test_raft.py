"""One controller in the quorum: epochs, votes and roles, message by message."""

import pytest
from fake_files import FakeFiles
from headrace.controller.quorum import events
from headrace.controller.quorum.election_state import FILE_NAME, ElectionState, read_election_state
from headrace.controller.quorum.metadata_log import MetadataLog
from headrace.controller.quorum.roles import Role
from headrace.protocol import errors
from headrace.protocol.messages import quorum
from headrace.protocol.metadata.records import FormatRecord
from metadata_rig import NOW, Voter, topic
from quorum_rig import DIRECTORY, METADATA_DIR, Core, batch, formatted, key, voters


def vote(core: Core, candidate: int, epoch: int, *, position=(9, 99), disk=1, **facts) -> quorum.VoteResponse:
    """Send a vote request."""
    target = facts.pop("target", core.raft.context.key)
    return core.ask(
        quorum.VoteRequest(
            facts.pop("cluster_id", ""),
            *target,
            epoch,
            *key(candidate, disk),
            *position,
            pre_vote=facts.pop("pre_vote", False),
        )
    )


# --- alone ------------------------------------------------------------------------------------------------


def test_only_voter_is_elected_in_its_first_step() -> None:
    """It sends no request, and is active once the first record of its epoch is flushed."""
    core = Core(1, formatted(1))
    assert (core.raft.role, core.raft.context.epoch) == (Role.LEADER, 1)
    assert not core.raft.is_active
    core.flush()
    kinds = [type(effect) for effect in core.effects]
    assert kinds.index(events.Committed) < kinds.index(events.BecameLeader)
    core.step(events.AppendRequested((batch("a"), batch("b"))))
    core.flush()
    assert core.of(events.Committed) == [events.Committed(core.log.end_offset)]
    assert not core.sent
    again = Core(1, core.files.power_loss("none"))
    assert again.raft.context.epoch == 2
    again.flush()
    found = [records for _, records in again.log.committed(0, again.log.high_watermark)]
    assert len(found) == 5, "LeaderChange, voters, two decisions, LeaderChange"


def test_log_without_voters_continues_in_a_quorum(files: FakeFiles) -> None:
    """Written before there was a quorum, then formatted: all its records are committed."""
    before = Voter(files)
    before.decide(FormatRecord("c"))
    before.flush()
    before.log.write_snapshot(before.image, NOW)
    before.decide(*topic(1))
    before.log.close()
    MetadataLog.format(files, METADATA_DIR, voters(1), NOW)
    core = Core(1, files)
    assert core.raft.role is Role.LEADER
    core.flush()
    assert core.log.recovered.cluster_id == "c"
    assert core.log.high_watermark == core.log.end_offset
    assert len(list(core.log.committed(1, 3))) == 1, "the topic's two records are one decision"


# --- votes --------------------------------------------------------------------------------------------------


def test_vote_is_durable_before_the_response() -> None:
    """After a power loss another candidate gets no vote in the same epoch."""
    core = Core(1, formatted(1, 2, 3))
    assert vote(core, 2, 5).vote_granted
    assert read_election_state(core.files, DIRECTORY) == ElectionState("", -1, 5, *key(2))
    again = Core(1, core.files.power_loss("none"))
    assert not vote(again, 3, 5).vote_granted
    assert vote(again, 2, 5).vote_granted, "the same vote once more"
    assert vote(again, 3, 6).vote_granted


def test_start_without_the_vote_fails() -> None:
    """The file is missing or damaged, though the log has an epoch: this controller might vote twice."""
    core = Core(1, formatted(1))
    core.flush()
    core.files.put(f"{DIRECTORY}/{FILE_NAME}", b"rot")
    with pytest.raises(errors.KafkaStorageError, match="damaged"):
        Core(1, core.files.restart())
    core.files.remove(f"{DIRECTORY}/{FILE_NAME}")
    with pytest.raises(errors.KafkaStorageError, match="missing"):
        Core(1, core.files.restart())


def test_vote_request_to_a_lost_disk_is_rejected() -> None:
    """It names the directory id of the lost disk."""
    core = Core(1, FakeFiles(), disk=2)
    answer = vote(core, 2, 5, target=key(1, disk=1))
    assert (answer.error_code, answer.vote_granted) == (errors.InvalidVoterKeyError.code, False)
    assert core.raft.context.epoch == 0


@pytest.mark.parametrize(
    ("epoch", "code"), [(-1, errors.InvalidRequestError.code), (2**31, errors.InvalidRequestError.code)]
)
def test_epoch_out_of_range_is_rejected(epoch, code) -> None:
    """A record batch has 32 bits for it."""
    core = Core(1, formatted(1, 2, 3))
    assert vote(core, 2, epoch).error_code == errors.InvalidRequestError.code
    assert core.raft.context.epoch == 0


def test_request_of_another_cluster_is_rejected() -> None:
    """The port may have belonged to a controller of another cluster."""
    core = Core(1, formatted(1, 2, 3))
    core.raft.context.cluster_id = "ours"
    assert vote(core, 2, 5, cluster_id="theirs").error_code == errors.InconsistentClusterIdError.code
    assert vote(core, 2, 5, cluster_id="ours").vote_granted


def test_earlier_epoch_is_fenced() -> None:
    """The response names the current epoch and its leader."""
    core = Core(1, formatted(1, 2, 3)).follow(3, 7)
    answer = vote(core, 2, 6)
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (
        errors.FencedLeaderEpochError.code,
        3,
        7,
    )


def test_current_leader_is_one_that_responds() -> None:
    """A voter without a majority follows the last leader of its epoch again and again."""
    core = Core(1, formatted(1, 2, 3)).follow(3, 7)
    assert core.raft.quorum.current_leader == -1
    core.fetched(quorum.QuorumFetchResponse(0, 3, 7))
    assert core.raft.quorum.current_leader == 3
    core.wait(2_100)
    assert (core.raft.role, core.raft.quorum.current_leader) == (Role.PROSPECTIVE, -1)
    for send in list(core.sent.values())[-2:]:
        core.answer(send, quorum.VoteResponse(0, 3, 7, vote_granted=False))
    assert (core.raft.role, core.raft.quorum.current_leader) == (Role.FOLLOWER, -1)
    assert Core(1, formatted(1)).raft.quorum.current_leader == 1


def test_follower_of_a_live_leader_grants_no_pre_vote() -> None:
    """Only after its own fetch timeout."""
    core = Core(1, formatted(1, 2, 3)).follow(3, 7)
    core.fetched(quorum.QuorumFetchResponse(0, 3, 7))
    assert not vote(core, 2, 7, pre_vote=True).vote_granted
    core.wait(2_100)
    assert core.raft.role is Role.PROSPECTIVE
    assert vote(core, 2, 7, pre_vote=True).vote_granted
    assert core.raft.context.epoch == 7, "a pre-vote changes nothing"


# --- elections ------------------------------------------------------------------------------------------


def test_election_from_pre_vote_to_active() -> None:
    """Two rounds; the epoch rises in the second one; the first record of the epoch must be committed."""
    core = Core(1, formatted(1, 2, 3))
    core.wait(2_000)
    pre_votes = [send for send in core.sent.values() if isinstance(send.body, quorum.VoteRequest)]
    assert {(s.target, s.body.pre_vote, s.body.epoch) for s in pre_votes} == {(2, True, 0), (3, True, 0)}
    core.answer(core.last(quorum.VoteRequest), quorum.VoteResponse(0, vote_granted=True))
    assert (core.raft.role, core.raft.context.epoch) == (Role.CANDIDATE, 1)
    core.answer(core.last(quorum.VoteRequest), quorum.VoteResponse(0, -1, 1, vote_granted=True))
    assert core.raft.role is Role.LEADER
    assert core.of(events.Flush)
    contacted = {s.target for s in core.of(events.Send) if isinstance(s.body, quorum.BeginQuorumEpochRequest)}
    assert contacted == {2, 3}
    core.flush()
    assert not core.raft.is_active, "only this disk has it"
    core.fetch(2, core.log.end_offset, 1)
    assert core.raft.is_active


def test_lost_pre_vote_and_lost_election() -> None:
    """After a lost pre-vote a known leader is followed again; a lost election is repeated after the
    backoff."""
    core = Core(1, formatted(1, 2, 3)).follow(3, 7)
    core.wait(2_100)
    for send in list(core.sent.values())[-2:]:
        core.answer(send, quorum.VoteResponse(0, 3, 7, vote_granted=False))
    assert (core.raft.role, core.raft.context.leader_id) == (Role.FOLLOWER, 3)
    other = Core(2, formatted(1, 2, 3))
    other.wait(2_000)
    other.answer(other.last(quorum.VoteRequest), quorum.VoteResponse(0, vote_granted=True))
    for send in [s for s in other.sent.values() if not getattr(s.body, "pre_vote", True)]:
        other.answer(send, quorum.VoteResponse(0, -1, 1))
    assert (other.raft.role, other.raft.context.epoch) == (Role.UNATTACHED, 1)
    other.wait(1_100)
    assert other.raft.role is Role.PROSPECTIVE


def test_leader_resigns_at_a_higher_epoch() -> None:
    """Delayed fetches get an error at once."""
    core = Core(1, formatted(1, 2, 3)).activate()
    assert core.fetch(3, core.log.end_offset, 1) is None, "parked"
    assert core.fetch(2, 0, 0, leader_epoch=9).error_code == errors.UnknownLeaderEpochError.code
    assert events.Resigned(1) in core.effects
    parked = [reply.token for reply in core.of(events.Reply) if reply.body.error_code == 6]
    assert len(parked) == 2
    assert (core.raft.role, core.raft.context.epoch) == (Role.UNATTACHED, 9)


def test_leader_without_a_majority_resigns() -> None:
    """Check quorum: after one and a half fetch timeouts; the fetches of one other voter are enough to
    continue."""
    core = Core(1, formatted(1, 2, 3)).activate()
    core.wait(2_900)
    assert core.raft.role is Role.LEADER
    core.fetch(3, 0, 0)
    core.wait(2_900)
    assert core.raft.role is Role.LEADER
    core.wait(200)
    assert core.raft.role is Role.RESIGNED
    assert {s.target for s in core.sent.values() if isinstance(s.body, quorum.EndQuorumEpochRequest)} == {
        2,
        3,
    }
    assert core.fetch(2, 0, 0).error_code == errors.NotLeaderOrFollowerError.code
    core.wait(2_000)
    assert core.raft.role is Role.UNATTACHED


def test_restarted_leader_does_not_lead_its_epoch_again() -> None:
    """It may have lost records that others have."""
    core = Core(1, formatted(1, 2, 3)).activate()
    again = Core(1, core.files.power_loss("none"))
    assert (again.raft.role, again.raft.context.epoch) == (Role.UNATTACHED, 1)
    assert again.fetch(2, 0, 0).error_code == errors.NotLeaderOrFollowerError.code
    assert not vote(again, 2, 1).vote_granted
    again.elect()
    assert again.raft.context.epoch == 2


def test_followers_of_a_resigned_leader_do_not_wait_for_the_timeout() -> None:
    """After EndQuorumEpoch the first successor campaigns at once; after a fetch response without leader,
    after the backoff."""
    core = Core(1, formatted(1, 2, 3)).follow(3, 7)
    core.ask(quorum.EndQuorumEpochRequest("", 3, 7, (1, 2)))
    assert core.raft.role is Role.PROSPECTIVE
    core = Core(1, formatted(1, 2, 3)).follow(3, 7)
    core.fetched(quorum.QuorumFetchResponse(errors.NotLeaderOrFollowerError.code, -1, 7))
    assert core.raft.role is Role.UNATTACHED
    core.wait(1_010)
    assert core.raft.role is Role.PROSPECTIVE


def test_prospective_voter_follows_the_leader_again() -> None:
    """It sends BeginQuorumEpoch: no election."""
    core = Core(1, formatted(1, 2, 3)).follow(3, 7)
    core.wait(2_100)
    assert core.raft.role is Role.PROSPECTIVE
    core.follow(3, 7)
    assert core.raft.role is Role.FOLLOWER


# --- observers ------------------------------------------------------------------------------------------


def test_observer_searches_the_leader_and_never_campaigns() -> None:
    """It fetches from the bootstrap servers in turn, follows the leader that they name, and searches again
    after the fetch timeout."""
    core = Core(9, FakeFiles())
    core.wait(500)
    assert {send.target for send in core.sent.values()} == {-1, -2}
    core.answer(
        core.last(quorum.QuorumFetchRequest),
        quorum.QuorumFetchResponse(6, 3, 7, endpoint=quorum.QuorumEndpoint("there", 5)),
    )
    assert core.raft.role is Role.FOLLOWER
    assert core.raft.context.endpoint_of(3) == ("there", 5)
    assert events.LeaderChanged(3, 7) in core.effects
    core.wait(2_100)
    assert core.raft.role is Role.UNATTACHED
    assert not [s for s in core.sent.values() if isinstance(s.body, quorum.VoteRequest)]


def test_response_to_an_earlier_role_is_ignored() -> None:
    """A vote arrives after another controller won the election."""
    core = Core(1, formatted(1, 2, 3))
    core.wait(2_000)
    send = core.last(quorum.VoteRequest)
    core.follow(3, 4)
    core.answer(send, quorum.VoteResponse(0, vote_granted=True))
    assert core.raft.role is Role.FOLLOWER


def test_timer_is_always_in_the_future() -> None:
    """It is set again whenever it fires."""
    core = Core(1, formatted(1, 2, 3))
    for _ in range(50):
        deadlines = [timer.deadline_ms for timer in core.of(events.SetTimer)]
        assert deadlines
        assert deadlines[-1] > core.now_ms
        core.now_ms = deadlines[-1]
        core.step(events.TimerFired())
