"""The assignment of tasks to the threads of an application, as a classic assignor. Pure.

Each stream thread is a member of the group. A task is assigned with all partitions of its source topics. It
stays with the thread that has it, else it goes to a process that has its state on disk, as far as all threads
have equally many tasks of each kind. Source: Kafka StickyTaskAssignor.java for the aims.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

import msgpack

from ...clients.group.assignors import PlainAssignor
from ...protocol.model import TopicPartition
from ..records import TaskId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ...clients.group.assignors import MemberSubscription, Topic
    from ...protocol.consumer_protocol import Assignment

Tasks = dict[TaskId, list[TopicPartition]]
_VERSION = 1


class GroupNews(NamedTuple):
    """What the leader of the group tells all members with their assignment. `deleted`: source topics that the
    topology names and that existed before; `topics`: all that the members read."""

    ends_application: bool = False
    deleted: Sequence[str] = []
    topics: Sequence[str] = []


class _MemberData(NamedTuple):
    """The user data of a member."""

    process_id: str
    stored: tuple[TaskId, ...] = ()
    requests_shutdown: bool = False


def tasks_of(sources: Mapping[int, Iterable[str]], partitions: Mapping[str, int]) -> Tasks:
    """The tasks of each sub-topology and their partitions: as many as its widest source topic has partitions.
    `partitions` by topic; topics that are not in it do not exist."""
    tasks: Tasks = {}
    for sub_topology, topics in sorted(sources.items()):
        for topic in sorted(topics):
            for partition in range(partitions.get(topic, 0)):
                tasks.setdefault(TaskId(sub_topology, partition), []).append(TopicPartition(topic, partition))
    return dict(sorted(tasks.items()))


class TaskAssignor(PlainAssignor):
    """`sources` are the source topics of each sub-topology, `stateful` the sub-topologies with stores;
    `stored_tasks` returns the tasks whose state is on the disk of this process."""

    name = "headrace-streams"
    is_cooperative = True

    def __init__(
        self,
        sources: Mapping[int, Iterable[str]],
        stateful: frozenset[int],
        process_id: str,
        stored_tasks: Callable[[], Iterable[TaskId]],
        on_news: Callable[[GroupNews], None] = lambda _news: None,
        matched: frozenset[str] = frozenset(),
    ) -> None:
        """`on_news` is called in each rebalance. `matched`: as for `use_sources`."""
        self.use_sources(sources, matched)
        self._stateful = stateful
        self._process_id = process_id
        self._stored_tasks = stored_tasks
        self._on_news = on_news
        self.requests_shutdown = False
        """The next rebalance tells all members to end, as SHUTDOWN_APPLICATION wants it."""
        self._seen: set[str] = set()
        self._news = GroupNews()

    def use_sources(self, sources: Mapping[int, Iterable[str]], matched: frozenset[str]) -> None:
        """The source topics from now on. `matched`: those that only a pattern names, which may disappear."""
        self._sources = {number: frozenset(topics) for number, topics in sources.items()}
        self._matched = matched

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        """The process of the thread, the tasks whose state it has on disk, and its request to end."""
        stored = sorted(self._stored_tasks())
        data: bytes = msgpack.packb([_VERSION, self._process_id, stored, self.requests_shutdown])
        return data

    def assignment_data(self) -> bytes | None:
        """The news for all members."""
        data: bytes = msgpack.packb(self._news)
        return data

    def on_assigned(self, assignment: Assignment, generation_id: int) -> None:
        """Pass on the news of the leader; one of another version sends none that can be read."""
        try:
            news = GroupNews(*msgpack.unpackb(assignment.user_data or b""))
        except (ValueError, TypeError, msgpack.UnpackException):
            return
        self._on_news(news)

    def assign(
        self, topics: Mapping[str, Topic], members: Mapping[str, MemberSubscription]
    ) -> dict[str, list[TopicPartition]]:
        """The partitions of each member."""
        known = {member_id: _decoded(member.user_data) for member_id, member in members.items()}
        self._seen.update(topics, (tp.topic for member in members.values() for tp in member.owned))
        sources = frozenset[str]().union(*self._sources.values())
        deleted = self._seen.intersection(sources - self._matched).difference(topics)
        ends = any(each.requests_shutdown for each in known.values())
        self._news = GroupNews(ends, sorted(deleted), sorted(topics))
        tasks = tasks_of(self._sources, {name: topic.partitions for name, topic in topics.items()})
        balance = _Balance(members)
        for kind in (True, False):
            wanted = [task for task in tasks if (task.sub_topology in self._stateful) is kind]
            balance.assign(wanted, _owners(tasks, members), _stored(known))
        return {
            member_id: sorted(partition for task in owned for partition in tasks[task])
            for member_id, owned in balance.tasks.items()
        }


class _Balance:
    """Assigns one kind of task after the other, such that the totals stay equal, too."""

    def __init__(self, members: Mapping[str, MemberSubscription]) -> None:
        self.tasks: dict[str, list[TaskId]] = {member_id: [] for member_id in sorted(members)}
        self._per_sub_topology: dict[str, Counter[int]] = defaultdict(Counter)

    def assign(
        self, tasks: list[TaskId], owners: Mapping[TaskId, str], stored: Mapping[TaskId, frozenset[str]]
    ) -> None:
        """Assign `tasks`: to the owner, to a member with the state, to the member with the fewest tasks."""
        if not tasks or not self.tasks:
            return
        limit = self._limits(len(tasks), Counter(owners.get(task, "") for task in tasks))
        rest: list[TaskId] = []
        for task in tasks:
            owner = owners.get(task)
            if owner is not None and limit[owner] > 0:
                self._give(task, owner, limit)
            else:
                rest.append(task)
        for task in rest:
            with_room = [member_id for member_id in self.tasks if limit[member_id] > 0]
            with_state = [member_id for member_id in with_room if member_id in stored.get(task, ())]
            self._give(task, min(with_state or with_room, key=lambda m: self._load(m, task)), limit)

    def _limits(self, count: int, owned: Counter[str]) -> dict[str, int]:
        """How many more tasks each member may have: an equal share, one more for the least loaded and, among
        these, for those that own the most."""
        limits = dict.fromkeys(self.tasks, count // len(self.tasks))
        first = sorted(self.tasks, key=lambda m: (len(self.tasks[m]), -owned[m]))
        for member_id in first[: count % len(self.tasks)]:
            limits[member_id] += 1
        return limits

    def _load(self, member_id: str, task: TaskId) -> tuple[int, int, str]:
        same = self._per_sub_topology[member_id][task.sub_topology]
        return len(self.tasks[member_id]), same, member_id

    def _give(self, task: TaskId, member_id: str, limit: dict[str, int]) -> None:
        self.tasks[member_id].append(task)
        self._per_sub_topology[member_id][task.sub_topology] += 1
        limit[member_id] -= 1


def _owners(tasks: Tasks, members: Mapping[str, MemberSubscription]) -> dict[TaskId, str]:
    """The member that owns a task, by its newest generation: no other one has a partition of it. Topics that
    match a pattern may have added partitions that no member owns."""
    owners: dict[TopicPartition, tuple[int, str]] = {}
    for member_id in sorted(members):
        generation = members[member_id].generation_id
        for partition in members[member_id].owned:
            owners[partition] = max(owners.get(partition, (-2, "")), (generation, member_id))
    found: dict[TaskId, str] = {}
    for task, partitions in tasks.items():
        of_task = {owners[partition][1] for partition in partitions if partition in owners}
        if len(of_task) == 1:
            found[task] = of_task.pop()
    return found


def _decoded(user_data: bytes | None) -> _MemberData:
    """Unreadable user data is that of a process without state."""
    try:
        version, process_id, tasks, requests_shutdown = msgpack.unpackb(user_data or b"")
    except (ValueError, TypeError, msgpack.UnpackException):
        return _MemberData("")
    if version != _VERSION:
        return _MemberData("")
    return _MemberData(process_id, tuple(TaskId(*task) for task in tasks), requests_shutdown)


def _stored(members: Mapping[str, _MemberData]) -> dict[TaskId, frozenset[str]]:
    """The members whose process has the state of a task on disk."""
    processes: dict[str, list[str]] = defaultdict(list)
    stored: dict[TaskId, set[str]] = defaultdict(set)
    for member_id, member in members.items():
        processes[member.process_id].append(member_id)
        for task in member.stored:
            stored[task].add(member.process_id)
    return {
        task: frozenset(member_id for process_id in holders for member_id in processes[process_id])
        for task, holders in stored.items()
    }
