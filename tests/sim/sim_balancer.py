"""An operator of a simulated cluster that balances it and empties nodes, with the production runs of
services/balance; the commands are interrupted (Ctrl-C) and killed at random, between any two events.

Reads of metadata are those of a random node, so they may be old. The laws are in balance_laws.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from balance_laws import GOALS, BalanceLaws, facts_in, throttled_topics
from headrace.clients.admin.admin_types import AlterConfig, NodeState, Resource
from headrace.protocol.errors import (
    HeadraceError,
    InvalidReplicaAssignmentError,
    KafkaError,
    NetworkError,
    NotControllerError,
    error_from_code,
)
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import (
    AlterConfigs,
    AlterPartitionReassignmentsRequest,
    ConfigChange,
    ConfigResource,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from headrace.protocol.messages.data import DescribeClusterRequest, MetadataRequest
from headrace.protocol.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from headrace.protocol.model import TopicPartition
from headrace.services.balance import requests as q
from headrace.services.balance.execution import Execution, cancel_all, settle
from headrace.services.balance.model import Limits
from headrace.services.balance.planner import plan
from headrace.services.balance.removal import Removal
from headrace.services.balance.watching import Thresholds, Watch
from sim_clients import SimClient

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence

    from cluster import SimCluster
    from headrace.services.balance.model import Facts, Nodes, Plan
    from headrace.services.balance.requests import Request, Steps

OTHERS = ("reassign", "grow")  # faults by which others place replicas: the laws would not hold
OPERATIONS = {"set": 0, "append": 2}
FAST, SLOW = 100_000, 2_000  # throttles in bytes per second: above and below the traffic of a partition
STEP_GAP_MS = 900  # mean time between two actions of the operator


class Command:
    """One command in progress. `is_balance`: its plans bring racks no closer together."""

    def __init__(
        self, operator: SimBalancer, name: str, steps: Steps[Any], pace: q.Pace, *, is_balance: bool = False
    ) -> None:
        self._operator, self.name, self._pace = operator, name, pace
        self.is_balance = is_balance
        self._is_interrupted = False
        self.error: BaseException | None = None
        self._stack = [steps]
        self._ticket = 0  # responses to earlier requests are dropped
        self._pending: Request | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return bool(self._stack)

    def begin(self) -> None:
        """Make the first request."""
        self._go_on(None, None)

    def interrupt(self) -> None:
        """Ctrl-C: the command cleans up; a second one ends that."""
        self._note_lost()
        if self._is_interrupted:
            self._operator.laws.on_killed()
        self._is_interrupted = True
        self._go_on(None, KeyboardInterrupt())

    def kill(self) -> None:
        """SIGKILL: nothing is cleaned up."""
        self._note_lost()
        self._operator.laws.on_killed()
        self._ticket += 1
        self._stack.clear()

    def _note_lost(self) -> None:
        if isinstance(self._pending, (q.Reassign, q.AlterConfigs, q.ElectPreferred)):
            self._operator.laws.on_lost(self._pending)

    def answer(self, ticket: int, response: Any) -> None:
        """The response to a request, or its error."""
        if ticket != self._ticket:
            return
        if isinstance(response, NetworkError):
            self._note_lost()
        if isinstance(self._pending, q.Reassign) and isinstance(response, dict):
            cancelled = [response.get(place) for place, to in self._pending.targets.items() if to is None]
            if any(isinstance(error, InvalidReplicaAssignmentError) for error in cancelled):
                self._operator.laws.on_refused()
        is_error = isinstance(response, BaseException)
        self._go_on(None if is_error else response, response if is_error else None)

    def _go_on(self, answer: Any, error: BaseException | None) -> None:
        self._ticket += 1
        while self._stack:
            steps = self._stack[-1]
            try:
                request = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as end:
                self._stack.pop()
                answer, error = end.value, None
            except (HeadraceError, ExceptionGroup, KeyboardInterrupt) as raised:
                self._stack.pop()
                answer, error = None, raised
            else:
                answer = error = None
                if isinstance(request, q.CarryOut):
                    self._operator.marks["plan carried out"] += bool(request.plan.moves)
                    self._stack.append(Execution(request.plan.moves, self._pace, lambda _size: None).steps())
                    continue
                self._pending = request
                self._operator.perform(request, self, self._ticket)
                return
        self.error = error
        self._operator.ended(self)


class SimBalancer(SimClient):
    """The operator. At most one command runs at a time."""

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__(cluster, "balancer")
        self.marks: Counter[str] = cluster.rules.marks
        self.laws = BalanceLaws(self)
        self.command: Command | None = None
        self.is_on = True
        self._max_concurrent = self.random.choice((1, 2, 3))
        self.cordoned: int | None = None  # the node that the last removal emptied
        self._is_slow = False
        # The commands of the recovery; the second balance has the metadata after the first one.
        self._last = ["empty", "uncordon", "balance", "balance"]
        self._final: Command | None = None

    @property
    def max_concurrent(self) -> int:
        """The partitions that a command moves at once."""
        return self._max_concurrent

    def _poll(self) -> None:
        """An action at random."""
        if not self.is_on:
            return
        command = self.command
        if command is None:
            self._start(self.random.choice(("balance", "balance", "empty", "watch", "cancel")))
        elif self.random.random() < 0.15:
            self.marks["balance interrupted"] += 1
            command.interrupt()
        elif self.random.random() < 0.15:
            self.marks["balance killed"] += 1
            command.kill()
            self.command = None
        self._timer = self.world.after(
            1 + int(self.random.expovariate(1 / STEP_GAP_MS)), "balancer acts", self._poll
        )

    def end(self) -> None:
        """The recovery: an interrupt ends the command that runs; then a node is emptied, and the cluster is
        balanced, without one."""
        self.is_on = False
        if self.command is not None:
            self.command.interrupt()
        else:
            self._go_on()

    def is_done(self) -> bool:
        """Condition: the last balance has ended."""
        return not self._last

    def _finish(self) -> None:
        if self._is_slow:  # moves of a killed command may be slower than the producers
            self._start("cancel")
        elif self.cordoned is not None and self._last[0] != "uncordon":
            self._start("uncordon")  # after a removal during the faults
        else:
            self._start(self._last[0])

    def ended(self, command: Command) -> None:
        """A command has ended, also with an error; one of the recovery is repeated then."""
        self.world.note(f"{command.name} ends: {command.error!r}")
        self.laws.on_ended(command)
        self.command = None
        is_complete = command.error is None
        self.marks[f"{command.name} complete"] += is_complete
        if is_complete and command.name == "uncordon":
            self.cordoned = None
        if is_complete and command.name == "cancel":
            self._is_slow = False
        if self.is_on:
            return
        if is_complete and not self._is_slow and command.name == self._last[0] and command is self._final:
            del self._last[0]
        if self._last:
            self.world.after(200, "balancer goes on", self._go_on)
        else:
            self.laws.at_end()

    def _go_on(self) -> None:
        self._finish()
        self._final = self.command

    # --- commands -----------------------------------------------------------------------------------------

    def _start(self, name: str) -> None:
        if name == "empty" and self.cordoned is not None:
            name = "uncordon"
        throttle = self.random.choice((None, FAST, SLOW, SLOW) if self.is_on else (None, FAST))
        self._is_slow |= throttle == SLOW
        pace = q.Pace(
            lambda: self.world.now_ms / 1000,
            throttle,
            self._max_concurrent,
            patience_s=self.random.choice((3.0, 10.0)) if self.is_on else 30.0,
            poll_s=0.2,
        )
        steps: Steps[Any]
        if name == "balance":
            steps = _balance(pace)
        elif name == "empty":
            self.cordoned = self.random.choice(sorted(self.cluster.nodes))
            steps = Removal(self.cordoned, pace).empty()
        elif name == "watch":
            thresholds = Thresholds(0.25, 2, settle_s=0.5, interval_s=0.3)
            steps = Watch(Limits(goals=GOALS), thresholds, pace).steps()
        elif name == "uncordon":
            assert self.cordoned is not None
            steps = Removal(self.cordoned, pace).uncordon()
        else:
            steps = cancel_all(None)
        self.world.note(f"{name} begins")
        self.command = Command(self, name, steps, pace, is_balance=name in ("balance", "watch"))
        self.command.begin()

    # --- requests -----------------------------------------------------------------------------------------

    def perform(self, request: Request, command: Command, ticket: int) -> None:
        """Send a request of a command over the network, or read what needs no request."""

        def done(response: Any) -> None:
            command.answer(ticket, response)

        def later(response: Any) -> None:
            self.world.after(1, "balancer reads", lambda: done(response))

        if isinstance(request, q.Sleep):
            self.world.after(int(request.seconds * 1000), "balancer sleeps", lambda: done(None))
        elif isinstance(request, q.Report):
            self.world.note(f"balancer: {request.text}")
            later(None)
        elif isinstance(request, q.ReadNodes):
            self._ask_node(registry.DESCRIBE_CLUSTER, DescribeClusterRequest(True), _states, done)
        elif isinstance(request, q.ReadReplicas):
            self._ask_node(
                registry.METADATA, MetadataRequest(request.topics), lambda found: _replicas(found), done
            )
        elif isinstance(request, q.ReadFacts):
            later(self._facts())
        elif isinstance(request, q.ReadSizes):
            later({place: self._sizes(place, nodes) for place, nodes in request.copies.items()})
        elif isinstance(request, q.ReadThrottled):
            later(frozenset(throttled_topics(self.cluster.rules.image)))
        elif isinstance(request, q.ReadConfig):
            later(self._config(request.resource, request.name))
        else:
            self._ask_controller(request, done)

    def _ask_node(self, api: Any, body: Any, read: Callable[[Any], Any], done: Callable[[Any], None]) -> None:
        def answered(response: Any, _frames: Sequence[bytes]) -> None:
            done(response if isinstance(response, KafkaError) else read(response))

        self.ask(self.random.choice(sorted(self.cluster.nodes)), api, body, (), answered)

    def _ask_controller(self, request: Request, done: Callable[[Any], None]) -> None:
        if isinstance(request, q.ListMoves):
            wanted = None if request.places is None else _by_topic(request.places)
            api, body = registry.LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest(wanted)
            read: Callable[[Any], Any] = _moves
        elif isinstance(request, q.Reassign):
            api, body, read = registry.ALTER_PARTITION_REASSIGNMENTS, _reassignments(request), _refused
        elif isinstance(request, q.AlterConfigs):
            api, body, read = registry.INCREMENTAL_ALTER_CONFIGS, _altered(request.changes), _checked
        elif isinstance(request, q.ElectPreferred):
            api, read = registry.ELECT_LEADERS, lambda _found: None
            body = ElectLeadersRequest(0, _by_topic(request.places))
        else:
            raise AssertionError(f"not performed here: {request}")

        def answered(response: Any) -> None:
            if not isinstance(response, KafkaError):
                try:
                    response = read(response)
                except (KafkaError, ExceptionGroup) as error:
                    response = error
            done(response)

        if not self.cluster.ask_controller(api, body, answered):
            self.world.after(50, "no controller", lambda: done(NotControllerError("no controller is active")))

    # --- reads --------------------------------------------------------------------------------------------

    def _facts(self) -> Facts:
        """The cluster as a random live node knows it."""
        nodes = [node for node in self.cluster.nodes.values() if node.is_alive and node.core is not None]
        image = self.random.choice(nodes).running.image if nodes else self.cluster.rules.image
        return facts_in(image)

    def _sizes(self, place: TopicPartition, nodes: Nodes) -> list[int]:
        logs = [self.cluster.nodes[node_id].log_of((place.topic, place.partition)) for node_id in nodes]
        return [log.size_bytes for log in logs if log is not None]

    def _config(self, resource: Resource, name: str) -> str | None:
        kind = TOPIC_RESOURCE if resource.kind == "topic" else BROKER_RESOURCE
        return self.cluster.rules.image.configs.get((kind, resource.name), {}).get(name)


def _balance(pace: q.Pace) -> Steps[None]:
    """As `headrace balance --execute`."""
    yield from settle(pace)
    facts: Facts = yield q.ReadFacts()
    made: Plan = plan(facts.snapshot, Limits(goals=GOALS))
    yield q.CarryOut(made)


# --- messages -----------------------------------------------------------------------------------------------


def _states(response: Any) -> dict[int, NodeState]:
    def state(node: Any) -> NodeState:
        if node.is_fenced:
            return NodeState.FENCED
        return NodeState.SHUTTING_DOWN if node.in_controlled_shutdown else NodeState.ACTIVE

    return {node.node_id: state(node) for node in response.nodes}


def _replicas(response: Any) -> dict[TopicPartition, Nodes]:
    return {
        TopicPartition(topic.name, part.partition): tuple(part.replicas)
        for topic in response.topics
        if not topic.error_code
        for part in topic.partitions
    }


def _moves(response: Any) -> dict[TopicPartition, Nodes]:
    _raise_for(response)
    return {TopicPartition(each.topic, each.partition): each.adding_replicas for each in response.ongoing}


def _reassignments(request: q.Reassign) -> AlterPartitionReassignmentsRequest:
    topics: dict[str, list[ReassignablePartition]] = {}
    for place, nodes in request.targets.items():
        topics.setdefault(place.topic, []).append(ReassignablePartition(place.partition, nodes))
    return AlterPartitionReassignmentsRequest(
        tuple(ReassignableTopic(name, tuple(parts)) for name, parts in topics.items())
    )


def _refused(response: Any) -> dict[TopicPartition, KafkaError]:
    _raise_for(response)
    return {
        TopicPartition(each.topic, each.partition): error_from_code(each.error_code)
        for each in response.results
        if each.error_code
    }


def _altered(changes: Mapping[Any, Mapping[str, Any]]) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        tuple(
            AlterConfigs(
                ConfigResource(TOPIC_RESOURCE if item.kind == "topic" else BROKER_RESOURCE, item.name),
                tuple(_change(name, value) for name, value in values.items()),
            )
            for item, values in changes.items()
        )
    )


def _change(name: str, value: Any) -> ConfigChange:
    if value is None:
        return ConfigChange(name, 1)
    if isinstance(value, AlterConfig):
        return ConfigChange(name, OPERATIONS[value.operation], ",".join(value.value))
    return ConfigChange(name, OPERATIONS["set"], str(value))


def _checked(response: Any) -> None:
    errors = [error_from_code(each.error_code) for each in response.results if each.error_code]
    if errors:
        raise ExceptionGroup("configs", errors)


def _raise_for(response: Any) -> None:
    if response.error_code:
        raise error_from_code(response.error_code)


def _by_topic(places: Sequence[TopicPartition]) -> tuple[TopicPartitions, ...]:
    found: dict[str, list[int]] = {}
    for place in places:
        found.setdefault(place.topic, []).append(place.partition)
    return tuple(TopicPartitions(name, tuple(numbers)) for name, numbers in found.items())
