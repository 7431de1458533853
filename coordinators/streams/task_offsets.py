"""The offsets of changelogs that members of streams groups have reported: soft state. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.messages.streams_groups import TaskOffset
    from .tasks import Task


class TaskOffsets:
    """Sums over the changelogs of a task, by group and member. Bound: the tasks of the topology."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[str, dict[Task, int]]] = {}
        self._ends: dict[str, dict[str, dict[Task, int]]] = {}

    def report(
        self,
        group_id: str,
        member_id: str,
        offsets: Iterable[TaskOffset],
        ends: Iterable[TaskOffset],
        known: Iterable[Task],
    ) -> None:
        """Replace the offsets of a member. Tasks that are not `known` are skipped."""
        tasks = frozenset(known)
        for found, reported in ((self._offsets, offsets), (self._ends, ends)):
            found.setdefault(group_id, {})[member_id] = {
                task: each.offset
                for each in reported
                if (task := (each.subtopology_id, each.partition)) in tasks
            }

    def lags(self, group_id: str) -> dict[str, Mapping[Task, int]]:
        """By member that reports offsets, its lag by task: the distance to the highest end that any member
        has reported."""
        highest: dict[Task, int] = {}
        for ends in self._ends.get(group_id, {}).values():
            for task, end in ends.items():
                highest[task] = max(end, highest.get(task, end))
        return {
            member_id: {
                task: max(highest[task] - offset, 0) for task, offset in each.items() if task in highest
            }
            for member_id, each in self._offsets.get(group_id, {}).items()
        }

    def forget(self, group_id: str, member_id: str | None = None) -> None:
        """Drop a member, or the group."""
        for found in (self._offsets, self._ends):
            if member_id is None:
                found.pop(group_id, None)
            else:
                found.get(group_id, {}).pop(member_id, None)
