"""A follower: when it fetches, and how it processes responses."""

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
    """Follows controller 3 in epoch 7, with an empty log."""
    return Core(1, formatted(1, 2, 3), **facts).follow(3, 7)


@pytest.fixture
def core() -> Core:
    return follower()


def ok(high_watermark: int = 0, **facts) -> quorum.QuorumFetchResponse:
    return quorum.QuorumFetchResponse(0, 3, 7, high_watermark, **facts)


def stored(offset: int, epoch: int = 7, text: str = "x") -> bytes:
    """A decision in the leader's log."""
    return addressed(batch(text), offset, epoch)


def fetches(core: Core) -> list[quorum.QuorumFetchRequest]:
    """The fetch requests of the last step."""
    return [s.body for s in core.of(events.Send) if isinstance(s.body, quorum.QuorumFetchRequest)]


def test_follower_fetches_only_when_its_log_is_flushed(core: Core) -> None:
    """So the fetch offset is the durable end. The high watermark is the lower one of the leader's and the
    durable end."""
    core.fetched(ok(2), stored(0), stored(1))
    assert core.of(events.Flush)
    assert not fetches(core)
    assert core.log.high_watermark == 0
    core.flush()
    (request,) = fetches(core)
    assert (request.fetch_offset, request.last_fetched_epoch, request.leader_epoch) == (2, 7, 7)
    assert core.of(events.Committed) == [events.Committed(2)]
    core.fetched(ok(9), stored(2))
    core.flush()
    assert core.log.high_watermark == 3, "the leader is further"


def test_follower_truncates_to_the_common_end(core: Core) -> None:
    """To the end of the diverging epoch, in its own log or in the leader's, whichever is lower."""
    core.fetched(ok(1), stored(0, 1), stored(1, 4), stored(2, 4), stored(3, 6))
    core.flush()
    core.fetched(ok(diverging_epoch=5, diverging_end_offset=9))
    assert core.log.end_offset == 3, "epoch 4 ended there"
    assert fetches(core)[0].fetch_offset == 3
    core.fetched(ok(diverging_epoch=4, diverging_end_offset=2))
    assert core.log.end_offset == 2
    again = Core(1, core.files.power_loss("none"))
    assert again.log.end_offset == 2, "truncation is durable"


@pytest.mark.parametrize(("epoch", "end_offset"), [(9, 5), (1, 99), (1, -5)])
def test_divergence_after_the_log_end_is_ignored(core: Core, epoch, end_offset) -> None:
    """The log is not truncated, and the next fetch waits for the backoff."""
    core.fetched(ok(), stored(0, 1))
    core.flush()
    core.fetched(ok(diverging_epoch=epoch, diverging_end_offset=end_offset))
    assert core.log.end_offset == 1
    assert not fetches(core)
    core.wait(30)
    assert fetches(core)


def test_truncation_below_the_high_watermark_asserts(core: Core) -> None:
    """No leader can have another record there: the process must end."""
    core.fetched(ok(2), stored(0, 1), stored(1, 2))
    core.flush()
    with pytest.raises(AssertionError, match="2 committed"):
        core.fetched(ok(diverging_epoch=1, diverging_end_offset=1))


@pytest.mark.parametrize("spoil", ["flip", "gap", "cut", "none"])
def test_bad_batch_is_not_appended(core: Core, spoil) -> None:
    """The batches before it are; the next fetch waits for the backoff."""
    good, bad = stored(0), bytearray(stored(1))
    if spoil == "flip":
        bad[70] ^= 1
    elif spoil == "gap":
        bad = bytearray(stored(5))
    elif spoil == "cut":
        bad = bad[:-3]
    else:
        bad = bytearray(b"\0" * 20)
    core.fetched(ok(2), good + bytes(bad))
    core.flush()
    assert core.log.end_offset == 1
    assert core.log.errors == 1
    core.wait(30)
    assert core.last(quorum.QuorumFetchRequest).body.fetch_offset == 1


