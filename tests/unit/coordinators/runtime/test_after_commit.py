"""What an outcome says is to follow once it is committed."""

from typing import Any

import pytest
from coordinator_rig import CoordinatorRig, Counter
from headrace.coordinators.runtime.ports import Outcome, Token
from headrace.protocol.errors import NotEnoughReplicasError
from headrace.storage_node.embedded.contract import Now


class Follower(Counter):
    """Each heartbeat is followed by a note."""

    def handle(self, api: Any, body: Any, token: Token, now: Now) -> Outcome:
        outcome = super().handle(api, body, token, now)
        outcome.on_committed = self._after
        return outcome

    def on_loaded(self, now: Now) -> Outcome:
        super().on_loaded(now)
        return Outcome(on_committed=self._loaded)

    def _after(self, _now: Now) -> Outcome:
        self.seen.append("after")
        return Outcome()

    def _loaded(self, _now: Now) -> Outcome:
        self.seen.append("loaded")
        return Outcome()


@pytest.fixture
def rig() -> CoordinatorRig:
    """Nothing is committed but by `commit`."""
    rig = CoordinatorRig(make=Follower)
    rig.host.commits_at_once = False
    rig.lead()
    return rig


def test_follow_up_runs_after_the_commit(rig: CoordinatorRig) -> None:
    """In order, once each, and not before all applied records are committed."""
    assert rig.shard.seen == ["loaded"]
    rig.set(1)
    rig.set(2)
    rig.commit(1)
    assert rig.shard.seen == ["loaded", "after"]
    rig.commit(2)
    rig.commit(2)
    assert rig.shard.seen == ["loaded", "after", "after"]


def test_follow_up_has_no_timeout(rig: CoordinatorRig) -> None:
    """Responses have one."""
    rig.set(1)
    rig.pass_time(3_600_000)
    assert rig.shard.seen == ["loaded"]
    rig.commit()
    assert rig.shard.seen == ["loaded", "after"]


def test_follow_up_of_a_failed_append_or_dropped_shard_never_runs(rig: CoordinatorRig) -> None:
    rig.host.refuses = NotEnoughReplicasError("one replica")
    rig.set(1)
    rig.host.refuses = None
    rig.set(2)
    shard = rig.shard
    rig.leave()
    rig.commit()
    assert shard.seen == ["loaded"]


def test_loaded_records_count_once_committed(rig: CoordinatorRig) -> None:
    """Up to the offset that was read."""
    rig.set(1)
    rig.leave()
    rig.lead(epoch=1)
    rig.load()
    assert rig.shard.numbers == {"g": 1}
    assert rig.shard.seen == []
    rig.commit()
    assert rig.shard.seen == ["loaded"]
