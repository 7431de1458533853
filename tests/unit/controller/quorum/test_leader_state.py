"""A leader: which records are committed, and when fetches are answered."""

import pytest
from headrace.controller.quorum import events, leader_state
from headrace.protocol import errors
from headrace.protocol.messages import quorum
from headrace.protocol.metadata.features import OWN_RANGES
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.replay import replay
from metadata_rig import NOW
from quorum_rig import Core, batch, formatted, key, open_log


def leader(**facts) -> Core:
    return Core(1, formatted(1, 2, 3), **facts).activate()


@pytest.fixture
def core() -> Core:
    return leader()


def replies(core: Core) -> list[quorum.QuorumFetchResponse]:
    return [reply.body for reply in core.of(events.Reply)]


def test_only_flushed_records_are_committed(core: Core) -> None:
    """The leader's own log counts up to its flushed end, as the followers' logs do."""
    end = core.log.end_offset
    core.step(events.AppendRequested((batch("a"),)))
    core.fetch(2, end + 1, 1)
    assert core.log.high_watermark == end
    core.flush()
    assert core.of(events.Committed) == [events.Committed(end + 1)]
    core.step(events.AppendRequested((batch("b"),)))
    core.flush()
    assert core.log.high_watermark == end + 1
    core.fetch(3, end + 2, 1)
    assert core.log.high_watermark == end + 2


def test_record_of_an_earlier_epoch_is_committed_with_one_of_this_epoch() -> None:
    """Raft's figure 8: a majority has the older record, and yet it may be lost."""
    first = leader()
    first.step(events.AppendRequested((batch("old"),)))
    first.flush()
    core = Core(1, first.files.restart()).elect()
    old_end = core.log.end_offset - 1
    core.flush()
    core.fetch(2, old_end, 1)
    assert core.log.high_watermark < old_end
    core.fetch(2, core.log.end_offset, 2)
    assert core.log.high_watermark == core.log.end_offset


def test_delayed_fetch_completes(core: Core) -> None:
    """By an append, before its flush; by a higher high watermark; by its deadline."""
    end = core.log.end_offset
    assert core.fetch(2, end, 1) is None
    core.step(events.AppendRequested((batch("a"),)))
    answer, *_ = core.of(events.Reply)
    assert (answer.body.error_code, len(b"".join(map(bytes, answer.frames))) > 0) == (0, True)
    core.flush()
    assert core.fetch(3, end + 1, 1, high_watermark=end) is not None, (
        "the follower's high watermark is behind"
    )
    assert core.fetch(3, end + 1, 1, high_watermark=end + 1) is None
    core.wait(490)
    assert not core.of(events.Reply)
    core.wait(10)
    assert len(core.of(events.Reply)) == 1
    assert core.fetch(3, end + 1, 1, max_wait_ms=0) is not None


def test_second_fetch_of_a_replica_completes_the_first(core: Core) -> None:
    """Both get a response, and at most one is delayed."""
    end = core.log.end_offset
    core.wait(600)
    assert core.fetch(3, end, 1) is None
    assert core.fetch(3, end, 1) is None
    assert len(core.of(events.Reply)) == 1


def test_fetch_with_diverging_epoch_gets_the_divergence() -> None:
    """An unknown epoch gets the end of the previous one; an epoch after the leader's or a negative offset
    gets an error."""
    first = leader()
    core = Core(1, first.files.restart()).elect()
    core.flush()
    end_of_first = core.log.end_offset - 1
    answer = core.fetch(2, 99, 1)
    assert (answer.diverging_epoch, answer.diverging_end_offset) == (1, end_of_first)
    assert answer.log_start_offset == 0
    assert core.raft.quorum.leader.has_caught_up(key(2), core.now_ms) is True, (
        "it has what is committed so far"
    )
    assert core.fetch(2, 5, 9).error_code == errors.UnknownLeaderEpochError.code
    assert core.fetch(2, -1, 1).error_code == errors.InvalidRequestError.code
    assert core.fetch(2, 0, 0).error_code == 0


def trimmed() -> Core:
    """A leader whose log start was advanced by two snapshots."""
    core = leader(segment_bytes=300)
    image = MetadataImage()
    for number in range(40):
        core.step(events.AppendRequested((batch(f"{number}"),)))
        core.flush()
        core.fetch(2, core.log.end_offset, 1)
        if number in (19, 39):
            for base, records in core.log.committed(image.offset + 1, core.log.high_watermark):
                image, _ = replay(image, base, records)
            core.log.write_snapshot(image, NOW)
    assert core.log.start_offset > 0
    return core


def test_replica_before_the_log_start_gets_the_snapshot() -> None:
    """Also a replica at the log start with another epoch. Positions of pieces are validated."""
    core = trimmed()
    newest = core.log.snapshots.ids[0]
    for offset, epoch in ((0, 0), (core.log.start_offset - 1, 1), (core.log.start_offset, 0)):
        answer = core.fetch(3, offset, epoch)
        assert (answer.snapshot_end_offset, answer.snapshot_epoch) == newest
        assert answer.diverging_epoch == -1
    found, size = b"", 1
    while len(found) < size:
        request = quorum.FetchSnapshotRequest("", *key(3), 1, *newest, len(found), 100)
        size = core.ask(request).size
        found += bytes(core.of(events.Reply)[0].frames[0])
    assert found == core.files.content(f"/metadata/__cluster_metadata-0/{newest.file_name}")
    past = quorum.FetchSnapshotRequest("", *key(3), 1, *newest, size, 100)
    assert core.ask(past).error_code == errors.PositionOutOfRangeError.code
    gone = quorum.FetchSnapshotRequest("", *key(3), 1, newest.end_offset + 1, 1, 0, 100)
    assert core.ask(gone).error_code == errors.SnapshotNotFoundError.code