def test_lost_fetch_is_repeated_before_the_fetch_timeout(core: Core) -> None:
    """After half of it; the late response to the first fetch is ignored."""
    first = core.last(quorum.QuorumFetchRequest)
    core.wait(1_010)
    second = core.last(quorum.QuorumFetchRequest)
    assert second is not first
    core.answer(first, ok(), stored(0))
    assert core.log.end_offset == 0
    core.answer(second, ok(), stored(0))
    assert core.log.end_offset == 1
    core.wait(1_700)  # up to an eighth of the timeout is taken off by chance
    assert core.raft.role is Role.FOLLOWER


def test_closed_connection_shortens_the_fetch_timeout() -> None:
    """To a quarter or half of it. Meanwhile the follower grants pre-votes, until the leader responds
    again."""
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


def test_response_of_an_earlier_epoch_is_ignored(core: Core) -> None:
    """The request was of this epoch: nothing is appended."""
    core.fetched(quorum.QuorumFetchResponse(0, 3, 6, 5), stored(0))
    assert (core.log.end_offset, core.log.high_watermark) == (0, 0)


# --- snapshots ------------------------------------------------------------------------------------------


def a_snapshot() -> tuple[SnapshotId, bytes, MetadataImage]:
    """(id, bytes, image) of a snapshot at offset 9; its voters are 1, 3 and 4."""
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


def test_fetched_snapshot_replaces_the_log() -> None:
    """Image, voters, log start and high watermark are durable; the next fetch starts after the snapshot."""
    snapshot, data, image = a_snapshot()
    core = follower()
    core.fetched(ok(), stored(0, 1), stored(1, 2))
    core.flush()
    core.fetched(ok(snapshot_end_offset=10, snapshot_epoch=5))
    piece(core, data[:100], 0, len(data))
    assert core.last(quorum.FetchSnapshotRequest).body.position == 100
    assert core.log.end_offset == 2, "no change yet"
    piece(core, data[100:], 100, len(data))
    assert core.of(events.LoadSnapshot) == [events.LoadSnapshot(snapshot)]
    assert core.log.snapshots.read(snapshot)[0] == image
    assert (core.log.start_offset, core.log.end_offset, core.log.high_watermark) == (10, 10, 10)
    assert core.raft.context.voters == (key(1), key(3), key(4))
    request = core.last(quorum.QuorumFetchRequest).body
    assert (request.fetch_offset, request.last_fetched_epoch) == (10, 5)
    core.fetched(ok(11), stored(10, 7))
    core.flush()
    again = Core(1, core.files.power_loss("none"))
    assert again.log.recovered == image
    assert (again.log.end_offset, again.log.last_epoch) == (11, 7)


def test_damaged_snapshot_is_deleted() -> None:
    """One bit is flipped: the log stays, and the follower fetches again."""
    _, data, _ = a_snapshot()
    core = follower()
    core.fetched(ok(snapshot_end_offset=10, snapshot_epoch=5))
    spoiled = bytearray(data)
    spoiled[150] ^= 4
    piece(core, bytes(spoiled), 0, len(data))
    assert not core.of(events.LoadSnapshot)
    assert not [name for name in core.files.listdir(DIRECTORY) if name.startswith("00000000000000000010")]
    core.wait(30)
    assert fetches(core)


@pytest.mark.parametrize("fault", ["gone", "empty", "elsewhere", "huge"])
def test_unexpected_snapshot_response_restarts_the_fetch(fault) -> None:
    """The leader has a newer snapshot, or the response has another position."""
    _, data, _ = a_snapshot()
    core = follower()
    core.fetched(ok(snapshot_end_offset=10, snapshot_epoch=5))
    send = core.last(quorum.FetchSnapshotRequest)
    size = 1 << 40 if fault == "huge" else len(data)
    position = 5 if fault == "elsewhere" else 0
    body = quorum.FetchSnapshotResponse(98 if fault == "gone" else 0, 3, 7, size, position)
    core.answer(send, body, b"" if fault == "empty" else data)
    core.wait(30)
    assert fetches(core)


