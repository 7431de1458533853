"""Random lives of a streams group: joins, lost responses, crashes, fail-overs of the coordinator, new topics.

Laws: an active task is processed by at most one member, a process has a task at most once; after the last
fault every task is assigned within a bound. Planted bugs show that the laws can fail.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from headrace.coordinators.streams import reconciliation, streams_draft
from headrace.coordinators.streams.streams_group import GroupState
from headrace.coordinators.streams.tasks import Role, Task
from headrace.protocol.errors import KafkaError
from headrace.protocol.metadata.image import GROUP_RESOURCE

from tests.fakes.streams_group_rig import (
    APP,
    JOINING,
    KEYING,
    REBALANCE_MS,
    SESSION_MS,
    StreamsGroupRig,
    StreamsMember,
    topology,
)

STEPS, ROUNDS, SEEDS = 60, 25, 60
NAMES = "abcdef"


class Life:
    """One random life of a group; members of two letters share a process."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rig = StreamsGroupRig()
        self.partitions = {"events": 3, "users": 4}
        self.rig.set_topics(**self.partitions)
        self.members = {
            name: StreamsMember(self.rig, name, f"process-{at // 2}", topology(KEYING, JOINING))
            for at, name in enumerate(NAMES)
        }
        for member in list(self.members.values())[::2]:
            member.lag_of = self.lag_of
        self.is_settling = False

    def lag_of(self, _task: Task, role: Role) -> int:
        """Every other member reports offsets."""
        is_far = role is not Role.ACTIVE and not self.is_settling and self.random.random() < 0.7
        return 50_000 if is_far else 0

    def step(self) -> None:
        """A fault or a heartbeat; heartbeats are the most frequent."""
        member = self.members[self.random.choice(NAMES)]
        actions = (self.beat, self.beat, self.beat, self.take, self.lose, self.crash, self.leave, self.change)
        self.random.choice(actions)(member)
        self.check()

    def beat(self, member: StreamsMember) -> None:
        """A heartbeat whose response is adopted."""
        self.attempt(member, lambda: member.beat())

    def take(self, member: StreamsMember) -> None:
        """A heartbeat whose response is processed, while revoked tasks are not closed yet."""
        self.attempt(member, lambda: member.take(member.send()))

    def lose(self, member: StreamsMember) -> None:
        """A heartbeat whose response is lost: as in Kafka's client, the next one reports the tasks again."""
        self.attempt(member, lambda: member.send())
        member.last_reported = None

    def attempt(self, member: StreamsMember, action: Any) -> None:
        """An error makes the member close all tasks and rejoin."""
        try:
            action()
        except KafkaError:
            member.forget()

    def crash(self, member: StreamsMember) -> None:
        """The member ends without leaving."""
        member.forget()

    def leave(self, member: StreamsMember) -> None:
        self.attempt(member, lambda: member.leave() if member.epoch else None)

    def change(self, member: StreamsMember) -> None:
        """Something of the cluster changes."""
        del member
        match self.random.randrange(5):
            case 0:
                self.rig.reload()
            case 1:
                self.rig.advance(SESSION_MS // 3)
                self.expire()
            case 2:
                self.rig.create_topics()
            case 3:
                self.partitions["events"] += 1
                self.rig.set_topics(**{**self.rig.topic_counts(), **self.partitions})
            case 4:
                standbys = str(self.random.randrange(3))
                configs = {(GROUP_RESOURCE, APP): {"streams.num.standby.replicas": standbys}}
                self.rig.image = replace(self.rig.image, offset=self.rig.image.offset + 1, configs=configs)

    def expire(self) -> None:
        """Members that the coordinator removed notice it before their session ends."""
        group = self.rig.shard.groups.get(APP)
        for member in self.members.values():
            if member.epoch and (group is None or not group.has_member(member.member_id)):
                member.forget()

    def check(self) -> None:
        """The laws, over what members process."""
        active = Counter(task for each in self.members.values() for task in each.tasks())
        assert set(active.values()) <= {1}, f"an active task has two owners: {active}"
        held = Counter((task, each.process_id) for each in self.members.values() for task in each.owned)
        assert set(held.values()) <= {1}, f"a process has a task twice: {held}"

    def settle(self) -> None:
        """No more faults: topics are created, all members heartbeat. A member that never opened a task does
        not report that it has closed it: as in Kafka, it is removed after its rebalance timeout."""
        self.is_settling = True
        for _ in range(ROUNDS):
            self.rig.create_topics()
            for member in self.members.values():
                self.beat(member)
                self.check()
            self.rig.advance(REBALANCE_MS // 10)
            self.expire()

    def run(self) -> None:
        for _ in range(STEPS):
            self.step()
        self.settle()
        configured = self.rig.described().topology.subtopologies
        assert configured is not None
        assert self.rig.app.state is GroupState.STABLE
        active = {task for each in self.members.values() for task in each.tasks()}
        counts = {"0": self.partitions["events"], "1": self.partitions["users"]}
        expected = {(name, number) for name, count in counts.items() for number in range(count)}
        assert active == expected, "every task has an owner"
        standbys = {task for each in self.members.values() for task in each.tasks(Role.STANDBY)}
        replicas = int(self.rig.app.metadata.last_assignment_configs[0].value)  # type: ignore[index]
        assert standbys == ({task for task in expected if task[0] == "1"} if replicas else set())
        warmups = {task for each in self.members.values() for task in each.tasks(Role.WARMUP)}
        assert warmups == set(), "every task has moved"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_invariants_hold_in_every_simulated_group(seed: int) -> None:
    Life(seed).run()


def broken_seeds() -> int:
    found = 0
    for seed in range(SEEDS):
        try:
            Life(seed).run()
        except (AssertionError, IndexError):
            found += 1
    return found


def test_planted_task_that_is_assigned_before_its_revocation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciliation, "_is_free", lambda *_: True)
    assert broken_seeds()


def test_planted_revocation_without_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciliation, "_still_has", lambda *_: False)
    assert broken_seeds()


def test_planted_member_that_never_gets_released_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The liveness law: the first step towards a target is also the last."""
    step = streams_draft.next_step

    def once(member: Any, target_epoch: int, *rest: Any) -> Any:
        return member if member.epoch == target_epoch else step(member, target_epoch, *rest)

    monkeypatch.setattr(streams_draft, "next_step", once)
    assert broken_seeds()