def test_observers_do_not_count_and_are_limited(core: Core) -> None:
    """Neither for the high watermark nor for check quorum; the observer with the oldest fetch is
    forgotten."""
    core.step(events.AppendRequested((batch("a"),)))
    core.flush()
    before = core.log.high_watermark
    core.fetch(2, core.log.end_offset, 1, disk=2)
    core.fetch(9, core.log.end_offset, 1)
    assert core.log.high_watermark == before
    for node in range(leader_state.MAX_OBSERVERS + 20):
        core.now_ms += 1
        core.ask(quorum.QuorumFetchRequest("", 1000 + node, b"d" * 16, 1, 0, 0, 0, 1, 0))
    described = core.ask(quorum.DescribeQuorumRequest())
    assert len(described.observers) == leader_state.MAX_OBSERVERS
    assert described.observers[0].replica_id > 9
    core.wait(3_100)
    assert not core.raft.is_active


def test_begin_quorum_epoch_is_repeated_for_voters_that_do_not_fetch(core: Core) -> None:
    """After half a fetch timeout without a fetch."""
    core.wait(700)
    core.fetch(2, core.log.end_offset, 1)
    core.wait(600)
    contacted = {
        send.target for send in core.of(events.Send) if isinstance(send.body, quorum.BeginQuorumEpochRequest)
    }
    assert contacted == {3}


def test_describe_quorum(core: Core) -> None:
    """Voters by id, with -1 for a voter that has never fetched; only the leader responds."""
    core.wait(100)
    answer = core.ask(quorum.DescribeQuorumRequest())
    assert (answer.leader_id, answer.leader_epoch, answer.high_watermark) == (1, 1, core.log.end_offset)
    own, second, third = answer.voters
    assert (own.log_end_offset, own.last_fetch_ago_ms) == (core.log.end_offset, 0)
    assert (second.log_end_offset, second.last_fetch_ago_ms) == (core.log.end_offset, 100)
    assert (third.log_end_offset, third.last_fetch_ago_ms, third.endpoint.host) == (-1, -1, "c3")
    other = Core(2, formatted(1, 2, 3))
    assert other.ask(quorum.DescribeQuorumRequest()).error_code == errors.NotLeaderOrFollowerError.code


def test_removed_leader_resigns_once_the_change_is_committed(core: Core) -> None:
    """Until then it leads without counting itself."""
    remove = quorum.RemoveRaftVoterRequest("", *key(1))
    assert core.ask(remove) is None
    core.flush()
    core.fetch(2, core.log.end_offset, 1)
    assert core.raft.is_active, "one of two voters is no majority"
    core.fetch(3, core.log.end_offset, 1)
    assert not core.raft.is_active
    assert events.Resigned(1) in core.effects
    core.wait(5_000)
    assert not [s for s in core.of(events.Send) if isinstance(s.body, quorum.VoteRequest)]


def test_append_before_the_leader_is_active_asserts() -> None:
    """The shell must wait for BecameLeader."""
    core = Core(1, formatted(1, 2, 3)).elect()
    with pytest.raises(AssertionError):
        core.step(events.AppendRequested((batch("a"),)))


def test_leader_with_a_new_endpoint_updates_the_voter_set(core: Core) -> None:
    """In the first records of its epoch."""
    again = Core(1, core.files.restart())
    again.raft.context.endpoint = again.raft.context.endpoint._replace(port=9999)
    again.elect()
    assert again.raft.context.endpoint_of(1).port == 9999
    again.flush()
    assert open_log(again.files.restart()).voters.latest.voters[0].endpoints[0].port == 9999


def test_stalled_leader_does_not_resign(core: Core) -> None:
    """No fetch could reach it: it resigns one and a half fetch timeouts after the stall."""
    core.now_ms += 60_000
    core.step(events.TimerFired())
    assert core.raft.quorum.leader is not None
    core.wait(1_900)  # the timer was due a second after the last fetch
    assert core.raft.quorum.leader is not None
    core.wait(1_300)
    assert core.raft.quorum.leader is None
    (changed,) = (each for each in core.effects if isinstance(each, events.LeaderChanged))
    assert changed.reason == "resigned or lost its majority"


def test_what_voters_support_is_known_from_their_fetches(core: Core) -> None:
    """Of an older version, which reports nothing, and of one that has not fetched in this epoch."""
    state = core.raft.quorum.leader
    assert state is not None
    assert state.supported() == {2: (), 3: None}
    core.fetch(3, core.log.end_offset, core.log.last_epoch, features=OWN_RANGES)
    core.fetch(9, core.log.end_offset, core.log.last_epoch, features=OWN_RANGES)  # an observer
    assert state.supported() == {2: (), 3: OWN_RANGES}