# --- its next role --------------------------------------------------------------------------------------


def test_voter_with_a_new_endpoint_sends_update() -> None:
    """Once, and again after an election timeout without success."""
    core = Core(1, formatted(1, 2, 3))
    core.raft.context.endpoint = core.raft.context.endpoint._replace(port=77)
    core.follow(3, 7)
    assert core.last(quorum.UpdateRaftVoterRequest).body.port == 77
    assert not [s for s in follower().sent.values() if isinstance(s.body, quorum.UpdateRaftVoterRequest)]


@pytest.mark.parametrize("auto_join", [False, True])
def test_observer_with_auto_join_becomes_voter(auto_join) -> None:
    """Once it has caught up. A voter with the same id and a lost disk is removed first."""
    keys = {"controller.quorum.auto.join.enable": auto_join}
    core = Core(4, formatted(1, 2, 3), **keys).follow(3, 7)
    assert not [s for s in core.sent.values() if isinstance(s.body, quorum.AddRaftVoterRequest)]
    core.fetched(ok(1), stored(0))
    core.flush()
    core.wait(1_010)
    joins = [s.body for s in core.sent.values() if isinstance(s.body, quorum.AddRaftVoterRequest)]
    assert [(join.voter_id, join.host) for join in joins] == ([(4, "c4")] if auto_join else [])
    core = Core(2, formatted(1, 2, 3), disk=2, **keys).follow(3, 7)
    core.fetched(ok(1), stored(0))
    core.flush()
    core.wait(1_010)
    leaves = [s.body for s in core.sent.values() if isinstance(s.body, quorum.RemoveRaftVoterRequest)]
    assert [leave.directory_id for leave in leaves] == ([key(2, 1).directory_id] if auto_join else [])


def test_stalled_follower_does_not_campaign(core: Core) -> None:
    """Its timer fires 10 s late, so it could receive nothing: it fetches, and campaigns only after a fetch
    timeout without a stall."""
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


def test_follower_that_is_always_late_still_campaigns(core: Core) -> None:
    """Each timer fires 150 ms late: the deadline is extended by at most one fetch timeout."""
    core.fetched(ok())
    for _ in range(100):
        core.now_ms = max(core.timer_ms, core.now_ms) + 150
        core.step(events.TimerFired())
        if core.raft.role is not Role.FOLLOWER:
            break
    assert core.raft.role is not Role.FOLLOWER


def test_slow_flush_passes_no_fetch_timeout(core: Core) -> None:
    """During a flush of 10 s the follower fetches from the durable end, for no bytes, and appends nothing."""
    core.fetched(ok(1), stored(0), stored(1))
    assert core.of(events.Flush)
    kept_alive = 0
    for _ in range(100):
        core.wait(100)
        for send in core.of(events.Send):
            if isinstance(send.body, quorum.QuorumFetchRequest):
                assert (send.body.fetch_offset, send.body.max_bytes, send.body.max_wait_ms) == (0, 0, 0)
                core.answer(send, ok(2), stored(0))
                kept_alive += 1
    assert core.raft.role is Role.FOLLOWER
    assert 10 <= kept_alive <= 30
    assert core.log.end_offset == 2
    core.flush()
    (request,) = fetches(core)
    assert (request.fetch_offset, request.last_fetched_epoch) == (2, 7)
    assert request.max_bytes > 0


def test_campaign_has_a_reason(core: Core) -> None:
    """For the log line: the fetch timeout."""
    effects = core.wait(2_100)
    (campaign,) = (each for each in effects if isinstance(each, events.Campaigning))
    assert campaign.reason == "fetch timeout: no response of the leader"
