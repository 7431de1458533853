"""How far the stores of the tasks of one thread are in their changelogs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...protocol.model import TopicPartition
    from ..records import TaskId
    from ..task.restoration import ChangelogRestore, Restoration
    from ..task.standby_task import StandbyTask
    from ..task.task import CommitOffset


class TaskChangelogs:
    """`restorations` of the active tasks, also when they have ended. `written`: the next offsets of the
    changelogs that the thread has written."""

    def __init__(
        self,
        written: Callable[[], Mapping[TopicPartition, int]],
        standbys: Callable[[], Mapping[TaskId, StandbyTask]],
    ) -> None:
        self.restorations: dict[TaskId, Restoration] = {}
        self._written = written
        self._standbys = standbys

    def _position(self, partition: TopicPartition, changelog: ChangelogRestore) -> int:
        """What was restored, and then written."""
        written = self._written().get(partition, 0) if changelog.is_done else 0
        return max(changelog.position, written)

    def by_store(self, task_id: TaskId, committed: Mapping[TopicPartition, CommitOffset]) -> dict[str, int]:
        """Of an active task, which is committed: the next offset by store name. An input topic that serves as
        changelog has been read up to its committed offset."""
        found = {}
        for partition, changelog in self.restorations[task_id].changelogs.items():
            known = committed.get(partition) if changelog.is_source else None
            position = self._position(partition, changelog)
            found[changelog.store_name] = position if known is None else max(position, known.offset)
        return found

    def offsets(self) -> dict[TaskId, int]:
        """By task with changelogs the sum of the offsets up to which its stores are complete; standbys once
        the ends of their changelogs are known."""
        active = {
            task_id: sum(self._position(*each) for each in restoration.changelogs.items())
            for task_id, restoration in self.restorations.items()
            if restoration.changelogs
        }
        return {**active, **{task_id: standby.offset for task_id, standby in self._known_standbys()}}

    def end_offsets(self) -> dict[TaskId, int]:
        """By task with changelogs the sum of their ends, as far as they are known."""
        active = {
            task_id: sum(
                max(self._position(partition, each), each.end or 0)
                for partition, each in restoration.changelogs.items()
            )
            for task_id, restoration in self.restorations.items()
            if restoration.changelogs
        }
        return {**active, **{task_id: standby.end_offset for task_id, standby in self._known_standbys()}}

    def _known_standbys(self) -> list[tuple[TaskId, StandbyTask]]:
        """Those whose distance to the ends is known: without it they would seem to be complete."""
        return [each for each in self._standbys().items() if each[1].lag is not None]
