"""A member of a streams group: its metadata, its tasks and its reconciliation state. Pure.

Source: Kafka StreamsGroupMember.java, MemberState.java.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from ...protocol.records.streams_group_records import StreamsGroupMemberMetadataValue
from ..group.modern_member import JOIN_EPOCH, STATIC_LEAVE_EPOCH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.records.streams_group_records import Endpoint
    from .tasks import Task, Tasks


class MemberState(Enum):
    """Reconciliation state; the values are those of the records."""

    STABLE = 1  # has the target tasks of its epoch
    UNREVOKED_TASKS = 2  # has to revoke tasks before it moves to the next epoch
    UNRELEASED_TASKS = 3  # is at the newest epoch, but other members have not revoked all tasks of its target
    UNKNOWN = 127  # written by a later version: the member must rejoin without tasks


_M = MemberState

MEMBER_TRANSITIONS: dict[MemberState, dict[MemberState, str]] = {
    _M.STABLE: {
        _M.UNREVOKED_TASKS: "tasks are removed from the target",
        _M.UNRELEASED_TASKS: "others own tasks of the new target",
    },
    _M.UNREVOKED_TASKS: {
        _M.STABLE: "tasks are revoked and the whole target is free, or another process rejoined",
        _M.UNRELEASED_TASKS: "tasks are revoked, but others own tasks of the target",
    },
    _M.UNRELEASED_TASKS: {
        _M.STABLE: "the last task of the target is free, or another process rejoined",
        _M.UNREVOKED_TASKS: "tasks are removed from the target",
    },
    _M.UNKNOWN: {
        _M.STABLE: "owns nothing, and the whole target is free",
        _M.UNRELEASED_TASKS: "owns nothing, and others own tasks of the target",
    },
}

NO_METADATA = StreamsGroupMemberMetadataValue(None, None, "", "", -1, -1, "")


@dataclass(frozen=True, slots=True)
class Member:
    """One member. Invariants: a task of both `assigned` and `pending` is active in `pending` alone; no other
    member has any of their active tasks, and no other member of the same process has any of their tasks.

    `since`: the member epoch at which it got each active task, where known. `previous_epoch`: an epoch that
    the member may still use, since the response with the newer one can be lost.
    """

    member_id: str
    metadata: StreamsGroupMemberMetadataValue = NO_METADATA
    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Tasks = field(default_factory=dict)
    pending: Tasks = field(default_factory=dict)  # to revoke
    since: Mapping[Task, int] = field(default_factory=dict)

    @property
    def process_id(self) -> str:
        """Members of one process share a state directory."""
        return self.metadata.process_id

    @property
    def instance_id(self) -> str | None:
        """group.instance.id; None: a dynamic member."""
        return self.metadata.instance_id

    def temporarily_left(self) -> Member:
        """A static member that keeps its tasks until it rejoins; its process has closed all of them."""
        return Member(
            self.member_id, self.metadata, STATIC_LEAVE_EPOCH, STATIC_LEAVE_EPOCH, assigned=self.assigned
        )

    @property
    def user_endpoint(self) -> Endpoint | None:
        """None: the instance serves no interactive queries."""
        return self.metadata.user_endpoint

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has the whole target of `epoch`."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def has_all(self, tasks: Tasks) -> bool:
        """Whether the member has all of `tasks` assigned or pending, in the same roles."""
        return all(
            self.assigned.get(task) is role or self.pending.get(task) is role for task, role in tasks.items()
        )
