"""One controller in the quorum: epochs, votes and roles, message by message."""

from __future__ import annotations

import pytest
from fake_files import FakeFiles
from headrace.controller.quorum import events
from headrace.controller.quorum.metadata_log import MetadataLog
from headrace.controller.quorum.quorum_state import FILE_NAME, QuorumState, read_quorum_state
from headrace.controller.quorum.roles import Role
from headrace.protocol.errors import (
    FencedLeaderEpochError,
    InconsistentClusterIdError,
    InvalidRequestError,
    InvalidVoterKeyError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
)
from headrace.protocol.messages import quorum
from headrace.protocol.metadata.records import FormatRecord
from metadata_rig import NOW, Voter, topic
from quorum_rig import DIRECTORY, METADATA_DIR, Core, batch, formatted, key, voters


def vote(core: Core, candidate: int, epoch: int, *, position=(9, 99), disk=1, **facts) -> quorum.VoteResponse:
    """Ask a controller for its vote."""
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


def test_the_only_voter_leads_in_its_first_step() -> None:
    """Elected at once; it decides once the first record of its epoch is flushed, and asks nobody."""
    core = Core(1, formatted(1))
    assert (core.raft.role, core.raft.context.epoch) == (Role.LEADER, 1)
    assert not core.raft.is_active
    core.flush()
    kinds = [type(effect) for effect in core.effects]
    assert kinds.index(events.Committed) < kinds.index(events.BecameLeader)
    core.step(events.Append((batch("a"), batch("b"))))
    core.flush()
    assert core.of(events.Committed) == [events.Committed(core.log.end_offset)]
    assert not core.sent
    again = Core(1, core.files.power_loss("none"))
    assert again.raft.context.epoch == 2
    again.flush()
    found = [records for _, records in again.log.committed(0, again.log.high_watermark)]
    assert len(found) == 5, "LeaderChange, voters, two decisions, LeaderChange"


def test_a_log_of_a_controller_alone_goes_on_in_a_quorum() -> None:
    """Written before there was a quorum, then formatted: everything is there and is committed."""
    files = FakeFiles()
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


def test_a_vote_is_on_the_disk_before_it_is_given() -> None:
    """Given, forgotten by nobody: after a power loss the other candidate gets no vote in that epoch."""
    core = Core(1, formatted(1, 2, 3))
    assert vote(core, 2, 5).vote_granted
    assert read_quorum_state(core.files, DIRECTORY) == QuorumState("", -1, 5, *key(2))
    again = Core(1, core.files.power_loss("none"))
    assert not vote(again, 3, 5).vote_granted
    assert vote(again, 2, 5).vote_granted, "the same vote once more"
    assert vote(again, 3, 6).vote_granted


def test_a_lost_vote_is_refused_at_start() -> None:
    """The file is gone or damaged though the log has an epoch: this disk might vote twice."""
    core = Core(1, formatted(1))
    core.flush()
    core.files.put(f"{DIRECTORY}/{FILE_NAME}", b"rot")
    with pytest.raises(KafkaStorageError, match="damaged"):
        Core(1, core.files.restart())
    core.files.remove(f"{DIRECTORY}/{FILE_NAME}")
    with pytest.raises(KafkaStorageError, match="missing"):
        Core(1, core.files.restart())


def test_a_new_disk_does_not_vote_for_the_old_one() -> None:
    """The request names the disk that is gone."""
    core = Core(1, FakeFiles(), disk=2)
    answer = vote(core, 2, 5, target=key(1, disk=1))
    assert (answer.error_code, answer.vote_granted) == (InvalidVoterKeyError.code, False)
    assert core.raft.context.epoch == 0


@pytest.mark.parametrize(
    ("epoch", "code"), [(-1, InvalidRequestError.code), (2**31, InvalidRequestError.code)]
)
def test_epochs_that_no_log_can_hold_are_refused(epoch, code) -> None:
    """They would stick for ever."""
    core = Core(1, formatted(1, 2, 3))
    assert vote(core, 2, epoch).error_code == InvalidRequestError.code
    assert core.raft.context.epoch == 0


def test_other_clusters_are_refused() -> None:
    """Ports are used again: the answer may come from, or go to, a stranger."""
    core = Core(1, formatted(1, 2, 3))
    core.raft.context.cluster_id = "ours"
    assert vote(core, 2, 5, cluster_id="theirs").error_code == InconsistentClusterIdError.code
    assert vote(core, 2, 5, cluster_id="ours").vote_granted


def test_an_old_epoch_is_fenced_and_told_the_new_one() -> None:
    """The candidate learns where it is."""
    core = Core(1, formatted(1, 2, 3)).follow(3, 7)
    answer = vote(core, 2, 6)
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (FencedLeaderEpochError.code, 3, 7)


def test_who_hears_the_leader_gives_no_pre_vote() -> None:
    """Only after it has waited in vain itself."""
    core = Core(1, formatted(1, 2, 3)).follow(3, 7)
    core.fetched(quorum.QuorumFetchResponse(0, 3, 7))
    assert not vote(core, 2, 7, pre_vote=True).vote_granted
    core.wait(2_100)
    assert core.raft.role is Role.PROSPECTIVE
    assert vote(core, 2, 7, pre_vote=True).vote_granted
    assert core.raft.context.epoch == 7, "a pre-vote changes nothing"


