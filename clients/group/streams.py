"""A member of a streams group (KIP-1071): it sends its topology and its tasks, the coordinator assigns tasks.
Pure.

The consumer reads the source partitions of the active tasks. Active tasks that the target lacks are revoked
first, and reported as revoked at once; the response then has the tasks that follow. A task that changes its
role without being active before or after needs no revocation. Source: Kafka StreamsMembershipManager.java,
StreamsGroupHeartbeatRequestManager.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.messages.registry import STREAMS_GROUP_HEARTBEAT
from ...protocol.messages.streams_groups import StatusCode, StreamsGroupHeartbeatRequest, TaskOffset
from ...protocol.model import TopicPartition
from ...protocol.records.streams_group_records import TaskIds
from .heartbeat_member import JOIN_EPOCH, HeartbeatMember
from .member import ChangeKind, MemberConfig, OwnershipChange
from .states import MemberState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.messages.streams_groups import EndpointToPartitions, Status
    from ...protocol.records.streams_group_records import (
        Endpoint,
        KeyValue,
        StreamsGroupTopologyValue,
        TopologyDescription,
    )
    from ..cluster.backoff import Backoff

S = MemberState
Task = tuple[str, int]  # subtopology id, partition
NOT_READY = frozenset(
    code.value
    for code in (
        StatusCode.MISSING_SOURCE_TOPICS,
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        StatusCode.MISSING_INTERNAL_TOPICS,
        StatusCode.ASSIGNMENT_DELAYED,
    )
)
"""Statuses of a group whose tasks are not assigned yet."""


class TaskRoles(NamedTuple):
    """The tasks of a member: active, standby and warm-up."""

    active: frozenset[Task] = frozenset()
    standby: frozenset[Task] = frozenset()
    warmup: frozenset[Task] = frozenset()


class StreamsApplication:
    """What a stream thread sends with its heartbeats, and what it learns from the responses.

    The thread replaces the fields of the first part, the member those of the second part, each in one step:
    they belong to different threads.
    """

    def __init__(
        self,
        topology: StreamsGroupTopologyValue,
        process_id: str,
        sources: Mapping[str, frozenset[str]],
        *,
        endpoint: Endpoint | None = None,
        client_tags: Iterable[KeyValue] = (),
        description: TopologyDescription | None = None,
    ) -> None:
        """`sources`: the source topics of each subtopology, those that match its expressions included."""
        self.topology = topology
        self.description = description
        self.process_id = process_id
        self.endpoint = endpoint
        self.client_tags = tuple(client_tags)
        self.sources = sources
        self.requests_shutdown = False
        self.task_offsets: Mapping[Task, int] | None = None  # sums of changelog positions
        self.task_end_offsets: Mapping[Task, int] | None = None  # sums of changelog ends

        self.tasks = TaskRoles()
        """The target of the ownership change that the consumer performs now, or has performed last."""
        self.statuses: tuple[Status, ...] = ()
        self.responses = 0  # since the first join
        self.member_epoch = -1
        self.task_offset_interval_ms = 0
        self.acceptable_recovery_lag = 0
        self.heartbeat_interval_ms = 0
        self.endpoint_epoch = -1
        self.partitions_by_endpoint: tuple[EndpointToPartitions, ...] = ()


class StreamsMember(HeartbeatMember):
    """`tasks` are those that the member has; `owned` are the source partitions of the active ones."""

    api = STREAMS_GROUP_HEARTBEAT
    logs_missing_topics = False  # the coordinator creates internal topics, and has a status for others
    sent_on_change = (
        ("rack_id",),
        ("active", "standby", "warmup"),
        ("process_id",),
        ("user_endpoint",),
        ("client_tags",),
        ("task_offsets", "task_end_offsets"),
    )

    def __init__(
        self, config: MemberConfig, member_id: str, backoff: Backoff, application: StreamsApplication
    ) -> None:
        super().__init__(config, member_id, backoff)
        self._application = application
        self._topics: tuple[str, ...] | None = None  # None: not subscribed
        self._counts: dict[str, int] = {}  # partitions of source topics
        self.tasks = TaskRoles()
        self._target: TaskRoles | None = None  # None: not known yet
        self._next = TaskRoles()  # the tasks after `pending`

    # --- calls of the consumer --------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], regex: str | None = None) -> None:
        """Read `topics`, the source topics of the application, which may be none yet."""
        wanted = tuple(sorted(set(topics)))
        if wanted != self._topics:
            self._topics = wanted
            self._heartbeat_at_ms = 0  # the coordinator may have to create internal topics
            self._reconcile_if_idle()

    def enforce_rebalance(self, reason: str) -> None:
        """Send a heartbeat at once, with a request to shut the application down if there is one."""
        if not self._failures:
            self._heartbeat_at_ms = 0

    def begin(self) -> OwnershipChange | None:
        """As `MemberCore.begin`; shows the target to the thread."""
        change = super().begin()
        if change is not None:
            is_lost = change.kind is ChangeKind.LOST or self._target is None
            self._application.tasks = TaskRoles() if is_lost or self._target is None else self._target
        return change

    @property
    def topics_to_watch(self) -> tuple[str, ...]:
        return self._topics or ()

    @property
    def has_unknown_topics(self) -> bool:
        """Whether a task of the target has a topic without metadata, or none with its partition."""
        sources, counts = self._application.sources, self._counts
        return self._target is not None and any(
            not any(counts.get(topic, 0) > partition for topic in sources.get(subtopology, ()))
            or any(topic not in counts for topic in sources.get(subtopology, ()))
            for subtopology, partition in self._target.active
        )

    def topics_changed(self, counts: Mapping[str, int], names: Mapping[bytes, str]) -> None:
        """Adopt or release partitions of topics that came, grew or went. A topic that the topology still has,
        and the metadata lacks, keeps its partitions: the coordinator decides that it is missing."""
        topics = frozenset[str]().union(*self._application.sources.values())
        known = {topic: count for topic, count in (self._counts | dict(counts)).items() if topic in topics}
        if known != self._counts:
            self._counts = known
            self._reconcile_if_idle()

    # --- the target -------------------------------------------------------------------------------------

    def _take_response(self, response: Any) -> None:
        application = self._application
        if response.active is not None:
            self._target = TaskRoles(
                *map(_tasks, (response.active, response.standby or (), response.warmup or ()))
            )
        application.endpoint_epoch = response.endpoint_information_epoch
        if response.partitions_by_user_endpoint is not None:
            application.partitions_by_endpoint = response.partitions_by_user_endpoint
        application.task_offset_interval_ms = response.task_offset_interval_ms
        application.acceptable_recovery_lag = response.acceptable_recovery_lag
        application.heartbeat_interval_ms = response.heartbeat_interval_ms
        application.statuses = response.status
        application.member_epoch = response.member_epoch
        application.responses += 1

    @property
    def _is_ready(self) -> bool:
        return not any(status.status_code in NOT_READY for status in self._application.statuses)

    def _reconcile_if_idle(self) -> None:
        if self.state in (S.STABLE, S.ACKNOWLEDGING):
            self._reconcile()

    def _reconcile(self) -> None:
        target = self._target
        if self.is_changing or not self.is_member or target is None:
            return
        wanted = self._partitions_of(target)
        gone = tuple(tp for tp in self.owned if tp not in wanted)
        if gone or not self.tasks.active <= target.active:
            self._next = target._replace(active=self.tasks.active & target.active)
            self.pending = OwnershipChange(ChangeKind.REVOKED, gone)
            self._become(S.REVOKING)
            return
        new = tuple(sorted(wanted.difference(self.owned)))
        if new or self.tasks != target or (self._is_first and self._is_ready):
            self._next = target
            self.pending = OwnershipChange(ChangeKind.ASSIGNED, new)
            self._become(S.ADOPTING)
            return
        self.pending = None
        is_reported = self._acknowledged is not None and _reported(self._acknowledged) == self.tasks
        self._become(S.STABLE if is_reported else S.ACKNOWLEDGING)

    def _partitions_of(self, tasks: TaskRoles) -> frozenset[TopicPartition]:
        """The source partitions of the active tasks, as far as topics are known."""
        sources, counts = self._application.sources, self._counts
        return frozenset(
            TopicPartition(topic, partition)
            for subtopology, partition in tasks.active
            for topic in sources.get(subtopology, ())
            if partition < counts.get(topic, 0)
        )

    def _change_done(self, change: OwnershipChange) -> None:
        self.tasks = TaskRoles() if change.kind is ChangeKind.LOST else self._next
        # After a revocation the thread waits for an assignment, also for one without further tasks.
        self._is_first = change.kind is not ChangeKind.ASSIGNED

    def _drop_target(self) -> None:
        self._target = None
        self._application.statuses = ()

    # --- heartbeats -------------------------------------------------------------------------------------

    @property
    def _is_subscribed(self) -> bool:
        return self._topics is not None

    @property
    def _can_join(self) -> bool:
        return True

    @property
    def _has_assignment(self) -> bool:
        return bool(self.owned) or self.tasks != TaskRoles()

    def _drop_subscription(self) -> None:
        self._topics, self.tasks = None, TaskRoles()

    def _held(self) -> TaskRoles:
        """The tasks to report. Those that the consumer is about to adopt count: the coordinator takes a task
        that is missing here for revoked."""
        is_adopting = self.pending is not None and self.pending.kind is ChangeKind.ASSIGNED
        return self._next if is_adopting else self.tasks

    def _full_request(self) -> StreamsGroupHeartbeatRequest:
        config, application, held = self.config, self._application, self._held()
        return StreamsGroupHeartbeatRequest(
            config.group_id,
            self.member_id,
            max(self.generation_id, JOIN_EPOCH),
            application.endpoint_epoch,
            config.group_instance_id,
            config.rack_id,
            config.max_poll_interval_ms,
            None if self.is_member else application.topology,
            *(_task_ids(held.active), _task_ids(held.standby), _task_ids(held.warmup)),
            application.process_id,
            application.endpoint,
            application.client_tags,
            _offsets(application.task_offsets),
            _offsets(application.task_end_offsets),
            application.requests_shutdown,
            config.client_id,
            topology_description=None if self.is_member else application.description,
        )

    def _leave_request(self, epoch: int) -> StreamsGroupHeartbeatRequest:
        config = self.config
        return StreamsGroupHeartbeatRequest(
            config.group_id, self.member_id, epoch, instance_id=config.group_instance_id
        )


def _tasks(some: Iterable[TaskIds]) -> frozenset[Task]:
    return frozenset((each.subtopology_id, partition) for each in some for partition in each.partitions)


def _task_ids(tasks: Iterable[Task]) -> tuple[TaskIds, ...]:
    found: dict[str, list[int]] = {}
    for subtopology, partition in sorted(tasks):
        found.setdefault(subtopology, []).append(partition)
    return tuple(TaskIds(subtopology, tuple(partitions)) for subtopology, partitions in found.items())


def _reported(request: StreamsGroupHeartbeatRequest) -> TaskRoles:
    return TaskRoles(*map(_tasks, (request.active or (), request.standby or (), request.warmup or ())))


def _offsets(offsets: Mapping[Task, int] | None) -> tuple[TaskOffset, ...] | None:
    if offsets is None:
        return None
    return tuple(TaskOffset(*task, offset) for task, offset in sorted(offsets.items()))
