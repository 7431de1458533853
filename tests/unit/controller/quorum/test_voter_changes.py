"""Voters come and go, one at a time."""

from __future__ import annotations

import pytest
from headrace.controller.quorum import events
from headrace.protocol.errors import (
    DuplicateVoterError,
    InvalidRequestError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    VoterNotFoundError,
)
from headrace.protocol.messages import quorum
from quorum_rig import Core, formatted, key


def leader() -> Core:
    return Core(1, formatted(1, 2, 3)).activate()


def add(node: int, **facts) -> quorum.AddRaftVoterRequest:
    fields = {"voter_id": node, "directory_id": key(node % 256).directory_id, "host": "h", "port": 1} | facts
    return quorum.AddRaftVoterRequest("", **fields)


def commit(core: Core, *nodes: int) -> None:
    """Bring everything to the leader's disk and these nodes."""
    if core.log.flushed_offset < core.log.end_offset:
        core.flush()
    for node in nodes:
        core.fetch(node, core.log.end_offset, core.log.last_epoch)


def outcome(core: Core) -> list[int]:
    return [r.body.error_code for r in core.of(events.Reply) if isinstance(r.body, quorum.RaftVoterResponse)]


def test_a_replica_that_has_caught_up_becomes_a_voter() -> None:
    """Not before; and it counts from the record on, before that is committed: two of four are too few."""
    core = leader()
    assert core.ask(add(4)).error_code == RequestTimedOutError.code
    core.fetch(4, 0, 0)
    assert core.ask(add(4)).error_code == RequestTimedOutError.code
    core.fetch(4, core.log.end_offset, 1)
    assert core.ask(add(4)) is None
    assert key(4) in core.raft.context.voters
    commit(core, 2)
    assert outcome(core) == []
    commit(core, 4)
    assert outcome(core) == [0]


def test_one_change_at_a_time() -> None:
    """The next one is refused until the record of the first is committed."""
    core = leader()
    assert core.ask(quorum.RemoveRaftVoterRequest("", *key(3))) is None
    assert core.ask(quorum.RemoveRaftVoterRequest("", *key(2))).error_code == RequestTimedOutError.code
    commit(core, 2)
    assert core.raft.context.voters == (key(1), key(2))
    assert core.ask(quorum.UpdateRaftVoterRequest("", *key(2), "x", 7)) is None
    commit(core, 2)
    assert core.raft.context.endpoint_of(2) == ("x", 7)


def test_no_change_before_a_record_of_the_epoch_is_committed() -> None:
    """Else majorities of two leaders might not meet."""
    core = Core(1, formatted(1, 2, 3)).elect()
    core.flush()
    assert core.ask(quorum.RemoveRaftVoterRequest("", *key(3))).error_code == RequestTimedOutError.code


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (add(2), DuplicateVoterError.code),
        (add(2, directory_id=key(2, 2).directory_id), DuplicateVoterError.code),
        (add(4, directory_id=b"short"), InvalidRequestError.code),
        (add(-4), InvalidRequestError.code),
        (add(2**31), InvalidRequestError.code),
        (add(4, port=0), InvalidRequestError.code),
        (add(4, port=65_536), InvalidRequestError.code),
        (add(4, host="x" * 300), InvalidRequestError.code),
        (quorum.RemoveRaftVoterRequest("", *key(9)), VoterNotFoundError.code),
        (quorum.RemoveRaftVoterRequest("", *key(2, 2)), VoterNotFoundError.code),
        (quorum.UpdateRaftVoterRequest("", *key(2), "", 1), InvalidRequestError.code),
    ],
)
def test_what_cannot_be_is_refused(request_, code) -> None:
    """With the error that says why; nothing is written."""
    core = leader()
    end = core.log.end_offset
    assert core.ask(request_).error_code == code
    assert core.log.end_offset == end


def test_the_last_voter_stays() -> None:
    """Nobody could ever vote again."""
    core = Core(1, formatted(1))
    core.flush()
    assert core.ask(quorum.RemoveRaftVoterRequest("", *key(1))).error_code == InvalidRequestError.code


def test_a_leader_that_resigns_says_that_it_does_not_know() -> None:
    """The change may or may not last; a controller that does not lead names the leader."""
    core = leader()
    assert core.ask(quorum.RemoveRaftVoterRequest("", *key(3))) is None
    core.step(events.StopRequested())
    assert outcome(core) == [NotLeaderOrFollowerError.code]
    other = Core(2, formatted(1, 2, 3)).follow(3, 7)
    answer = other.ask(quorum.RemoveRaftVoterRequest("", *key(3)))
    assert (answer.error_code, answer.leader_id) == (NotLeaderOrFollowerError.code, 3)
