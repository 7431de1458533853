"""Runs of moves over a scripted cluster: a controller that changes, moves that others end, nodes that die."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from headrace.clients.admin.admin_types import (
    ClusterDescription,
    NodeInfo,
    NodeState,
    PartitionDescription,
    PartitionReassignment,
    Resource,
    Results,
    TopicDescription,
)
from headrace.clients.cluster.network import Address
from headrace.protocol.errors import (
    ApiTimeoutError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from headrace.protocol.model import TopicPartition
from headrace.services.balance.model import Move
from headrace.services.balance.runner_io import Outcome, Pace, Runner

PACE = Pace(throttle=1000, max_concurrent=2, patience_s=10)


class Cluster:
    """An admin client whose reassignments take two polls. `failures`: how many of the next calls time out."""

    def __init__(self) -> None:
        self.places: dict[TopicPartition, tuple[int, ...]] = {}
        self.moving: dict[TopicPartition, list[Any]] = {}  # target, polls left
        self.down: set[int] = set()
        self.failures = 0
        self.is_stuck = False
        self.configs: dict[Any, dict[str, Any]] = {}
        self.most_at_once, self.now_s = 0, 0.0

    def _call(self) -> None:
        if self.failures:
            self.failures -= 1
            raise ApiTimeoutError("no controller")

    def describe_cluster(self, *, include_fenced: bool) -> ClusterDescription:
        self._call()
        nodes = tuple(
            NodeInfo(n, Address("h", n), None, NodeState.FENCED if n in self.down else NodeState.ACTIVE)
            for n in range(1, 5)
        )
        return ClusterDescription("c", 1, nodes)

    def alter_partition_reassignments(
        self, changes: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Results[TopicPartition, None]:
        outcomes: dict[TopicPartition, Any] = {}
        for place, target in changes.items():
            if place not in self.places:
                outcomes[place] = UnknownTopicOrPartitionError("gone")
            elif target is not None:
                self.moving[place], outcomes[place] = [tuple(target), 2], None
            elif self.moving.pop(place, None) is None:
                outcomes[place] = NoReassignmentInProgressError("none")
            else:
                outcomes[place] = None
        self.most_at_once = max(self.most_at_once, len(self.moving))
        self._call()  # the request arrived, its response did not
        return Results(outcomes)

    def list_partition_reassignments(
        self, places: Sequence[TopicPartition]
    ) -> dict[TopicPartition, PartitionReassignment]:
        self._call()
        for place, move in list(self.moving.items()):
            move[1] -= not self.is_stuck
            if not move[1]:
                self.places[place] = move[0]
                del self.moving[place]
        return {p: PartitionReassignment((), (1,), (), ()) for p in places if p in self.moving}

    def describe_topics(self, *names: str) -> Results[str, TopicDescription]:
        found: dict[str, Any] = dict.fromkeys(names, UnknownTopicOrPartitionError("gone"))
        for name in {place.topic for place in self.places}.intersection(names):
            parts = [
                PartitionDescription(name, n, nodes[0], 0, 0, nodes, nodes)
                for (topic, n), nodes in sorted(self.places.items())
                if topic == name
            ]
            found[name] = TopicDescription(name, b"", False, tuple(parts))
        return Results(found)

    def describe_replicas(self, nodes: Sequence[int], **_facts: Any) -> Results[int, Any]:
        return Results({node_id: ApiTimeoutError("silent") for node_id in nodes})

    def elect_leaders(self, *_facts: Any) -> Results[TopicPartition, None]:
        return Results({})

    def alter_configs(self, changes: Mapping[Resource, Mapping[str, Any]]) -> Results[Resource, None]:
        topics = {place.topic for place in self.places}
        gone = [each for each in changes if each.kind == "topic" and each.name not in topics]
        if gone:
            return Results(dict.fromkeys(gone, UnknownTopicOrPartitionError("gone")))
        for resource, pairs in changes.items():
            kept = self.configs.setdefault(resource, {})
            kept.update(pairs)
            self.configs[resource] = {name: value for name, value in kept.items() if value is not None}
        return Results(dict.fromkeys(changes))

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    @property
    def throttled(self) -> list[Any]:
        return [each for each, pairs in self.configs.items() if pairs]


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.places = {TopicPartition("t", number): (1, 2) for number in range(5)}
    return made


def runner(cluster: Cluster, to: tuple[int, ...] = (3, 2), **facts: Any) -> Runner:
    moves = [Move(place, nodes, to, 100, "replicas") for place, nodes in sorted(cluster.places.items())]
    admin: Any = cluster
    return Runner(
        admin, moves, PACE, lambda _size: None, clock=lambda: cluster.now_s, sleep=cluster.sleep, **facts
    )


def test_everything_moves_a_few_at_a_time(cluster: Cluster) -> None:
    """Never more than two at once; no throttle is left."""
    outcome = runner(cluster).run()
    assert (len(outcome.done), outcome.failed, outcome.left) == (5, {}, [])
    assert (cluster.most_at_once, set(cluster.places.values())) == (2, {(3, 2)})
    assert cluster.throttled == []


def test_a_change_of_the_controller_is_waited_out(cluster: Cluster) -> None:
    """Calls fail for less than the patience, also the one that began moves: they are begun again."""
    run = runner(cluster)
    cluster.failures = 3
    step, calls = run._begin, []

    def begin() -> None:
        calls.append(1)
        cluster.failures += len(calls) == 2
        step()

    run._begin = begin
    outcome = run.run()
    assert (len(outcome.done), outcome.failed, cluster.failures) == (5, {}, 0)


def test_a_controller_that_stays_away_ends_the_run(cluster: Cluster) -> None:
    """After the patience; what may be in progress is cancelled once the controller is back, and throttles are
    removed."""
    run = runner(cluster)
    step = run._begin

    def begin() -> None:
        cluster.failures = 12 * 2  # polls of half a second: longer than ten seconds
        step()

    run._begin = begin
    with pytest.raises(ApiTimeoutError):
        run.run()
    assert (cluster.moving, cluster.throttled) == ({}, [])
    assert len(run.outcome.left) == 5


def test_a_dead_target_stops_the_run(cluster: Cluster) -> None:
    """Node 3 dies: its moves are cancelled after ten seconds, and nothing else is begun meanwhile."""
    cluster.is_stuck = True
    run = runner(cluster)
    run._step()
    cluster.down.add(3)
    outcome = run.run()
    assert outcome.stopped_by == "node 3 is fenced or shutting down"
    assert (len(outcome.failed), len(outcome.left), outcome.done) == (2, 3, [])
    assert 10 <= cluster.now_s < 12
    assert (cluster.moving, cluster.throttled) == ({}, [])


def test_nodes_that_were_down_before_or_leave_do_not_stop_it(cluster: Cluster) -> None:
    """Node 4 was fenced at the start, and node 1 is being removed."""
    cluster.down.add(4)
    run = runner(cluster, ignored=(1,))
    run._step()
    cluster.down.add(1)
    assert len(run.run().done) == 5


def test_moves_that_others_end_are_failures(cluster: Cluster) -> None:
    """One is cancelled by someone else; the topic of one is deleted, and that of one that has not begun. The
    others are done, and the throttles of deleted topics are no error."""
    cluster.places |= {TopicPartition(topic, 0): (1, 2) for topic in ("gone", "z")}
    cluster.is_stuck = True
    run = runner(cluster)
    run._step()
    for place in (TopicPartition("t", 0), TopicPartition("gone", 0)):
        del cluster.moving[place]
    del cluster.places[TopicPartition("gone", 0)], cluster.places[TopicPartition("z", 0)]
    cluster.is_stuck = False
    outcome: Outcome = run.run()
    assert len(outcome.done) == 4
    assert outcome.failed == {
        TopicPartition("t", 0): "it was cancelled or changed by someone else",
        TopicPartition("gone", 0): "its topic was deleted",
        TopicPartition("z", 0): "its topic was deleted",
    }
