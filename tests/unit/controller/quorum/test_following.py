"""A follower: what it fetches, when, and what it does with what comes."""

from __future__ import annotations

import pytest
from fake_files import FakeFiles
from headrace.controller.quorum import events
from headrace.controller.quorum.record_batches import addressed
from headrace.controller.quorum.roles import Role
from headrace.controller.quorum.snapshots import SnapshotId, write_snapshot
from headrace.protocol.messages import quorum
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.records import ConfigRecord
from headrace.protocol.metadata.replay import replay
from metadata_rig import NOW
from quorum_rig import DIRECTORY, Core, batch, formatted, key, voters


def follower(**facts) -> Core:
    """Follows 3 in epoch 7, with an empty log."""
    return Core(1, formatted(1, 2, 3), **facts).follow(3, 7)


def ok(high_watermark: int = 0, **facts) -> quorum.QuorumFetchResponse:
    return quorum.QuorumFetchResponse(0, 3, 7, high_watermark, **facts)


def written(offset: int, epoch: int = 7, text: str = "x") -> bytes:
    """A decision as the leader has it."""
    return addressed(batch(text), offset, epoch)


def asked(core: Core) -> list[quorum.QuorumFetchRequest]:
    """The fetches of the last step."""
    return [s.body for s in core.of(events.Send) if isinstance(s.body, quorum.QuorumFetchRequest)]


def test_it_asks_again_only_when_all_is_flushed() -> None:
    """So its offset says what is durable here; committed is what the leader says and this disk has."""
    core = follower()
    core.fetched(ok(2), written(0), written(1))
    assert core.of(events.Flush)
    assert not asked(core)
    assert core.log.high_watermark == 0
    core.flush()
    (request,) = asked(core)
    assert (request.fetch_offset, request.last_fetched_epoch, request.leader_epoch) == (2, 7, 7)
    assert core.of(events.Committed) == [events.Committed(2)]
    core.fetched(ok(9), written(2))
    core.flush()
    assert core.log.high_watermark == 3, "the leader is further"


def test_it_goes_back_to_where_the_logs_agree() -> None:
    """By epochs: its own end of the leader's epoch, or the leader's, whichever is less."""
    core = follower()
    core.fetched(ok(1), written(0, 1), written(1, 4), written(2, 4), written(3, 6))
    core.flush()
    core.fetched(ok(diverging_epoch=5, diverging_end_offset=9))
    assert core.log.end_offset == 3, "epoch 4 ended there"
    assert asked(core)[0].fetch_offset == 3
    core.fetched(ok(diverging_epoch=4, diverging_end_offset=2))
    assert core.log.end_offset == 2
    again = Core(1, core.files.power_loss("none"))
    assert again.log.end_offset == 2, "truncation is durable"


@pytest.mark.parametrize(("epoch", "end_offset"), [(9, 5), (1, 99), (1, -5)])
def test_a_senseless_divergence_is_ignored(epoch, end_offset) -> None:
    """Nothing is cut, and it asks again after the backoff, not at once."""
    core = follower()
    core.fetched(ok(), written(0, 1))
    core.flush()
    core.fetched(ok(diverging_epoch=epoch, diverging_end_offset=end_offset))
    assert core.log.end_offset == 1
    assert not asked(core)
    core.wait(30)
    assert asked(core)


def test_committed_data_is_never_cut() -> None:
    """A leader that wants that is no leader: better to stop."""
    core = follower()
    core.fetched(ok(2), written(0, 1), written(1, 2))
    core.flush()
    with pytest.raises(AssertionError, match="are committed"):
        core.fetched(ok(diverging_epoch=1, diverging_end_offset=1))


@pytest.mark.parametrize("spoil", ["flip", "gap", "cut", "none"])
def test_bad_batches_are_not_taken(spoil) -> None:
    """What comes before them is; the rest is asked for again after the backoff."""
    core = follower()
    good, bad = written(0), bytearray(written(1))
    if spoil == "flip":
        bad[70] ^= 1
    elif spoil == "gap":
        bad = bytearray(written(5))
    elif spoil == "cut":
        bad = bad[:-3]
    else:
        bad = bytearray(b"\0" * 20)
    core.fetched(ok(2), good + bytes(bad))
    core.flush()
    assert core.log.end_offset == 1
    core.wait(30)
    assert core.last(quorum.QuorumFetchRequest).body.fetch_offset == 1


def test_a_lost_fetch_is_repeated_before_the_leader_is_given_up() -> None:
    """After half the fetch timeout; the late answer to the first means nothing."""
    core = follower()
    first = core.last(quorum.QuorumFetchRequest)
    core.wait(1_010)
    second = core.last(quorum.QuorumFetchRequest)
    assert second is not first
    core.answer(first, ok(), written(0))
    assert core.log.end_offset == 0
    core.answer(second, ok(), written(0))
    assert core.log.end_offset == 1
    core.wait(1_700)  # up to an eighth of the timeout is taken off by chance
    assert core.raft.role is Role.FOLLOWER


