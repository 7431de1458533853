"""Streams groups in simulation: the member cores of stream threads, and the laws of their tasks.

A task is a partition of SOURCE. The group of readers is stateful, with standby tasks: two of its members are
threads of one process. The copiers are stateless. A thread may end at any time without a LeaveGroup request,
and restarts with another member id.

- TopologyKept: a group with members has a topology.
- OneActive: in the state of a coordinator a task is active at one member, and a process has it once.
- OneCommitter: of all live threads that read a partition, the coordinator would accept the commits of one.
- TargetComplete: a target assignment has each task once as active, and each stateful task as standby in as
  many other processes as are configured and live.
- StaticKept: in one target assignment a static member has the same tasks, whatever its member id.
- AllAssigned: after the faults have healed, the live threads have all tasks, each in its role.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.clients.cluster.backoff import Backoff
from headrace.clients.group.streams import StreamsApplication, StreamsMember
from headrace.coordinators.runtime.hosted_shard import ShardState
from headrace.coordinators.streams.streams_group import GroupState, StreamsGroup
from headrace.coordinators.streams.tasks import Role
from headrace.protocol.records.streams_group_records import StreamsGroupTopologyValue, Subtopology, TopicInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cluster import SimCluster
    from headrace.clients.group.member import MemberConfig
    from sim_members import SimMember

SUBTOPOLOGY = "0"
CHANGELOG = "readers-store-changelog"
STANDBYS = 1
CONFIGS = {
    "group.streams.session.timeout.ms": 1_500,
    "group.streams.heartbeat.interval.ms": 300,
    "group.streams.initial.rebalance.delay.ms": 200,
    "group.streams.assignment.interval.ms": 100,
    "group.streams.num.standby.replicas": STANDBYS,
}


def member_core(
    cluster: SimCluster, config: MemberConfig, name: str, source: str, life: int, *, is_stateful: bool
) -> StreamsMember:
    """The core of a thread. `name` ends with the number of the thread; even ones are in one process."""
    changelogs = (TopicInfo(CHANGELOG, 0, cluster.plan.replication),) if is_stateful else ()
    subtopology = Subtopology(SUBTOPOLOGY, (source,), state_changelog_topics=changelogs)
    process = f"process-{int(name[-1]) % 2}" if is_stateful else f"process-{name}"
    application = StreamsApplication(
        StreamsGroupTopologyValue(0, (subtopology,)), process, {SUBTOPOLOGY: frozenset((source,))}
    )
    stream = cluster.world.stream(f"{name} backoff {life}")
    return StreamsMember(config, f"member-{name}-{life}", Backoff(20, 300, stream), application)


class StreamsLaws:
    """Checked after every step of a thread, and at the end."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._kept: dict[Any, Any] = {}  # coordinator, assignment epoch and instance id -> tasks

    def groups(self) -> Iterator[StreamsGroup]:
        """The streams groups in the states of all coordinators, also of deposed ones."""
        return (group for _, group in self._led())

    def _led(self) -> Iterator[tuple[Any, StreamsGroup]]:
        """Each group with the leadership of its coordinator."""
        for node in self._cluster.nodes.values():
            coordinators: Any = None if node.core is None else node.core.coordinators._coordinators
            for hosted in () if coordinators is None else coordinators._shards.values():
                if hosted.state is ShardState.ACTIVE:
                    for group in getattr(hosted._shard, "groups", {}).values():
                        if isinstance(group, StreamsGroup):
                            yield (hosted.key, hosted.epoch), group

    def check(self, members: Iterable[SimMember]) -> None:
        """StaticKept, TopologyKept, OneActive, TargetComplete, OneCommitter."""
        members = [each for each in members if isinstance(each.core, StreamsMember) and each.is_reading]
        for led, group in self._led():
            self._check_static(led, group)
            assert group.topology is not None or group.is_empty, f"TopologyKept: {group.group_id} has none"
            _check_active(group)
            self._check_target(group)
            _check_committers(group, [each for each in members if each.group == group.group_id])

    def _check_static(self, led: Any, group: StreamsGroup) -> None:
        """StaticKept. A group epoch without an assignment may have lost members."""
        if group.epoch > group.assignment_epoch:
            return
        for member in group.members.values():
            if member.instance_id is not None:
                target = group.targets.get(member.member_id, {})
                place = led, group.group_id, group.assignment_epoch, member.instance_id
                kept = self._kept.setdefault(place, (member.member_id, target))
                assert kept[1] == target, f"StaticKept: {member.instance_id} had {kept}, has {target}"
                if kept[0] != member.member_id:
                    self._cluster.rules.marks["static thread returned"] += 1
                    self._kept[place] = member.member_id, target

    def _check_target(self, group: StreamsGroup) -> None:
        """TargetComplete, except for members that have left since the assignment."""
        if group.epoch > group.assignment_epoch or group.state is GroupState.NOT_READY or not group.members:
            return
        source = None if group.topology is None else group.topology.subtopologies[0].source_topics[0]
        topic = self._cluster.rules.image.topics.get(source or "")
        if topic is None or group.topology is None:
            return
        is_stateful = bool(group.topology.subtopologies[0].state_changelog_topics)
        processes = {member.process_id for member in group.members.values()}
        for number in range(len(topic.partitions)):
            held = [
                (group.members[member_id].process_id, role)
                for member_id, tasks in group.targets.items()
                for task, role in tasks.items()
                if task == (SUBTOPOLOGY, number)
            ]
            roles = [role for _, role in held]
            assert roles.count(Role.ACTIVE) == 1, f"TargetComplete: task {number} of {group.group_id}: {held}"
            assert len({process for process, _ in held}) == len(held), f"TargetComplete: one process: {held}"
            wanted = min(STANDBYS, len(processes) - 1) if is_stateful else 0
            assert roles.count(Role.STANDBY) == wanted, f"TargetComplete: standbys of {number}: {held}"

    def all_assigned(self, members: Iterable[SimMember], group_id: str, partitions: int) -> bool:
        """AllAssigned, for a stateful group. A deposed coordinator may have an older state."""
        cores = [each.core for each in members if each.is_reading and isinstance(each.core, StreamsMember)]
        tasks = [core.tasks for core in cores if core.is_member]
        active = sorted(task for roles in tasks for task in roles.active)
        standbys = sum(len(roles.standby) for roles in tasks)
        processes = {core._application.process_id for core in cores}
        wanted = partitions * min(STANDBYS, len(processes) - 1)
        is_everything = active == [(SUBTOPOLOGY, number) for number in range(partitions)]
        states = [group for group in self.groups() if group.group_id == group_id]
        return (
            is_everything
            and standbys == wanted
            and any(_agrees(group, [core for core in cores if core.is_member]) for group in states)
        )


