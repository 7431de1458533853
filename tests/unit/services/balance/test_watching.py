"""When the continuous balance moves: thresholds, hysteresis, pauses, and its loop with a fake clock."""

import random
from dataclasses import replace
from typing import Any

import pytest
from headrace.protocol.errors import ApiTimeoutError
from headrace.protocol.model import TopicPartition
from headrace.services.balance import requests as q
from headrace.services.balance.model import (
    Facts,
    Health,
    Imbalance,
    Limits,
    Move,
    NodeFacts,
    PartitionFacts,
    Plan,
    Snapshot,
    Spread,
)
from headrace.services.balance.planner import plan
from headrace.services.balance.requests_io import drive
from headrace.services.balance.watching import Step, Thresholds, Watch, Watcher

EVEN = Spread(10, 10, 10)
SETTLED = Thresholds(threshold=0.25, rounds=2, settle_s=10)


def made(before: Imbalance, *, moves: int = 1, after: Imbalance | None = None) -> Plan:
    """A plan of some moves, without any imbalance afterwards."""
    move = Move(TopicPartition("t", 0), (1,), (2,), 0, "disk")
    return Plan((move,) * moves, before, state() if after is None else after)


def state(disk: float = 0.0, replicas: Spread = EVEN, misses: int = 0) -> Imbalance:
    """`disk`: how far the fullest node is above the mean, as a share of it."""
    return Imbalance(misses, replicas, Spread(1 - disk, 1, 1 + disk), EVEN, EVEN)


def decided(watcher: Watcher, *rounds: tuple[float, float]) -> list[Step]:
    """The steps of rounds of a healthy cluster at some second, with some imbalance of the disks."""
    return [watcher.decide(None, made(state(disk), moves=disk > 0.1), now_s) for now_s, disk in rounds]


def test_moves_begin_at_the_threshold_and_end_at_the_tolerance() -> None:
    """0.2 is below the threshold and rests; 0.3 in two rounds begins; then 0.2 goes on, until nothing would
    move; and 0.2 rests again."""
    steps = decided(Watcher(SETTLED), (0, 0.2), (20, 0.3), (21, 0.3), (22, 0.2), (23, 0.05), (24, 0.2))
    assert steps == [Step.REST, Step.WATCH, Step.MOVE, Step.MOVE, Step.REST, Step.REST]


def test_one_bad_round_is_no_reason() -> None:
    """A peak of traffic passes."""
    assert decided(Watcher(SETTLED), (0, 0), (20, 0.5), (21, 0), (22, 0.5)) == [
        *(Step.REST, Step.WATCH, Step.REST, Step.WATCH),
    ]


def test_an_unhealthy_cluster_pauses_and_settles_first() -> None:
    """A node is gone while moves are due: nothing moves until ten seconds after its return; then at once."""
    watcher = Watcher(SETTLED)
    assert decided(watcher, (0, 0.5), (20, 0.5)) == [Step.WATCH, Step.MOVE]
    assert watcher.decide("node 1 is fenced", made(state(0.5)), 21) is Step.PAUSE
    assert decided(watcher, (22, 0.5), (31, 0.5), (32, 0.5)) == [Step.PAUSE, Step.PAUSE, Step.MOVE]


@pytest.mark.parametrize(
    ("found", "is_bad"),
    [
        (state(replicas=Spread(0, 0.5, 1)), False),  # one replica on two nodes: it cannot be more even
        (state(replicas=Spread(0, 1, 2)), True),
        (state(misses=1), True),
        (state(0.25), False),
    ],
)
def test_what_is_a_reason(found: Imbalance, is_bad: bool) -> None:
    """Whole replicas are even when they are one apart; a missing rack is always one."""
    step = Watcher(Thresholds(0.25, 1, 0)).decide(None, made(found), 0)
    assert step is (Step.MOVE if is_bad else Step.REST)


def test_what_no_plan_improves_is_no_reason() -> None:
    """One partition has more traffic than a node should have: moves for other goals do not become due."""
    stuck = Imbalance(0, EVEN, EVEN, EVEN, Spread(1, 2, 10))
    watcher = Watcher(Thresholds(0.25, 1, 0))
    assert watcher.decide(None, made(stuck, after=stuck), 0) is Step.REST


# --- the loop ------------------------------------------------------------------------------------------


HEALTHY = Health((), (), 0, 0, 0)
PROBLEMS = (
    Health((1,), (), 0, 0, 0),
    Health((), (2,), 0, 0, 0),
    Health((), (), 1, 0, 0),
    Health((), (), 0, 1, 0),
    Health((), (), 0, 0, 1),
)