def test_a_leader_that_cannot_be_reached_is_given_up_sooner() -> None:
    """Its connection is gone: between a quarter and half of the fetch timeout, and whoever asks meanwhile
    gets the pre-vote. It answers again: all is as before."""
    core = follower()
    core.fetched(ok())
    core.step(events.RequestFailed(core.last(quorum.QuorumFetchRequest).correlation_id))
    core.wait(490)
    assert core.raft.role is Role.FOLLOWER
    pre_vote = quorum.VoteRequest("", *key(1), 7, *key(2), 9, 9, pre_vote=True)
    assert core.ask(pre_vote).vote_granted
    core.wait(520)
    assert core.raft.role is Role.PROSPECTIVE
    core = follower()
    core.step(events.RequestFailed(core.last(quorum.QuorumFetchRequest).correlation_id))
    core.wait(30)
    core.fetched(ok())
    core.wait(1_700)  # up to an eighth of the timeout is taken off by chance
    assert core.raft.role is Role.FOLLOWER


def test_answers_of_another_epoch_are_not_taken() -> None:
    """The request is of this epoch, the answer of an earlier one: nothing is written."""
    core = follower()
    core.fetched(quorum.QuorumFetchResponse(0, 3, 6, 5), written(0))
    assert (core.log.end_offset, core.log.high_watermark) == (0, 0)


# --- snapshots ------------------------------------------------------------------------------------------


def a_snapshot() -> tuple[SnapshotId, bytes, MetadataImage]:
    """Of an image at offset 9, its bytes, and the image; its voters are 1, 3 and 4."""
    files = FakeFiles()
    files.mkdir("/s")
    image = MetadataImage()
    for offset in range(10):
        image, _ = replay(image, offset, [ConfigRecord(4, "", f"k{offset}", "v")])
    snapshot = write_snapshot(files, "/s", image, 5, NOW, voters(1, 3, 4))
    return snapshot, files.content(f"/s/{snapshot.file_name}"), image


def piece(core: Core, data: bytes, position: int, size: int, **facts) -> tuple:
    body = quorum.FetchSnapshotResponse(0, 3, 7, size, position)
    return core.answer(core.last(quorum.FetchSnapshotRequest), body, data)


def test_a_snapshot_comes_in_pieces_and_replaces_all() -> None:
    """Image, voters, log start, high watermark; the next fetch continues behind it. All of it is durable."""
    snapshot, data, image = a_snapshot()
    core = follower()
    core.fetched(ok(), written(0, 1), written(1, 2))
    core.flush()
    core.fetched(ok(snapshot_end_offset=10, snapshot_epoch=5))
    piece(core, data[:100], 0, len(data))
    assert core.last(quorum.FetchSnapshotRequest).body.position == 100
    assert core.log.end_offset == 2, "nothing changed yet"
    piece(core, data[100:], 100, len(data))
    assert core.of(events.LoadSnapshot) == [events.LoadSnapshot(snapshot)]
    assert core.log.read_snapshot(snapshot) == image
    assert (core.log.start_offset, core.log.end_offset, core.log.high_watermark) == (10, 10, 10)
    assert core.raft.context.voters == (key(1), key(3), key(4))
    request = core.last(quorum.QuorumFetchRequest).body
    assert (request.fetch_offset, request.last_fetched_epoch) == (10, 5)
    core.fetched(ok(11), written(10, 7))
    core.flush()
    again = Core(1, core.files.power_loss("none"))
    assert again.log.recovered == image
    assert (again.log.end_offset, again.log.last_epoch) == (11, 7)


def test_a_damaged_snapshot_is_thrown_away() -> None:
    """One bit is wrong: nothing changes, and it begins anew with a fetch."""
    _, data, _ = a_snapshot()
    core = follower()
    core.fetched(ok(snapshot_end_offset=10, snapshot_epoch=5))
    spoiled = bytearray(data)
    spoiled[150] ^= 4
    piece(core, bytes(spoiled), 0, len(data))
    assert not core.of(events.LoadSnapshot)
    assert not [name for name in core.files.listdir(DIRECTORY) if name.startswith("00000000000000000010")]
    core.wait(30)
    assert asked(core)