def _agrees(group: StreamsGroup, cores: list[StreamsMember]) -> bool:
    """Whether the coordinator has exactly these members, and each has its target tasks."""
    known = {core.member_id: core.tasks for core in cores}
    return group.state is GroupState.STABLE and known == {
        member_id: tuple(
            frozenset(task for task, held in member.assigned.items() if held is role) for role in Role
        )
        for member_id, member in group.members.items()
    }


def _check_active(group: StreamsGroup) -> None:
    try:
        group.check()
    except AssertionError as error:
        raise AssertionError(f"OneActive: {group.group_id}: {error}") from error


def _check_committers(group: StreamsGroup, members: list[SimMember]) -> None:
    found: dict[Any, str] = {}
    for member in members:
        core = member.core
        known = group.members.get(core.member_id)
        if known is None or not core.is_member:
            continue
        for tp in core.owned:
            place = [(tp.topic, b"", tp.partition)]
            if core.generation_id == known.epoch or group.has_had_since(
                core.member_id, core.generation_id, place
            ):
                other = found.setdefault(tp, core.member_id)
                assert other == core.member_id, (
                    f"OneCommitter: {other} and {core.member_id} read {tp}, and both may commit"
                )


def state_of(group: Any) -> Any:
    """The durable state of a streams group; None for other groups."""
    if not isinstance(group, StreamsGroup):
        return None
    return group.metadata, group.topology, group.assignment_epoch, group.members, group.targets
