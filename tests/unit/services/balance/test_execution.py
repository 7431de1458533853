"""Runs of moves over a scripted cluster: a controller that changes, moves that others end, nodes that die."""

from collections.abc import Callable
from typing import Any

import pytest
from headrace.clients.admin.admin_types import NodeState, Resource
from headrace.protocol.errors import (
    ApiTimeoutError,
    InvalidReplicaAssignmentError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from headrace.protocol.model import TopicPartition
from headrace.services.balance import requests as q
from headrace.services.balance.execution import Execution, MovesInProgressError, Outcome, cancel_all, settle
from headrace.services.balance.model import Move
from headrace.services.balance.requests_io import drive
from headrace.services.replication_throttle import throttling


class Cluster:
    """Performs requests. Reassignments take two polls. `failures`: how many of the next calls time out."""

    def __init__(self) -> None:
        self.places: dict[TopicPartition, tuple[int, ...]] = {}
        self.moving: dict[TopicPartition, list[Any]] = {}  # target, polls left
        self.down: set[int] = set()
        self.failures = 0
        self.is_stuck = self.is_unreachable = False
        self.sizes: dict[TopicPartition, int] = {}
        self.configs: dict[Any, dict[str, Any]] = {}
        self.most_at_once, self.now_s = 0, 0.0
        self.said: list[str] = []
        self.uncancellable: set[TopicPartition] = set()
        self.before: Callable[[q.Request], None] = lambda _request: None
        self.pace = q.Pace(lambda: self.now_s, throttle=1000, max_concurrent=2, patience_s=10)

    def perform(self, request: q.Request) -> Any:
        """The response of a request."""
        self.before(request)
        if isinstance(request, q.Sleep):
            self.now_s += request.seconds
            return None
        if isinstance(request, q.Report):
            return self.said.append(request.text)
        if self.is_unreachable:
            raise ApiTimeoutError("no controller")
        response = getattr(self, f"_{type(request).__name__}")(request)
        if self.failures:
            self.failures -= 1
            raise ApiTimeoutError("no controller")  # the request arrived, its response did not
        return response

    def _ReadNodes(self, _request: q.ReadNodes) -> dict[int, NodeState]:
        return {n: NodeState.FENCED if n in self.down else NodeState.ACTIVE for n in range(1, 5)}

    def _Reassign(self, request: q.Reassign) -> dict[TopicPartition, BaseException]:
        refused: dict[TopicPartition, BaseException] = {}
        for place, target in request.targets.items():
            if place not in self.places:
                refused[place] = UnknownTopicOrPartitionError("gone")
            elif target is not None:
                self.moving[place] = [tuple(target), 2]
            elif place in self.uncancellable:
                refused[place] = InvalidReplicaAssignmentError("only the added replicas are in sync")
            elif self.moving.pop(place, None) is None:
                refused[place] = NoReassignmentInProgressError("none")
        self.most_at_once = max(self.most_at_once, len(self.moving))
        return refused

    def _ListMoves(self, request: q.ListMoves) -> dict[TopicPartition, tuple[int, ...]]:
        for place, move in list(self.moving.items()):
            move[1] -= not self.is_stuck
            if not move[1]:
                self.places[place] = move[0]
                del self.moving[place]
        return {p: (3,) for p in self.moving if request.places is None or p in request.places}

    def _ReadReplicas(self, request: q.ReadReplicas) -> dict[TopicPartition, tuple[int, ...]]:
        return {p: n for p, n in self.places.items() if request.topics is None or p.topic in request.topics}

    def _ReadSizes(self, request: q.ReadSizes) -> dict[TopicPartition, list[int]]:
        return {place: [self.sizes.get(place, 0)] for place in request.copies}

    def _ReadThrottled(self, _request: q.ReadThrottled) -> frozenset[str]:
        return frozenset(item.name for item, pairs in self.configs.items() if item.kind == "topic" and pairs)

    def _ElectPreferred(self, _request: q.ElectPreferred) -> None:
        pass

    def _AlterConfigs(self, request: q.AlterConfigs) -> None:
        topics = {place.topic for place in self.places}
        if any(each.kind == "topic" and each.name not in topics for each in request.changes):
            raise ExceptionGroup("configs", [UnknownTopicOrPartitionError("gone")])
        for resource, pairs in request.changes.items():
            kept = self.configs.setdefault(resource, {}) | dict(pairs)
            self.configs[resource] = {name: value for name, value in kept.items() if value is not None}

    @property
    def throttled(self) -> list[Any]:
        return [each for each, pairs in self.configs.items() if pairs]


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.places = {TopicPartition("t", number): (1, 2) for number in range(5)}
    return made


def execution(cluster: Cluster, to: tuple[int, ...] = (3, 2), **facts: Any) -> Execution:
    moves = [Move(place, nodes, to, 100, "replicas") for place, nodes in sorted(cluster.places.items())]
    return Execution(moves, cluster.pace, lambda _size: None, **facts)


def on_first_reassign(cluster: Cluster, happen: Callable[[], None]) -> None:
    """Call `happen` when the first moves begin."""

    def before(request: q.Request) -> None:
        if isinstance(request, q.Reassign):
            cluster.before = lambda _request: None
            happen()

    cluster.before = before


def test_everything_moves_a_few_at_a_time(cluster: Cluster) -> None:
    """Never more than two at once; no throttle is left."""
    outcome = drive(execution(cluster).steps(), cluster.perform)
    assert (len(outcome.done), outcome.failed, outcome.left, outcome.is_clean) == (5, {}, [], True)
    assert (cluster.most_at_once, set(cluster.places.values())) == (2, {(3, 2)})
    assert cluster.throttled == []


def test_a_change_of_the_controller_is_waited_out(cluster: Cluster) -> None:
    """Calls fail for less than the patience, also the one that began moves: they are begun again."""
    on_first_reassign(cluster, lambda: setattr(cluster, "failures", 4))
    outcome = drive(execution(cluster).steps(), cluster.perform)
    assert (len(outcome.done), outcome.failed, cluster.failures) == (5, {}, 0)
    assert cluster.most_at_once == 2


def test_a_controller_that_stays_away_ends_the_run(cluster: Cluster) -> None:
    """After the patience; what may be in progress is cancelled once the controller is back, and throttles are
    removed."""
    run = execution(cluster)
    on_first_reassign(cluster, lambda: setattr(cluster, "failures", 12 * 2))  # polls of half a second
    with pytest.raises(ApiTimeoutError):
        drive(run.steps(), cluster.perform)
    assert (cluster.moving, cluster.throttled) == ({}, [])
    assert (len(run.outcome.left), run.outcome.is_clean) == (5, True)


def test_a_run_that_cannot_clean_up_says_so(cluster: Cluster) -> None:
    """No node can be reached any more, also not for the cleanup; the next run removes what is left."""
    run = execution(cluster)

    def before(request: q.Request) -> None:
        cluster.is_unreachable = isinstance(request, q.Sleep) or cluster.is_unreachable

    cluster.before = before
    with pytest.raises(ApiTimeoutError):
        drive(run.steps(), cluster.perform)
    assert (run.outcome.is_clean, len(cluster.moving), bool(cluster.throttled)) == (False, 2, True)
    cluster.before, cluster.is_unreachable = lambda _request: None, False
    drive(settle(cluster.pace), cluster.perform)
    assert (cluster.moving, cluster.throttled) == ({}, [])


def test_a_cancel_without_a_response_is_not_a_completed_move(cluster: Cluster) -> None:
    """The first cancel is carried out, and its repetition finds nothing to cancel."""
    cluster.is_stuck = True
    run = execution(cluster)

    def before(request: q.Request) -> None:
        if isinstance(request, q.Sleep):
            cluster.failures = 1
            cluster.before = lambda _request: None
            raise KeyboardInterrupt

    cluster.before = before
    with pytest.raises(KeyboardInterrupt):
        drive(run.steps(), cluster.perform)
    assert (run.outcome.done, set(run.outcome.failed.values())) == ([], {"the run was interrupted"})
    assert (cluster.moving, cluster.throttled) == ({}, [])


def test_the_first_interrupt_does_not_end_the_cleanup_after_an_error(cluster: Cluster) -> None:
    """The controller was away for longer than the patience; the operator interrupts the cleanup."""
    run, has_failed = execution(cluster), [False]

    def before(request: q.Request) -> None:
        if isinstance(request, q.Reassign) and not has_failed[0]:
            has_failed[0], cluster.failures = True, 12 * 2  # polls of half a second
        elif isinstance(request, q.AlterConfigs) and run.outcome.left:
            cluster.before = lambda _request: None
            raise KeyboardInterrupt

    cluster.before = before
    with pytest.raises(KeyboardInterrupt):
        drive(run.steps(), cluster.perform)
    assert (cluster.moving, cluster.throttled, run.outcome.is_clean) == ({}, [], True)


def test_a_refused_cancel_is_reported(cluster: Cluster) -> None:
    """The move goes on, without a throttle: the outcome is not clean. The next run waits for it."""
    cluster.is_stuck = True
    stays = min(cluster.places)
    cluster.uncancellable = {stays}
    run = execution(cluster)

    def before(request: q.Request) -> None:
        if isinstance(request, q.Sleep):
            cluster.before = lambda _request: None
            raise KeyboardInterrupt

    cluster.before = before
    with pytest.raises(KeyboardInterrupt):
        drive(run.steps(), cluster.perform)
    assert (run.outcome.is_clean, list(cluster.moving), cluster.throttled) == (False, [stays], [])
    assert "not cancelled: only the added replicas" in run.outcome.failed[stays]


@pytest.mark.parametrize("at", range(0, 40, 3))
def test_an_interrupt_at_any_request_leaves_nothing(cluster: Cluster, at: int) -> None:
    """Ctrl-C before or after any of the requests of a run."""
    run, count = execution(cluster), [0]

    def before(_request: q.Request) -> None:
        count[0] += 1
        if count[0] == at + 1:
            raise KeyboardInterrupt

    cluster.before = before
    with pytest.raises(KeyboardInterrupt):
        drive(run.steps(), cluster.perform)
    assert (cluster.moving, cluster.throttled, run.outcome.is_clean) == ({}, [], True)
    assert len(run.outcome.done) + len(run.outcome.failed) + len(run.outcome.left) == 5


def test_a_dead_target_stops_the_run(cluster: Cluster) -> None:
    """Node 3 dies: its moves are cancelled after ten seconds, and nothing else is begun meanwhile."""
    cluster.is_stuck = True
    on_first_reassign(cluster, lambda: cluster.down.add(3))
    outcome = drive(execution(cluster).steps(), cluster.perform)
    assert outcome.stopped_by == "node 3 is fenced or shutting down"
    assert (len(outcome.failed), len(outcome.left), outcome.done) == (2, 3, [])
    assert 10 <= cluster.now_s < 12
    assert (cluster.moving, cluster.throttled) == ({}, [])


def test_nodes_that_were_down_before_or_leave_do_not_stop_it(cluster: Cluster) -> None:
    """Node 4 was fenced at the start, and node 1 is being removed."""
    cluster.down.add(4)
    on_first_reassign(cluster, lambda: cluster.down.add(1))
    assert len(drive(execution(cluster, ignored=(1,)).steps(), cluster.perform).done) == 5


def test_moves_that_others_end_are_failures(cluster: Cluster) -> None:
    """One is cancelled by another command; the topic of one is deleted, and that of one that has not begun.
    The others are done, and the throttles of deleted topics are no error."""
    cluster.places |= {TopicPartition(topic, 0): (1, 2) for topic in ("gone", "z")}
    cluster.is_stuck = True

    def before(request: q.Request) -> None:
        if isinstance(request, q.ListMoves):
            for place in (TopicPartition("t", 0), TopicPartition("gone", 0)):
                del cluster.moving[place]
            del cluster.places[TopicPartition("gone", 0)], cluster.places[TopicPartition("z", 0)]
            cluster.is_stuck, cluster.before = False, lambda _request: None

    cluster.before = before
    outcome: Outcome = drive(execution(cluster).steps(), cluster.perform)
    assert len(outcome.done) == 4
    assert outcome.failed == {
        TopicPartition("t", 0): "it was cancelled, or another command changed it",
        TopicPartition("gone", 0): "its topic was deleted",
        TopicPartition("z", 0): "its topic was deleted",
    }


# --- what a killed run leaves -------------------------------------------------------------------------


def leave_two_moves(cluster: Cluster) -> None:
    """Two moves in progress, with their throttles, of a run whose process was killed."""
    run = execution(cluster).steps()
    request = next(run)
    while not cluster.moving:
        request = run.send(cluster.perform(request))
    run.close()
    assert (len(cluster.moving), bool(cluster.throttled)) == (2, True)


def test_the_next_run_waits_for_moves_of_a_killed_one(cluster: Cluster) -> None:
    """It waits until they are complete, removes their throttles, and says both."""
    leave_two_moves(cluster)
    drive(settle(cluster.pace), cluster.perform)
    assert (cluster.moving, cluster.throttled) == ({}, [])
    assert [text.partition(";")[0] for text in cluster.said] == [
        "waiting for 2 moves that are in progress",
        "removed the throttles that an interrupted run left on t",
    ]


def test_moves_that_copy_are_waited_for_and_others_are_not(cluster: Cluster) -> None:
    """As long as bytes are copied the patience begins again; then the error names the way out."""
    leave_two_moves(cluster)
    cluster.is_stuck, first = True, next(iter(cluster.moving))

    def before(request: q.Request) -> None:
        if isinstance(request, q.Sleep) and cluster.now_s < 50:
            cluster.sizes[first] = cluster.sizes.get(first, 0) + 1

    cluster.before = before
    with pytest.raises(MovesInProgressError, match=r"t-0; `headrace balance cancel` cancels them"):
        drive(settle(cluster.pace), cluster.perform)
    assert 60 <= cluster.now_s < 62


def test_cancel_removes_what_a_killed_run_left(cluster: Cluster) -> None:
    """`headrace balance cancel`."""
    leave_two_moves(cluster)
    assert drive(cancel_all(None), cluster.perform) == (2, {})
    assert (cluster.moving, cluster.throttled) == ({}, [])


def test_cancel_of_one_topic_keeps_the_throttles_of_others(cluster: Cluster) -> None:
    """Moves of another topic go on under their throttle."""
    leave_two_moves(cluster)
    place = TopicPartition("u", 0)
    cluster.places[place], cluster.moving[place] = (1, 2), [(3, 2), 2]
    cluster.perform(q.AlterConfigs(throttling({place: (3, 2)}, {place: (1, 2)}, 1000)))
    assert drive(cancel_all(frozenset({"t"})), cluster.perform) == (2, {})
    assert list(cluster.moving) == [place]
    assert Resource.topic("t") not in cluster.throttled
    assert {Resource.topic("u"), Resource.broker(1)} <= set(cluster.throttled)
