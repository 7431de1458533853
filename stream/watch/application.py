"""The state of an application, from three sources: the description of its group, its committed and end
offsets, and what its instances report. Pure.

The first two are there for members in Java and without `application.server` as well.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.model import TopicPartition
from ..task import commit_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ...clients.admin.group_types import PartitionLag
    from ...clients.admin.streams_groups import StreamsGroupDescription, StreamsMemberDescription, TaskId
    from ...protocol.messages.streams_status import InstanceStatus, StoreStatus, TaskStatus, ThreadStatus
    from ..query.hosts import HostInfo

    Report = InstanceStatus | str
    """Of an instance; or why there is none."""

ROLES = ("active", "standby", "warmup")


@dataclass(frozen=True, slots=True)
class StoreView:
    """A store of a task: about how many entries, its bytes on the disk, and the records of its changelog
    that it lacks. None: not known."""

    name: str
    entries: int | None
    size_bytes: int | None
    remaining: int | None


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task at a member. `lag`: records of its inputs that are not processed; `lag_ms`: how long ago the
    last processed record has its timestamp, 0 without a lag. `remaining`: records of changelogs to restore,
    in `eta_ms`. None: not known."""

    task: str
    role: str
    state: str | None
    lag: int | None
    lag_ms: int | None
    records: int | None
    records_per_s: float | None
    remaining: int | None
    eta_ms: int | None
    stores: tuple[StoreView, ...]


@dataclass(frozen=True, slots=True)
class ThreadView:
    """A member of the group: a stream thread. Ratios are parts of its time; None: it does not report."""

    name: str
    member: str
    state: str | None
    topology_epoch: int
    process_ratio: float | None
    poll_ratio: float | None
    commit_ratio: float | None
    tasks: tuple[TaskView, ...]


@dataclass(frozen=True, slots=True)
class OperatorView:
    """The part of the time of an instance's threads in which a node ran, 0 to 1."""

    name: str
    sub_topology: int
    share: float


@dataclass(frozen=True, slots=True)
class InstanceView:
    """A process. `problem`: why it reports nothing itself, None if it does."""

    process: str
    host: str
    endpoint: str | None
    state: str | None
    problem: str | None
    threads: tuple[ThreadView, ...]
    operators: tuple[OperatorView, ...]


