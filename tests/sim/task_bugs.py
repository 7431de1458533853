"""Planted bugs of stream tasks: each breaks one rule, and the simulation must find it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.coordinators.streams.streams_group import StreamsGroup
from headrace.stream.task.restoration import Restoration
from headrace.stream.task.standby_task import StandbyTask
from headrace.stream.task.task import Task
from headrace.stream.worker.commits_io import TaskCommits
from headrace.stream.worker.output_io import Output
from headrace.stream.worker.restorer_io import Restorer
from headrace.stream.worker.task_manager_io import TaskManager

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def accepts_fenced_commits(patch: pytest.MonkeyPatch) -> None:
    """The coordinator checks neither the member id nor the member epoch of committed offsets."""
    patch.setattr(StreamsGroup, "check_offset_commit", lambda *_, **__: None)


def commits_no_offsets(patch: pytest.MonkeyPatch) -> None:
    """A transaction always has the output, but not always the offsets."""
    commit = Output.commit

    def without(self: Output, offsets: Any, group: Any) -> None:
        commit(self, {} if len(self._last) % 2 or len(offsets) < 2 else offsets, group)

    patch.setattr(Output, "commit", without)


def restores_to_the_last_stable_offset(patch: pytest.MonkeyPatch) -> None:
    """A task misses changelog records of a decided transaction of another member."""
    patch.setattr(
        Restorer, "_high_watermarks", lambda self, partitions: self._consumer.end_offsets(*partitions)
    )


def keeps_the_output_of_lost_tasks(patch: pytest.MonkeyPatch) -> None:
    """Output of tasks that a thread has lost stays in its transaction."""
    patch.setattr(Output, "abort", lambda self: None)


def reads_on_behind_lost_records(patch: pytest.MonkeyPatch) -> None:
    """After an aborted transaction a thread continues at its position, not at the committed offsets."""
    patch.setattr(TaskManager, "_position", lambda self, partitions: self._unpositioned.clear())


def promotes_standbys_as_they_are(patch: pytest.MonkeyPatch) -> None:
    """A standby that becomes active does not read the rest of its changelog."""
    promote = StandbyTask.promote

    def at_once(self: StandbyTask, now_ms: int) -> Restoration:
        found = promote(self, now_ms)
        found.use_ends = lambda ends, committed: [  # type: ignore[method-assign]
            setattr(each, "end", each.position) for each in found.changelogs.values()
        ]
        return found

    patch.setattr(StandbyTask, "promote", at_once)


def stores_are_durable_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Stores write uncommitted changes to their files, which remain after an abort or crash."""
    commit = TaskCommits._commit_offsets

    def early(self: TaskCommits, tasks: Any, offsets: Any) -> None:
        self._output.flush()
        self._make_durable(tasks, {})
        commit(self, tasks, offsets)

    patch.setattr(TaskCommits, "_commit_offsets", early)


def standbys_skip_records(patch: pytest.MonkeyPatch) -> None:
    """A standby applies only the last record of a batch."""
    apply = StandbyTask.apply
    patch.setattr(StandbyTask, "apply", lambda self, tp, records: apply(self, tp, records[-1:]))


def suspended_tasks_are_not_committed(patch: pytest.MonkeyPatch) -> None:
    """A revoked task does not commit."""
    suspend = Task.suspend

    def forget(self: Task) -> None:
        suspend(self)
        self.commit_needed = False

    patch.setattr(Task, "suspend", forget)


LAWS = ("ExactlyOnce", "OffsetsKept", "OneActive", "StoresComplete", "Alive")
# The laws that a bug may break, and the seed to try first.
BUGS: dict[Callable[[pytest.MonkeyPatch], None], tuple[tuple[str, ...], int]] = {
    accepts_fenced_commits: (("ExactlyOnce", "OffsetsKept"), 18),
    commits_no_offsets: (LAWS, 1),
    restores_to_the_last_stable_offset: (LAWS, 2),
    keeps_the_output_of_lost_tasks: (LAWS, 1),
    reads_on_behind_lost_records: (LAWS, 1),
    promotes_standbys_as_they_are: (LAWS, 2),
    stores_are_durable_before_the_commit: (LAWS, 1),
    standbys_skip_records: (LAWS, 1),
    suspended_tasks_are_not_committed: (LAWS, 7),
}