# --- elections ------------------------------------------------------------------------------------------


def test_an_election_from_pre_vote_to_the_first_decision() -> None:
    """Two rounds; the epoch rises in the second; the first record of the epoch must be committed."""
    core = Core(1, formatted(1, 2, 3))
    core.wait(2_000)
    pre_votes = [send for send in core.sent.values() if isinstance(send.body, quorum.VoteRequest)]
    assert {(s.target, s.body.pre_vote, s.body.epoch) for s in pre_votes} == {(2, True, 0), (3, True, 0)}
    core.answer(core.last(quorum.VoteRequest), quorum.VoteResponse(0, vote_granted=True))
    assert (core.raft.role, core.raft.context.epoch) == (Role.CANDIDATE, 1)
    core.answer(core.last(quorum.VoteRequest), quorum.VoteResponse(0, -1, 1, vote_granted=True))
    assert core.raft.role is Role.LEADER
    assert core.of(events.Flush)
    greeted = {s.target for s in core.of(events.Send) if isinstance(s.body, quorum.BeginQuorumEpochRequest)}
    assert greeted == {2, 3}
    core.flush()
    assert not core.raft.is_active, "only this disk has it"
    core.fetch(2, core.log.end_offset, 1)
    assert core.raft.is_active


def test_lost_votes() -> None:
    """A pre-vote lost while the leader is known goes back to it; a lost vote waits and tries again."""
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


def test_a_higher_epoch_ends_everything() -> None:
    """A leader that hears of one resigns at once; who waits for it is told."""
    core = Core(1, formatted(1, 2, 3)).activate()
    assert core.fetch(3, core.log.end_offset, 1) is None, "parked"
    assert core.fetch(2, 0, 0, leader_epoch=9).error_code == UnknownLeaderEpochError.code
    assert events.Resigned(1) in core.effects
    parked = [reply.token for reply in core.of(events.Reply) if reply.body.error_code == 6]
    assert len(parked) == 2
    assert (core.raft.role, core.raft.context.epoch) == (Role.UNATTACHED, 9)


def test_a_leader_without_its_majority_resigns() -> None:
    """Check quorum: one and a half fetch timeouts; a fetch of one voter is enough to go on."""
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
    assert core.fetch(2, 0, 0).error_code == NotLeaderOrFollowerError.code
    core.wait(2_000)
    assert core.raft.role is Role.UNATTACHED


def test_a_restarted_leader_leads_no_more_in_its_epoch() -> None:
    """It may have lost what others have from it."""
    core = Core(1, formatted(1, 2, 3)).activate()
    again = Core(1, core.files.power_loss("none"))
    assert (again.raft.role, again.raft.context.epoch) == (Role.UNATTACHED, 1)
    assert again.fetch(2, 0, 0).error_code == NotLeaderOrFollowerError.code
    assert not vote(again, 2, 1).vote_granted
    again.elect()
    assert again.raft.context.epoch == 2


def test_followers_of_a_leader_that_resigned_need_not_wait() -> None:
    """By its goodbye: the first successor campaigns at once. By its answer: after the backoff."""
    core = Core(1, formatted(1, 2, 3)).follow(3, 7)
    core.ask(quorum.EndQuorumEpochRequest("", 3, 7, (1, 2)))
    assert core.raft.role is Role.PROSPECTIVE
    core = Core(1, formatted(1, 2, 3)).follow(3, 7)
    core.fetched(quorum.QuorumFetchResponse(NotLeaderOrFollowerError.code, -1, 7))
    assert core.raft.role is Role.UNATTACHED
    core.wait(1_010)
    assert core.raft.role is Role.PROSPECTIVE


def test_a_prospective_voter_follows_a_leader_that_lives() -> None:
    """It greets again: no election."""
    core = Core(1, formatted(1, 2, 3)).follow(3, 7)
    core.wait(2_100)
    assert core.raft.role is Role.PROSPECTIVE
    core.follow(3, 7)
    assert core.raft.role is Role.FOLLOWER


# --- observers ------------------------------------------------------------------------------------------


def test_an_observer_finds_the_leader_and_never_campaigns() -> None:
    """It asks the bootstrap servers in turn, follows whom they name, and looks again when that is gone."""
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


def test_answers_to_a_role_that_is_over_mean_nothing() -> None:
    """A vote that arrives after the election was lost to another."""
    core = Core(1, formatted(1, 2, 3))
    core.wait(2_000)
    send = core.last(quorum.VoteRequest)
    core.follow(3, 4)
    core.answer(send, quorum.VoteResponse(0, vote_granted=True))
    assert core.raft.role is Role.FOLLOWER


def test_the_timer_is_always_in_the_future() -> None:
    """And is set again whenever it has fired."""
    core = Core(1, formatted(1, 2, 3))
    for _ in range(50):
        deadlines = [timer.deadline_ms for timer in core.of(events.SetTimer)]
        assert deadlines
        assert deadlines[-1] > core.now_ms
        core.now_ms = deadlines[-1]
        core.step(events.TimerFired())