@dataclass(frozen=True, slots=True)
class ApplicationView:
    """An application. `lag` and `lag_ms` over all tasks; `unassigned`: tasks that no member has as active."""

    application: str
    state: str
    group_epoch: int
    topology_epoch: int
    lag: int | None
    lag_ms: int | None
    records_per_s: float | None
    unassigned: tuple[str, ...]
    instances: tuple[InstanceView, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain mappings and lists."""
        return asdict(self)

    def tasks(self) -> Iterator[tuple[InstanceView, ThreadView, TaskView]]:
        """Each task with the thread and the instance that have it."""
        for instance in self.instances:
            for thread in instance.threads:
                for task in thread.tasks:
                    yield instance, thread, task


class _Lag(NamedTuple):
    records: int | None
    ms: int | None


class _Sources(NamedTuple):
    """What is known beside the reports. `topics`: the input topics of each subtopology."""

    topics: Mapping[str, tuple[str, ...]]
    lags: Mapping[TopicPartition, PartitionLag]
    now_ms: int


def application_view(
    group: StreamsGroupDescription,
    lags: Mapping[TopicPartition, PartitionLag],
    reports: Mapping[HostInfo, Report],
    now_ms: int,
) -> ApplicationView:
    """The view of a group; `reports` by `application.server`."""
    topics = topics_of(group)
    sources = _Sources(topics, lags, now_ms)
    by_process: dict[str, list[StreamsMemberDescription]] = {}
    for member in sorted(group.members, key=lambda each: (each.client_id, each.member_id)):
        by_process.setdefault(member.process_id, []).append(member)
    instances = tuple(
        _instance(process, members, reports, sources) for process, members in sorted(by_process.items())
    )
    active = [
        task
        for each in instances
        for thread in each.threads
        for task in thread.tasks
        if task.role == "active"
    ]
    here = {task.task for task in active}
    all_tasks = sorted(
        {(name, tp.partition) for name, some in topics.items() for tp in lags if tp.topic in some}
    )
    missing = [(name, number) for name, number in all_tasks if f"{name}_{number}" not in here]
    away = [_lag(sources, topics[name], number, None) for name, number in missing]
    rates = [task.records_per_s for task in active if task.records_per_s is not None]
    return ApplicationView(
        group.group_id,
        group.state.value,
        group.group_epoch,
        group.topology_epoch,
        _sum([*(task.lag for task in active), *(each.records for each in away)]),
        _highest([*(task.lag_ms for task in active), *(each.ms for each in away)]),
        round(sum(rates), 1) if rates else None,
        tuple(f"{name}_{number}" for name, number in missing),
        instances,
    )


def topics_of(group: StreamsGroupDescription) -> dict[str, tuple[str, ...]]:
    """The input topics of each subtopology."""
    return {
        each.subtopology_id: (*each.source_topics, *each.repartition_source_topics)
        for each in group.subtopologies or ()
    }


def _instance(
    process: str,
    members: list[StreamsMemberDescription],
    reports: Mapping[HostInfo, Report],
    sources: _Sources,
) -> InstanceView:
    endpoint = next((each.endpoint for each in members if each.endpoint is not None), None)
    found: Report = "it has no application.server"
    if endpoint is not None:
        known = {tuple(host): report for host, report in reports.items()}
        found = known.get(endpoint, "it was not asked")
    if not isinstance(found, str) and found.process_id != process:
        found = f"another process answers at its application.server: {found.process_id}"
    report = None if isinstance(found, str) else found
    threads = {} if report is None else {each.member_id: each for each in report.threads}
    return InstanceView(
        process,
        members[0].host,
        None if endpoint is None else f"{endpoint[0]}:{endpoint[1]}",
        None if report is None else report.state,
        found if isinstance(found, str) else None,
        tuple(_thread(each, threads.get(each.member_id), sources) for each in members),
        () if report is None else tuple(OperatorView(*_columns(each)) for each in report.operators),
    )


def _columns(each: Any) -> tuple[str, int, float]:
    return each.name, each.sub_topology, round(each.share, 4)


def _thread(member: StreamsMemberDescription, report: ThreadStatus | None, sources: _Sources) -> ThreadView:
    known: dict[tuple[str, bool], TaskStatus] = {}
    for task in report.tasks if report is not None else ():
        known[f"{task.sub_topology}_{task.partition}", task.role == "active"] = task
    by_role = zip(ROLES, (member.tasks.active, member.tasks.standby, member.tasks.warmup), strict=True)
    tasks = tuple(
        _task(each, role, known.get((str(each), role == "active")), sources)
        for role, some in by_role
        for each in sorted(some)
    )
    epoch = member.topology_epoch
    if report is None:
        return ThreadView(member.client_id, member.member_id, None, epoch, None, None, None, tasks)
    return ThreadView(
        report.name,
        member.member_id,
        report.state,
        epoch,
        round(report.process_ratio, 3),
        round(report.poll_ratio, 3),
        round(report.commit_ratio, 3),
        tasks,
    )


def _task(task: TaskId, role: str, report: TaskStatus | None, sources: _Sources) -> TaskView:
    topics = sources.topics.get(task.subtopology_id, ())
    lag = _lag(sources, topics, task.partition, report) if role == "active" else _Lag(None, None)
    if report is None:
        return TaskView(str(task), role, None, *lag, None, None, None, None, ())
    is_active = role == "active"
    return TaskView(
        str(task),
        role,
        report.state,
        *lag,
        report.records if is_active else None,
        round(report.records_per_s, 1) if is_active else None,
        _known(report.remaining),
        _known(report.eta_ms),
        tuple(map(_store, report.stores)),
    )


def _store(store: StoreStatus) -> StoreView:
    remaining = max(store.end - store.position, 0) if min(store.end, store.position) >= 0 else None
    return StoreView(store.name, _known(store.entries), _known(store.size_bytes), remaining)


def _lag(sources: _Sources, topics: Iterable[str], partition: int, report: TaskStatus | None) -> _Lag:
    """Of the inputs of a task: the sum of the records, and the longest time."""
    inputs = {(each.topic, each.partition): each for each in report.inputs} if report is not None else {}
    records: list[int | None] = []
    times: list[int | None] = []
    for topic in topics:
        found = sources.lags.get(TopicPartition(topic, partition))
        if found is None or found.end is None:
            continue
        here = inputs.get((topic, partition))
        position = -1 if here is None else here.position
        time_ms = -1 if here is None else here.time_ms
        if found.committed is not None:
            position = max(position, found.committed.offset)
            time_ms = max(time_ms, commit_metadata.decode(found.committed.metadata)[0])
        lag = None if position < 0 < found.end else max(found.end - max(position, 0), 0)
        records.append(lag)
        times.append(0 if lag == 0 else None if time_ms < 0 else max(sources.now_ms - time_ms, 0))
    return _Lag(_sum(records), _highest(times))


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _sum(numbers: Iterable[int | None]) -> int | None:
    found = [each for each in numbers if each is not None]
    return sum(found) if found else None


def _highest(numbers: Iterable[int | None]) -> int | None:
    return max((each for each in numbers if each is not None), default=None)
