"""The view of an application from its group, its offsets and the reports of its instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.clients.admin.group_types import GroupState
from headrace.clients.admin.lag_types import ConsumerLag
from headrace.clients.admin.streams_groups import (
    StreamsGroupDescription,
    StreamsMemberDescription,
    StreamsSubtopology,
    StreamsTasks,
    TaskId,
)
from headrace.clients.group.group_metadata import OffsetAndMetadata
from headrace.protocol.messages.streams_status import (
    InputStatus,
    InstanceStatus,
    OperatorStatus,
    StoreStatus,
    TaskStatus,
    ThreadStatus,
)
from headrace.protocol.model import TopicPartition
from headrace.stream.query.hosts import HostInfo
from headrace.stream.task import commit_metadata
from headrace.stream.watch.application import application_view, positions_of

if TYPE_CHECKING:
    from headrace.stream.watch.application import ApplicationView, Report, TaskView

NOW_MS = 100_000
HERE = HostInfo("one", 9300)


def member(name: str, *, endpoint: HostInfo | None = HERE, **tasks: Any) -> StreamsMemberDescription:
    found = StreamsTasks(**{role: tuple(TaskId("0", each) for each in some) for role, some in tasks.items()})
    return StreamsMemberDescription(
        name, 3, f"client-{name}", "10.0.0.1", None, f"p-{name}", 0, endpoint, {}, found, StreamsTasks()
    )


def view(reports: dict[HostInfo, Report], *members: StreamsMemberDescription) -> ApplicationView:
    """A topic with three partitions: offset 40 of 50 is committed in each, with times up to 90 s. Each offset
    has a record."""
    topology = (StreamsSubtopology("0", ("in",), (), {}, {"app-counts-changelog": 3}),)
    group = StreamsGroupDescription("app", GroupState.STABLE, 1, 5, 5, 0, topology, members)
    committed = OffsetAndMetadata(40, commit_metadata.encode(90_000, {}))
    offsets = {TopicPartition("in", number): committed for number in range(3)}
    positions = positions_of(group, offsets, reports)
    lags = {tp: ConsumerLag(offset, 0, 50, 50 - offset) for tp, offset in positions.items()}
    return application_view(group, offsets, reports, lags, NOW_MS)


def by_task(found: ApplicationView) -> dict[tuple[str, str], TaskView]:
    return {(task.task, task.role): task for _, _, task in found.tasks()}


def test_lags_are_known_without_any_report() -> None:
    """Records behind the committed offset, and the time in its metadata; a task that no member has counts,
    too."""
    found = view(
        {}, member("a", endpoint=None, active=(0,), standby=(1,)), member("b", endpoint=None, active=(1,))
    )
    tasks = by_task(found)
    assert (tasks["0_0", "active"].lag, tasks["0_0", "active"].lag_ms) == (10, 10_000)
    assert tasks["0_1", "standby"].lag is None
    assert tasks["0_0", "active"].records_per_s is None
    assert (found.lag, found.lag_ms, found.unassigned, found.records_per_s) == (30, 10_000, ("0_2",), None)
    assert {each.problem for each in found.instances} == {"it has no application.server"}
    assert found.as_json()["instances"][0]["threads"][0]["name"] == "client-a"


def test_a_report_is_newer_than_the_commit() -> None:
    """Its positions and times count, of the tasks that it has as active; and its stores and operators."""
    stores = (StoreStatus("counts", 7, 900), StoreStatus("windows", position=20, end=50))
    inputs = (InputStatus("in", 0, 45, 97_000),)
    tasks = (
        TaskStatus(0, 0, "active", "RUNNING", inputs, 45, 12.345, 0, 0, stores),
        TaskStatus(0, 1, "standby", "RESTORING", remaining=30),
    )
    thread = ThreadStatus("thread-1", "a", "RUNNING", tasks, 0.5, 0.25, 0.125)
    report = InstanceStatus("p-a", "RUNNING", (thread,), (OperatorStatus("count", 0, 0.75),))
    found = view({HERE: report}, member("a", active=(0,), standby=(1,)))
    (instance,) = found.instances
    (shown,) = instance.threads
    assert (instance.state, instance.problem, instance.endpoint) == ("RUNNING", None, "one:9300")
    assert (shown.name, shown.process_ratio, shown.poll_ratio, shown.commit_ratio) == (
        "thread-1",
        0.5,
        0.25,
        0.125,
    )
    active, standby = by_task(found)["0_0", "active"], by_task(found)["0_1", "standby"]
    assert (active.lag, active.lag_ms, active.records, active.records_per_s) == (5, 3000, 45, 12.3)
    assert [(each.name, each.entries, each.size_bytes, each.remaining) for each in active.stores] == [
        ("counts", 7, 900, None),
        ("windows", None, None, 30),
    ]
    assert (standby.remaining, standby.records) == (30, None)
    assert [(each.name, each.share) for each in instance.operators] == [("count", 0.75)]


def test_a_report_of_another_process_does_not_count() -> None:
    """A port may have been taken by a newer process; nor does that of a task that has moved meanwhile."""
    found = view({HERE: InstanceStatus("p-x", "RUNNING")}, member("a", active=(0,)))
    assert "another process answers" in str(found.instances[0].problem)
    moved = ThreadStatus("thread-1", "a", "RUNNING", (TaskStatus(0, 2, "active", "RUNNING"),))
    found = view({HERE: InstanceStatus("p-a", "RUNNING", (moved,))}, member("a", active=(0,)))
    assert by_task(found)["0_0", "active"].state is None
    found = view({HERE: "it does not answer: x"}, member("a", active=(0,)))
    assert found.instances[0].problem == "it does not answer: x"


def test_an_empty_partition_does_not_lag() -> None:
    """Nothing was ever committed there, and there is nothing to read; with records, the lag is not known."""
    topology = (StreamsSubtopology("0", ("in",), (), {}, {}),)
    group = StreamsGroupDescription(
        "app", GroupState.STABLE, 1, 5, 5, 0, topology, (member("a", active=(0, 1)),)
    )
    empty, full = TopicPartition("in", 0), TopicPartition("in", 1)
    offsets = {empty: None, full: None}
    assert positions_of(group, offsets, {}) == {empty: 0, full: 0}
    lags = {empty: ConsumerLag(0, 0, 0, 0), full: ConsumerLag(0, 0, 9, 9)}
    tasks = by_task(application_view(group, offsets, {}, lags, NOW_MS))
    assert (tasks["0_0", "active"].lag, tasks["0_1", "active"].lag) == (0, None)


def test_nothing_lags_at_the_end() -> None:
    """However old the last record is."""
    inputs = (InputStatus("in", 0, 50, 5),)
    thread = ThreadStatus("t", "a", "RUNNING", (TaskStatus(0, 0, "active", "RUNNING", inputs),))
    found = view({HERE: InstanceStatus("p-a", "RUNNING", (thread,))}, member("a", active=(0,)))
    task = by_task(found)["0_0", "active"]
    assert (task.lag, task.lag_ms) == (0, 0)


def test_lag_is_what_the_leader_counts() -> None:
    """Behind the position there are markers and compacted offsets only."""
    topology = (StreamsSubtopology("0", ("in",), (), {}, {}),)
    group = StreamsGroupDescription(
        "app", GroupState.STABLE, 1, 5, 5, 0, topology, (member("a", active=(0,)),)
    )
    tp = TopicPartition("in", 0)
    found = application_view(group, {tp: OffsetAndMetadata(40)}, {}, {tp: ConsumerLag(40, 0, 50, 0)}, NOW_MS)
    assert (found.lag, found.lag_ms) == (0, 0)
