"""Random lives of tasks in two processes: roles change, processes crash, changelogs grow.

Laws: no word is lost or counted twice (exactly once), a standby has what its changelog has, and a task that
has never been processed elsewhere keeps its open stores through all of its roles. Planted bugs show that the
laws can fail.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from headrace.clients.serdes import int64
from headrace.protocol.model import TopicPartition
from headrace.stream.records import TaskId
from headrace.stream.task import standby_task
from headrace.stream.task.context import TaskContext
from stream_clients import FakeStreamsCluster
from worker_rig import SOURCE, WorkerRig

if TYPE_CHECKING:
    from pathlib import Path

SEEDS, STEPS = 25, 60
TASKS = (TaskId(0, 0), TaskId(0, 1))
WORDS = "abcde"


class Life:
    """One random life."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.folder = folder / str(seed)
        self.cluster = FakeStreamsCluster(words=2, counts=1)
        self.made = 0
        self.rigs = [self.process(), self.process()]
        self.active: dict[TaskId, int] = {}
        self.standby: dict[TaskId, int] = {}
        self.sent: Counter[str] = Counter()

    def process(self) -> WorkerRig:
        """A process with an empty folder."""
        self.made += 1
        return WorkerRig(
            self.folder / str(self.made),
            cluster=self.cluster,
            guarantee="exactly_once_v2",
            cache_bytes=self.random.choice((0, 1 << 20)),
        )

    def run(self) -> None:
        try:
            for _ in range(STEPS):
                self.random.choice((self.send, self.work, self.work, self.follow, self.move, self.crash))()
            self.settle()
        finally:
            for rig in self.rigs:
                rig.directory.close()

    def send(self) -> None:
        for word in self.random.choices(WORDS, k=3):
            number = WORDS.index(word) % 2
            self.rigs[0].send(word, partition=number)
            self.sent[word] += 1

    def work(self) -> None:
        """A turn of one process; a commit sometimes comes later."""
        rig = self.random.choice(self.rigs)
        rig.work()
        if self.random.random() < 0.7:
            rig.manager.commit()

    def follow(self) -> None:
        rig = self.random.choice(self.rigs)
        rig.manager.update_standbys(is_idle=True)

    def move(self) -> None:
        """New roles; as in a group, active tasks are revoked before they are assigned elsewhere."""
        before = dict(self.active)
        for task in TASKS:
            self.active[task] = self.random.randrange(2)
            self.standby.pop(task, None)
            if self.random.random() < 0.7:
                self.standby[task] = 1 - self.active[task]
        for at, rig in enumerate(self.rigs):
            self.use_roles(at, rig)
            gone = [task for task in TASKS if before.get(task) == at != self.active[task]]
            if gone:
                rig.revoke(*map(_input_of, gone))
        for at, rig in enumerate(self.rigs):
            new = [task for task in TASKS if before.get(task) != at == self.active[task]]
            if new:
                rig.assign(*map(_input_of, new))

    def use_roles(self, at: int, rig: WorkerRig) -> None:
        rig.manager.use_roles(
            [task for task, place in self.active.items() if place == at],
            [task for task, place in self.standby.items() if place == at],
            (),
        )

    def crash(self) -> None:
        """A process is killed; another one, without its stores, takes its tasks."""
        at = self.random.randrange(2)
        rig = self.rigs[at]
        if rig.output.in_transaction:
            rig.output.abort()
        rig.directory.close()
        self.rigs[at] = self.process()
        self.use_roles(at, self.rigs[at])
        owned = [task for task in TASKS if self.active.get(task) == at]
        if owned:
            self.rigs[at].assign(*map(_input_of, owned))

    def settle(self) -> None:
        self.move()
        for rig in self.rigs:
            for _ in range(3):
                rig.work()
                rig.manager.commit()
        for rig in self.rigs:
            for _ in range(3):
                rig.manager.update_standbys(is_idle=True)
        found = {}
        for number in (0, 1):
            found.update(self.state(number))
        assert found == self.sent, "each word is counted once"
        for at, rig in enumerate(self.rigs):
            opened = rig.manager.tasks, rig.manager.standbys.tasks
            assert not opened[0].keys() & opened[1].keys(), "a task has one role"
            for task in (task for task, place in self.standby.items() if place == at):
                with opened[1][task].task.stores["store"].all() as rows:
                    has = {key: entry.value for key, entry in rows}
                assert has == self.state(task.partition), "a standby has what its changelog has"

    def state(self, number: int) -> dict[str, int]:
        """What the changelog of a task says."""
        found: dict[str, Any] = {}
        for record in self.cluster.logs[TopicPartition("app-store-changelog", number)]:
            if record is not None:
                found[(record.key or b"").decode()] = int64.loads(record.value or b"")
        return found


def _input_of(task: TaskId) -> TopicPartition:
    return TopicPartition(SOURCE, task.partition)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_invariants_hold_in_every_simulated_standby(seed: int, tmp_path: Path) -> None:
    Life(seed, tmp_path).run()


def broken_seeds(folder: Path) -> int:
    found = 0
    for seed in range(SEEDS):
        try:
            Life(seed, folder).run()
        except AssertionError:
            found += 1
    return found


def test_planted_cache_that_outlives_its_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskContext, "forget_cached", lambda _self: None)
    assert broken_seeds(tmp_path)


def test_planted_standby_that_skips_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = standby_task.StandbyTask.apply
    monkeypatch.setattr(
        standby_task.StandbyTask, "apply", lambda self, tp, records: apply(self, tp, records[-1:])
    )
    assert broken_seeds(tmp_path)
