"""The membership of a stream thread in the streams group of its application, as the thread sees it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...clients.group.streams import StreamsApplication
from ...protocol.errors import GroupIdNotFoundError, InvalidRequestError, UnsupportedVersionError
from ...protocol.records.streams_group_records import Endpoint, KeyValue
from ..errors import StreamsError
from ..records import TaskId
from .group_status import GroupStatus, requests_shutdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...clients.group.streams import Task
    from ...protocol.errors import HeadraceError
    from .plan import AppPlan

REFUSALS = (GroupIdNotFoundError, InvalidRequestError, UnsupportedVersionError)
"""Errors of the coordinator that another attempt does not mend."""


class Roles(NamedTuple):
    """The tasks of a thread by role."""

    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    warmup: frozenset[TaskId] = frozenset()

    @property
    def sub_topologies(self) -> frozenset[int]:
        """Those that have a task here."""
        return frozenset(task.sub_topology for tasks in self for task in tasks)


_SILENT_INTERVALS = 4  # of heartbeats; the default session timeout has 9


class ThreadMembership:
    """`application` is the thread's side of its group member. `on_shutdown` and `on_change` are called by
    `check`: the end of the application is requested; members or topics of the group changed."""

    def __init__(
        self,
        plan: AppPlan,
        process_id: str,
        on_shutdown: Callable[[], None],
        on_change: Callable[[], None],
    ) -> None:
        endpoint = plan.config.endpoint
        self.application = StreamsApplication(
            plan.group_topology,
            process_id,
            _by_subtopology(plan),
            endpoint=None if endpoint is None else Endpoint(*endpoint),
            client_tags=[KeyValue(*tag) for tag in sorted(plan.client_tags.items())],
            description=plan.description,
        )
        self._group = plan.config.application_id
        self._on_shutdown, self._on_change = on_shutdown, on_change
        self._status = GroupStatus()
        self._member_epoch = -1
        self._responses, self._last_response_ms = 0, 0
        self._offsets_at_ms = 0
        self._caught_up: set[TaskId] = set()  # warm-up tasks

    def use_plan(self, plan: AppPlan) -> None:
        """Topics that match a pattern came or went; the consumer subscribes to them next."""
        self.application.sources = _by_subtopology(plan)

    @property
    def roles(self) -> Roles:
        """The tasks after the change of ownership that the consumer performs now."""
        active, standby, warmup = self.application.tasks
        return Roles(_task_ids(active), _task_ids(standby), _task_ids(warmup))

    def check(self, now_ms: int) -> None:
        """Act on the last heartbeat response. Errors: MissingSourceTopicError, InternalTopicError."""
        application = self.application
        if application.responses != self._responses:
            self._responses, self._last_response_ms = application.responses, now_ms
        statuses = application.statuses
        problem = self._status.problem(statuses, application.responses, now_ms)
        if problem is not None:
            raise problem
        if requests_shutdown(statuses):
            self._on_shutdown()
        if self._member_epoch != application.member_epoch:
            self._member_epoch = application.member_epoch
            self._on_change()

    def has_recent_response(self, now_ms: int) -> bool:
        """Whether the group has answered a heartbeat lately: before it gives tasks of a silent member to
        others, the session timeout passes, which is longer. From any thread."""
        interval_ms = self.application.heartbeat_interval_ms
        return now_ms - self._last_response_ms <= _SILENT_INTERVALS * interval_ms

    def offsets_due(self, now_ms: int, lag_of: Callable[[TaskId], int | None]) -> bool:
        """Whether `use_offsets` is to be called: every task.offset.interval.ms of the group, and when a
        warm-up task has come within the acceptable lag. `lag_of`: of a standby, None if it is not known."""
        application, caught_up = self.application, set()
        for task in _task_ids(application.tasks.warmup):
            lag = lag_of(task)
            if lag is not None and lag <= application.acceptable_recovery_lag:
                caught_up.add(task)
        is_due = now_ms >= self._offsets_at_ms or not caught_up <= self._caught_up
        self._caught_up = caught_up
        if is_due:
            self._offsets_at_ms = now_ms + max(application.task_offset_interval_ms, 1000)
        return is_due

    def use_offsets(self, offsets: Mapping[TaskId, int], ends: Mapping[TaskId, int]) -> None:
        """The next heartbeat has these sums of changelog offsets, if they changed."""
        self.application.task_end_offsets = _by_task(ends)
        self.application.task_offsets = _by_task(offsets)

    def refused(self, error: HeadraceError) -> StreamsError:
        """The error of a thread that the coordinator does not take as a member, from one of REFUSALS."""
        group = f"group {self._group!r}"
        if isinstance(error, GroupIdNotFoundError):
            return StreamsError(
                f"{group} has members of another kind, such as Kafka Streams in Java with"
                " group.protocol=classic: stop them, or give them group.protocol=streams; one that did not"
                f" leave stays until its session.timeout.ms has passed ({error})"
            )
        if isinstance(error, UnsupportedVersionError):
            return StreamsError(f"the cluster has no streams groups: upgrade it ({error})")
        return StreamsError(f"{group} does not take this member: {error}")


def main_config(config: Mapping[str, Any], thread: str) -> dict[str, Any]:
    """The config of the thread's consumer: of a static member each thread has an instance id of its own,
    group.instance.id and the number at the end of the thread's name, as in Java."""
    instance_id = config.get("group.instance.id")
    if not instance_id:
        return dict(config)
    return {**config, "group.instance.id": f"{instance_id}-{thread.rpartition('-')[2]}"}


def _by_subtopology(plan: AppPlan) -> dict[str, frozenset[str]]:
    """The source topics of each subtopology, as the group names it."""
    return {str(number): topics for number, topics in plan.sources.items()}


def _task_ids(tasks: Iterable[Task]) -> frozenset[TaskId]:
    return frozenset(TaskId(int(subtopology), partition) for subtopology, partition in tasks)


def _by_task(offsets: Mapping[TaskId, int]) -> dict[Task, int]:
    return {(str(task.sub_topology), task.partition): offset for task, offset in offsets.items()}
