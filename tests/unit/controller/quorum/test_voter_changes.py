"""Adding, removing and updating voters, one at a time."""

import pytest
from headrace.controller.quorum import events
from headrace.controller.state.features import check_supported
from headrace.protocol import errors
from headrace.protocol.messages import quorum
from headrace.protocol.metadata.features import OWN_RANGES, SUPPORTED
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.model import FeatureRange
from quorum_rig import Core, formatted, key


def leader() -> Core:
    return Core(1, formatted(1, 2, 3)).activate()


def add(node: int, **facts) -> quorum.AddRaftVoterRequest:
    fields = {"voter_id": node, "directory_id": key(node % 256).directory_id, "host": "h", "port": 1} | facts
    return quorum.AddRaftVoterRequest("", **fields)


def commit(core: Core, *nodes: int) -> None:
    """Flush the leader's log and let these voters fetch it."""
    if core.log.flushed_offset < core.log.end_offset:
        core.flush()
    for node in nodes:
        core.fetch(node, core.log.end_offset, core.log.last_epoch)


def outcome(core: Core) -> list[int]:
    return [r.body.error_code for r in core.of(events.Reply) if isinstance(r.body, quorum.RaftVoterResponse)]


def test_caught_up_replica_becomes_voter() -> None:
    """It counts from the append of the record on: two of four are no majority."""
    core = leader()
    assert core.ask(add(4)).error_code == errors.RequestTimedOutError.code
    core.fetch(4, 0, 0)
    assert core.ask(add(4)).error_code == errors.RequestTimedOutError.code
    core.fetch(4, core.log.end_offset, 1)
    assert core.ask(add(4)) is None
    assert key(4) in core.raft.context.voters
    commit(core, 2)
    assert outcome(core) == []
    commit(core, 4)
    assert outcome(core) == [0]


def test_second_change_waits_for_the_first() -> None:
    """It is rejected until the record of the first one is committed."""
    core = leader()
    assert core.ask(quorum.RemoveRaftVoterRequest("", *key(3))) is None
    assert core.ask(quorum.RemoveRaftVoterRequest("", *key(2))).error_code == errors.RequestTimedOutError.code
    commit(core, 2)
    assert core.raft.context.voters == (key(1), key(2))
    assert core.ask(quorum.UpdateRaftVoterRequest("", *key(2), "x", 7)) is None
    commit(core, 2)
    assert core.raft.context.endpoint_of(2) == ("x", 7)


def test_no_change_before_a_record_of_the_epoch_is_committed() -> None:
    """Otherwise the majorities of two leaders might not intersect."""
    core = Core(1, formatted(1, 2, 3)).elect()
    core.flush()
    assert core.ask(quorum.RemoveRaftVoterRequest("", *key(3))).error_code == errors.RequestTimedOutError.code


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (add(2), errors.DuplicateVoterError.code),
        (add(2, directory_id=key(2, 2).directory_id), errors.DuplicateVoterError.code),
        (add(4, directory_id=b"short"), errors.InvalidRequestError.code),
        (add(-4), errors.InvalidRequestError.code),
        (add(2**31), errors.InvalidRequestError.code),
        (add(4, port=0), errors.InvalidRequestError.code),
        (add(4, port=65_536), errors.InvalidRequestError.code),
        (add(4, host="x" * 300), errors.InvalidRequestError.code),
        (quorum.RemoveRaftVoterRequest("", *key(9)), errors.VoterNotFoundError.code),
        (quorum.RemoveRaftVoterRequest("", *key(2, 2)), errors.VoterNotFoundError.code),
        (quorum.UpdateRaftVoterRequest("", *key(2), "", 1), errors.InvalidRequestError.code),
    ],
)
def test_invalid_change_is_rejected(request_, code) -> None:
    """With the specific error; nothing is appended."""
    core = leader()
    end = core.log.end_offset
    assert core.ask(request_).error_code == code
    assert core.log.end_offset == end


def test_only_voter_cannot_be_removed() -> None:
    """There would be no voter left to add one."""
    core = Core(1, formatted(1))
    core.flush()
    assert core.ask(quorum.RemoveRaftVoterRequest("", *key(1))).error_code == errors.InvalidRequestError.code


def test_resigning_leader_fails_the_pending_change() -> None:
    """The next leader may commit it or not; a controller that does not lead names the leader."""
    core = leader()
    assert core.ask(quorum.RemoveRaftVoterRequest("", *key(3))) is None
    core.step(events.StopRequested())
    assert outcome(core) == [errors.NotLeaderOrFollowerError.code]
    other = Core(2, formatted(1, 2, 3)).follow(3, 7)
    answer = other.ask(quorum.RemoveRaftVoterRequest("", *key(3)))
    assert (answer.error_code, answer.leader_id) == (errors.NotLeaderOrFollowerError.code, 3)


def _with_level(core: Core, name: str, level: int) -> None:
    """The cluster has this level of the feature."""
    image = MetadataImage(features={name: level})
    core.raft.context.check_levels = lambda ranges, server: check_supported(image, ranges, server)


@pytest.mark.parametrize("feature", ["kraft.version", "metadata.version", "security.version"])
def test_a_controller_below_a_level_of_the_cluster_does_not_become_a_voter(feature: str) -> None:
    """As a node, which cannot register. A later version of it can."""
    core = leader()
    low, level = SUPPORTED[feature]
    _with_level(core, feature, level)
    others = tuple(each for each in OWN_RANGES if each.name != feature)
    for highest, code in ((level - 1, errors.UnsupportedVersionError.code), (level, None)):
        ranges = (*others, FeatureRange(feature, min(low, highest), highest))
        core.fetch(4, core.log.end_offset, 1, features=ranges)
        answer = core.ask(add(4))
        assert (answer and answer.error_code) == code
        if answer:
            assert answer.error_detail.startswith("controller 4 supports levels ")
            assert f" to {highest} of feature {feature}" in answer.error_detail
    assert key(4) in core.raft.context.voters


def test_a_voter_below_a_level_of_the_cluster_does_not_update_its_endpoint() -> None:
    """A voter that was restarted with an earlier version; its levels are those of its last fetch."""
    core = leader()
    _with_level(core, "security.version", 2)
    update = quorum.UpdateRaftVoterRequest("", *key(3), "x", 7)
    assert core.ask(update).error_code == errors.RequestTimedOutError.code  # it has not fetched yet
    core.fetch(3, core.log.end_offset, 1)  # without levels: before this feature
    assert core.ask(update).error_code == errors.UnsupportedVersionError.code
    core.fetch(3, core.log.end_offset, 1, features=OWN_RANGES)
    assert core.ask(update) is None
    assert core.raft.context.endpoint_of(3) == ("x", 7)
