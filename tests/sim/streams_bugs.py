"""Planted bugs of streams groups: each breaks one rule, and the simulation must find it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from headrace.clients.group.streams import StreamsMember, TaskRoles
from headrace.coordinators.runtime.hosted_shard import HostedShard
from headrace.coordinators.runtime.ports import Outcome
from headrace.coordinators.streams import reconciliation, sticky_assignor
from headrace.coordinators.streams.streams_draft import StreamsDraft
from headrace.coordinators.streams.streams_group import StreamsGroup
from headrace.coordinators.streams.streams_members import StreamsMembers
from headrace.coordinators.streams.tasks import Role
from headrace.protocol.records.streams_group_records import (
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTopologyKey,
)
from txn_bugs import AWAY, CLASSIC, HANGS, QUIET

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from cluster import Plan


def does_not_await_revocation(patch: pytest.MonkeyPatch) -> None:
    """The coordinator treats tasks as revoked that the member still reports."""
    patch.setattr(reconciliation, "_still_has", lambda *_: False)


def does_not_bump_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """A member that leaves does not start another group epoch."""
    patch.setattr(StreamsDraft, "bump", lambda _: None)


def keeps_expired_members(patch: pytest.MonkeyPatch) -> None:
    """A member whose session has expired keeps its tasks."""
    patch.setattr(StreamsMembers, "_on_expired", lambda *_: Outcome())


def shares_tasks_within_a_process(patch: pytest.MonkeyPatch) -> None:
    """A task is assigned although another thread of the process, with the same state directory, has it."""

    def is_free(member: Any, role: Any, holders: Any) -> bool:
        others = (held for member_id, _, held in holders if member_id != member.member_id)
        return role is not Role.ACTIVE or Role.ACTIVE not in others

    patch.setattr(reconciliation, "_is_free", is_free)


def puts_standbys_beside_active_tasks(patch: pytest.MonkeyPatch) -> None:
    """The assignor ignores which tasks a process has."""

    def add(self: Any, task: Any, role: Any, add: Any = sticky_assignor._Member.add) -> None:
        add(self, task, role)
        self.process.tasks.discard(task)

    patch.setattr(sticky_assignor._Member, "add", add)


def accepts_fenced_commits(patch: pytest.MonkeyPatch) -> None:
    """OffsetCommit checks neither the member id nor the member epoch."""
    patch.setattr(StreamsGroup, "check_offset_commit", lambda *_, **__: None)


def _skips_at_load(patch: pytest.MonkeyPatch, kind: type) -> None:
    def replay(self: HostedShard, item: Any, replay: Any = HostedShard._replay) -> None:
        if item.record is None or not isinstance(item.record.key, kind):
            replay(self, item)

    patch.setattr(HostedShard, "_replay", replay)


def loads_no_topology(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator does not replay the record of the topology."""
    _skips_at_load(patch, StreamsGroupTopologyKey)


def loads_no_targets(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator does not replay the records of target assignments."""
    _skips_at_load(patch, StreamsGroupTargetAssignmentMemberKey)


def reports_revocations_too_early(patch: pytest.MonkeyPatch) -> None:
    """A member reports tasks as revoked that its consumer still reads."""

    def held(self: StreamsMember) -> TaskRoles:
        return self.tasks if self._target is None else self._target

    patch.setattr(StreamsMember, "_held", held)


def keeps_tasks_when_fenced(patch: pytest.MonkeyPatch) -> None:
    """A member that the coordinator has removed continues to read, and rejoins."""
    patch.setattr(StreamsMember, "_has_assignment", property(lambda _: False))


def forgets_the_tasks_of_static_members(patch: pytest.MonkeyPatch) -> None:
    """A static member that returns under another member id waits for the next assignment."""

    def replace(self: StreamsDraft, before: Any, member_id: str, replace: Any = StreamsDraft.replace) -> None:
        self.write(self.group.target_record(before.member_id, None))
        replace(self, before, member_id)

    patch.setattr(StreamsDraft, "replace", replace)


STREAMS = dataclasses.replace(CLASSIC, groups="streams")
STREAMS_STATIC = dataclasses.replace(QUIET, groups="streams", static_threads=True)
STREAMS_QUIET = dataclasses.replace(QUIET, groups="streams")
STREAMS_AWAY = dataclasses.replace(AWAY, groups="streams")
WRONG = ("OneCommitter", "OneOwner", "ExactlyOnce", "OffsetsKept")
UNASSIGNED = ("AllAssigned", *HANGS)
BUGS: dict[Callable[[pytest.MonkeyPatch], None], tuple[tuple[str, ...], Plan, int]] = {
    does_not_await_revocation: (("OneActive", *WRONG), STREAMS_QUIET, 5),
    does_not_bump_the_epoch: (("TargetComplete", *UNASSIGNED), STREAMS_QUIET, 5),
    keeps_expired_members: (UNASSIGNED, STREAMS_QUIET, 5),
    shares_tasks_within_a_process: (("OneActive",), STREAMS_QUIET, 10),
    puts_standbys_beside_active_tasks: (("TargetComplete",), STREAMS_QUIET, 3),
    accepts_fenced_commits: (WRONG, STREAMS_AWAY, 20),
    loads_no_topology: (("TopologyKept",), STREAMS, 10),
    loads_no_targets: (("CoordinatorState", "TargetComplete", *UNASSIGNED), STREAMS, 10),
    reports_revocations_too_early: (WRONG, STREAMS_QUIET, 10),
    keeps_tasks_when_fenced: ((*WRONG, "AllAssigned"), STREAMS, 10),
    forgets_the_tasks_of_static_members: (("StaticKept",), STREAMS_STATIC, 5),
}
# The seed that finds the bug soonest, if it is not seed 1: it is tried first.
FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    accepts_fenced_commits: 8,
    does_not_await_revocation: 4,
    keeps_expired_members: 4,
    shares_tasks_within_a_process: 3,
    loads_no_topology: 6,
    loads_no_targets: 6,
    reports_revocations_too_early: 8,
    keeps_tasks_when_fenced: 7,
}