class World:
    """Six nodes and sixty partitions, whose traffic varies by `noise` from round to round. It performs the
    requests of the loop for `rounds` rounds. `problems`: the share of rounds in which something is wrong, and
    of those in which balance.enable is false."""

    def __init__(
        self, seed: int, *, noise: float = 0.2, problems: float = 0.0, heaviest: float = 1.0
    ) -> None:
        self.random, self.noise, self.problems = random.Random(seed), noise, problems
        self.nodes = tuple(NodeFacts(n, capacity_bytes=1 << 40, free_bytes=1 << 39) for n in range(1, 7))
        self.partitions = tuple(
            self._partition(number, heaviest if not number else 1.0) for number in range(60)
        )
        self.now_s = self.healthy_since = 0.0
        self.rounds, self.round = 200, 0
        self.is_enabled = True
        self.health = HEALTHY
        self.carried_out: list[int] = []  # rounds
        self.said: list[str] = []

    def _partition(self, number: int, weight: float) -> PartitionFacts:
        replicas = tuple(self.random.sample((1, 2, 3, 4), 2))
        size, rate = self.random.randrange(1 << 28, 1 << 30), weight * self.random.uniform(1e5, 1e6)
        return PartitionFacts(TopicPartition("t", number), replicas, replicas[0], size, rate, rate)

    def facts(self) -> Facts:
        """The cluster, with the traffic of this moment."""
        parts = []
        for part in self.partitions:
            now = self.random.uniform(1 - self.noise, 1 + self.noise)
            parts.append(replace(part, in_rate=part.in_rate * now, out_rate=part.out_rate * now))
        return Facts(Snapshot(self.nodes, tuple(parts)), self.health)

    def perform(self, request: q.Request) -> Any:
        """The response of a request."""
        if isinstance(request, q.Sleep):
            self._next_round(request.seconds)
        elif isinstance(request, q.Report):
            self.said.append(request.text)
        elif isinstance(request, q.ReadConfig):
            return None if self.is_enabled else "false"
        elif isinstance(request, q.ReadFacts):
            return self.facts()
        elif isinstance(request, q.CarryOut):
            self._carry_out(request.plan)
        else:
            assert isinstance(request, (q.ListMoves, q.ReadThrottled)), request
            return {}
        return None

    def _next_round(self, seconds: float) -> None:
        self.now_s += seconds
        self.round += 1
        if self.round == self.rounds:
            raise KeyboardInterrupt
        bad = self.random.random() < self.problems
        self.health = self.random.choice(PROBLEMS) if bad else HEALTHY
        if bad:
            self.healthy_since = self.now_s + seconds
        self.is_enabled = self.random.random() >= self.problems

    def _carry_out(self, made: Plan) -> None:
        assert self.health.problem() is None, "moves while the cluster is unhealthy"
        assert self.is_enabled, "moves while balance.enable is false"
        assert self.now_s - self.healthy_since >= THRESHOLDS.settle_s, "moves before the cluster has settled"
        self.carried_out.append(self.round)
        after = {move.place: move.after for move in made.moves}
        self.partitions = tuple(
            replace(part, replicas=after.get(part.place, part.replicas)) for part in self.partitions
        )

    def watch(self, limits: Limits | None = None, thresholds: Thresholds | None = None) -> None:
        """Run the loop for all rounds."""
        pace = q.Pace(lambda: self.now_s)
        with pytest.raises(KeyboardInterrupt):
            drive(Watch(limits or Limits(), thresholds or THRESHOLDS, pace).steps(), self.perform)


THRESHOLDS = Thresholds(threshold=0.25, rounds=3, settle_s=100, interval_s=20)


@pytest.mark.parametrize("seed", range(5))
def test_a_balance_that_is_done_is_not_begun_again(seed: int) -> None:
    """Two of six nodes are empty. Traffic varies, within the threshold and above the tolerance: one
    plan is carried out after five rounds, and none in the 195 rounds that follow."""
    world = World(seed)
    world.watch()
    assert world.carried_out == [5], world.said
    assert plan(world.facts().snapshot, Limits(goals=("rack", "replicas", "disk"))).copied_bytes == 0


def test_a_threshold_at_the_tolerance_oscillates() -> None:
    """Without hysteresis the same traffic moves leaders again and again."""
    world = World(1, noise=0.5)
    world.watch(thresholds=replace(THRESHOLDS, threshold=0.1, rounds=1))
    assert len(world.carried_out) > 5


@pytest.mark.parametrize("seed", range(5))
def test_a_partition_that_is_too_busy_does_not_cause_moves_for_ever(seed: int) -> None:
    """One partition has as much traffic as all others."""
    world = World(seed, heaviest=60)
    world.watch()
    assert 1 <= len(world.carried_out) <= 3, world.said


@pytest.mark.parametrize("seed", range(10))
def test_no_move_begins_while_something_is_wrong(seed: int) -> None:
    """Nodes die, partitions lose their leader or replicas, others move partitions, balance.enable changes:
    `World` checks each plan that is carried out; in the end the cluster is balanced."""
    world = World(seed, problems=0.1)
    world.watch()
    assert 1 <= len(world.carried_out) <= 2, world.said


def test_a_plan_that_was_not_complete_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first plan fails half way: the rest follows in the next round, at the tolerance."""
    world = World(1)
    carry_out = world._carry_out

    def fails_once(made: Plan) -> None:
        if not world.carried_out:
            carry_out(replace(made, moves=made.moves[:3]))
            raise ApiTimeoutError("no controller")
        carry_out(made)

    monkeypatch.setattr(world, "_carry_out", fails_once)
    world.watch()
    assert world.carried_out == [5, 6], world.said


def test_a_limit_of_moves_is_continued_until_the_balance_is_complete() -> None:
    """With --max-moves each round changes a few partitions."""
    world = World(1)
    world.watch(Limits(max_moves=4))
    assert world.carried_out[0] == 5
    assert world.carried_out == list(range(5, 5 + len(world.carried_out)))
    assert 3 <= len(world.carried_out) <= 15