@pytest.mark.parametrize("fault", ["gone", "empty", "elsewhere", "huge"])
def test_a_piece_that_is_none_begins_anew(fault) -> None:
    """The leader has a newer snapshot by now, or talks nonsense."""
    _, data, _ = a_snapshot()
    core = follower()
    core.fetched(ok(snapshot_end_offset=10, snapshot_epoch=5))
    send = core.last(quorum.FetchSnapshotRequest)
    size = 1 << 40 if fault == "huge" else len(data)
    position = 5 if fault == "elsewhere" else 0
    body = quorum.FetchSnapshotResponse(98 if fault == "gone" else 0, 3, 7, size, position)
    core.answer(send, body, b"" if fault == "empty" else data)
    core.wait(30)
    assert asked(core)


# --- who it wants to be ---------------------------------------------------------------------------------


def test_a_voter_that_has_moved_says_so() -> None:
    """Once, and again after an election timeout if that was in vain."""
    core = Core(1, formatted(1, 2, 3))
    core.raft.context.endpoint = core.raft.context.endpoint._replace(port=77)
    core.follow(3, 7)
    assert core.last(quorum.UpdateRaftVoterRequest).body.port == 77
    assert not [s for s in follower().sent.values() if isinstance(s.body, quorum.UpdateRaftVoterRequest)]


@pytest.mark.parametrize("auto_join", [False, True])
def test_an_observer_joins_if_it_is_told_to(auto_join) -> None:
    """Once it has what is committed. In place of its old self, which it removes first."""
    keys = {"controller.quorum.auto.join.enable": auto_join}
    core = Core(4, formatted(1, 2, 3), **keys).follow(3, 7)
    assert not [s for s in core.sent.values() if isinstance(s.body, quorum.AddRaftVoterRequest)]
    core.fetched(ok(1), written(0))
    core.flush()
    core.wait(1_010)
    joins = [s.body for s in core.sent.values() if isinstance(s.body, quorum.AddRaftVoterRequest)]
    assert [(join.voter_id, join.host) for join in joins] == ([(4, "c4")] if auto_join else [])
    core = Core(2, formatted(1, 2, 3), disk=2, **keys).follow(3, 7)
    core.fetched(ok(1), written(0))
    core.flush()
    core.wait(1_010)
    leaves = [s.body for s in core.sent.values() if isinstance(s.body, quorum.RemoveRaftVoterRequest)]
    assert [leave.directory_id for leave in leaves] == ([key(2, 1).directory_id] if auto_join else [])


def test_a_follower_that_stood_still_does_not_campaign_on_waking() -> None:
    """Its timer comes 10 s late: it could receive nothing meanwhile. It asks again, and gives the leader up
    only after a fetch timeout in which it was awake."""
    core = follower()
    core.fetched(ok())
    core.now_ms += 10_000
    core.step(events.TimerFired())
    assert core.raft.role is Role.FOLLOWER
    assert core.last(quorum.QuorumFetchRequest)
    core.wait(700)  # the timer was due a second after the last answer
    assert core.raft.role is Role.FOLLOWER
    core.wait(1_400)
    assert core.raft.role is Role.PROSPECTIVE
    assert core.raft.context.epoch == 7, "no epoch changes by that"


def test_a_follower_that_is_always_late_gives_a_dead_leader_up_all_the_same() -> None:
    """Each timer comes 150 ms late: that is given back for one fetch timeout, not for ever."""
    core = follower()
    core.fetched(ok())
    for _ in range(100):
        core.now_ms = max(core.raft._timer_ms, core.now_ms) + 150
        core.step(events.TimerFired())
        if core.raft.role is not Role.FOLLOWER:
            break
    assert core.raft.role is not Role.FOLLOWER


def test_a_slow_flush_does_not_silence_leader_and_follower() -> None:
    """The disk takes 10 s: fetches from the durable part go on, with room for no record; their answers keep
    the leader, and append nothing. Then all is as before."""
    core = follower()
    core.fetched(ok(1), written(0), written(1))
    assert core.of(events.Flush)
    kept_alive = 0
    for _ in range(100):
        core.wait(100)
        for send in core.of(events.Send):
            if isinstance(send.body, quorum.QuorumFetchRequest):
                assert (send.body.fetch_offset, send.body.max_bytes, send.body.max_wait_ms) == (0, 0, 0)
                core.answer(send, ok(2), written(0))
                kept_alive += 1
    assert core.raft.role is Role.FOLLOWER
    assert 10 <= kept_alive <= 30
    assert core.log.end_offset == 2
    core.flush()
    (request,) = asked(core)
    assert (request.fetch_offset, request.last_fetched_epoch) == (2, 7)
    assert request.max_bytes > 0


def test_a_campaign_says_why() -> None:
    """For the log: the leader gave no answer for a fetch timeout."""
    core = follower()
    effects = core.wait(2_100)
    (campaign,) = (each for each in effects if isinstance(each, events.Campaigning))
    assert campaign.reason == "fetch timeout: no answer of the leader"
