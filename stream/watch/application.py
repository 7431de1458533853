"""The state of an application, from four sources: the description of its group, its committed offsets, what
its instances report, and the records that the leaders count from there on. Pure.

All but the reports are there for members in Java and without `application.server` as well.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.model import TopicPartition
from ..task import commit_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ...clients.admin.lag_types import ConsumerLag
    from ...clients.admin.streams_groups import StreamsGroupDescription, StreamsMemberDescription, TaskId
    from ...clients.group.group_metadata import OffsetAndMetadata
    from ...protocol.messages.streams_status import (
        InputStatus,
        InstanceStatus,
        StoreStatus,
        TaskStatus,
        ThreadStatus,
    )
    from ..query.hosts import HostInfo

    Committed = Mapping[TopicPartition, OffsetAndMetadata | None]
    """The committed offset of each input partition, None without one."""
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
    """`topics`: the input topics of each subtopology. `inputs`: what active tasks report about theirs."""

    topics: Mapping[str, tuple[str, ...]]
    committed: Committed
    inputs: Mapping[TopicPartition, InputStatus]
    lags: Mapping[TopicPartition, ConsumerLag]
    now_ms: int


def positions_of(
    group: StreamsGroupDescription, committed: Committed, reports: Mapping[HostInfo, Report]
) -> dict[TopicPartition, int]:
    """From where on the records of each input partition are its lag: the reported position of its task, which
    is newer than the committed offset, or that; 0 without both."""
    inputs = _reported_inputs(group, reports)
    return {tp: max(_position(offset, inputs.get(tp)), 0) for tp, offset in committed.items()}


def application_view(
    group: StreamsGroupDescription,
    committed: Committed,
    reports: Mapping[HostInfo, Report],
    lags: Mapping[TopicPartition, ConsumerLag],
    now_ms: int,
) -> ApplicationView:
    """The view of a group; `reports` by `application.server`, `lags` at `positions_of`."""
    topics = topics_of(group)
    sources = _Sources(topics, committed, _reported_inputs(group, reports), lags, now_ms)
    instances = tuple(
        _instance(process, members, reports, sources) for process, members in _by_process(group)
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
        {(name, tp.partition) for name, some in topics.items() for tp in committed if tp.topic in some}
    )
    missing = [(name, number) for name, number in all_tasks if f"{name}_{number}" not in here]
    away = [_lag(sources, topics[name], number) for name, number in missing]
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


def _by_process(group: StreamsGroupDescription) -> list[tuple[str, list[StreamsMemberDescription]]]:
    found: dict[str, list[StreamsMemberDescription]] = {}
    for member in sorted(group.members, key=lambda each: (each.client_id, each.member_id)):
        found.setdefault(member.process_id, []).append(member)
    return sorted(found.items())


def _report_of(
    process: str, members: list[StreamsMemberDescription], reports: Mapping[HostInfo, Report]
) -> Report:
    endpoint = _endpoint_of(members)
    if endpoint is None:
        return "it has no application.server"
    known = {tuple(host): report for host, report in reports.items()}
    found = known.get(endpoint, "it was not asked")
    if not isinstance(found, str) and found.process_id != process:
        return f"another process answers at its application.server: {found.process_id}"
    return found


def _endpoint_of(members: list[StreamsMemberDescription]) -> tuple[str, int] | None:
    return next((each.endpoint for each in members if each.endpoint is not None), None)


def _reported_inputs(
    group: StreamsGroupDescription, reports: Mapping[HostInfo, Report]
) -> dict[TopicPartition, InputStatus]:
    """The inputs of tasks that are reported as active by the member that has them as active."""
    found: dict[TopicPartition, InputStatus] = {}
    for process, members in _by_process(group):
        report = _report_of(process, members, reports)
        threads = {} if isinstance(report, str) else {each.member_id: each for each in report.threads}
        for member in members:
            here = {str(each) for each in member.tasks.active}
            thread = threads.get(member.member_id)
            for task in () if thread is None else thread.tasks:
                if task.role == "active" and f"{task.sub_topology}_{task.partition}" in here:
                    found.update((TopicPartition(each.topic, each.partition), each) for each in task.inputs)
    return found


def _instance(
    process: str,
    members: list[StreamsMemberDescription],
    reports: Mapping[HostInfo, Report],
    sources: _Sources,
) -> InstanceView:
    endpoint, found = _endpoint_of(members), _report_of(process, members, reports)
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
    lag = _lag(sources, topics, task.partition) if role == "active" else _Lag(None, None)
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


def _position(committed: OffsetAndMetadata | None, reported: InputStatus | None) -> int:
    """The next offset to process; -1 if it is not known."""
    return max(-1 if reported is None else reported.position, -1 if committed is None else committed.offset)


def _lag(sources: _Sources, topics: Iterable[str], partition: int) -> _Lag:
    """Of the inputs of a task: the sum of the records, and the longest time."""
    records: list[int | None] = []
    times: list[int | None] = []
    for topic in topics:
        tp = TopicPartition(topic, partition)
        found = sources.lags.get(tp)
        if found is None or found.records is None:
            continue
        committed, here = sources.committed.get(tp), sources.inputs.get(tp)
        time_ms = -1 if here is None else here.time_ms
        if committed is not None:
            time_ms = max(time_ms, commit_metadata.decode(committed.metadata)[0])
        lag = None if found.records and _position(committed, here) < 0 else found.records
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
