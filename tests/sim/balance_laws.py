"""The laws of balances and removals in a simulated cluster, checked with each newer committed image.

- ReplicationFactor: no partition has fewer target replicas than it was created with.
- RackSpread: a balance never moves a partition to fewer racks; in the end each is in as many as it can be.
- MovesBounded: at most `max_concurrent` partitions move, besides those of requests without a response.
- NothingLeft: a run that has ended has neither moves nor throttles, unless a response was lost, and the run
  after a killed one has removed what that left.
- EmptiedNode: a node whose removal got that far has no replica.
- RunEnds, Converged: each run ends, and after a complete balance the planner proposes nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headrace.protocol.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from headrace.protocol.model import TopicPartition
from headrace.services.balance import requests as q
from headrace.services.balance.model import Facts, Health, Limits, NodeFacts, PartitionFacts, Snapshot
from headrace.services.balance.planner import plan
from headrace.services.balance.removal import ALL_DIRS, CORDON
from headrace.services.replication_throttle import FETCHING, RATES, SENDING

if TYPE_CHECKING:
    from headrace.protocol.metadata.image import MetadataImage, PartitionRegistration
    from headrace.services.balance.model import Nodes
    from headrace.services.balance.requests import Request
    from sim_balancer import Command, SimBalancer

GOALS = ("rack", "replicas", "leaders")
SIZE = 1_000  # bytes of each partition for the planner: the real sizes change while it plans


class BalanceLaws:
    """The laws of the module's docstring, checked with each newer committed image."""

    def __init__(self, operator: SimBalancer) -> None:
        self._operator, self._cluster = operator, operator.cluster
        self._offset = -1
        self._factors: dict[tuple[bytes, int], int] = {}
        self._targets: dict[tuple[bytes, int], Nodes] = {}
        self._lost: set[TopicPartition] = set()  # of Reassign requests without a response
        self._has_remains = False  # a command could not clean up, and no later one is complete
        # A lost request, or a second copy of one, may set throttles or begin moves at any time.
        self._is_tainted = not operator.cluster.plan.weather.is_ordered

    def on_lost(self, request: Request) -> None:
        """A request has no response: it may be carried out later."""
        self._is_tainted = True
        if isinstance(request, q.Reassign):
            self._lost |= request.targets.keys()

    def on_refused(self) -> None:
        """The controller has refused to cancel a move, because only added replicas are in sync."""
        self._has_remains = True

    def on_killed(self) -> None:
        """The process of a command was killed."""
        self._has_remains = True

    def check(self) -> None:
        """After every event."""
        image = self._cluster.rules.image
        if image.offset == self._offset:
            return
        self._offset = image.offset
        racks = racks_of(image)
        moving = set()
        for name, topic in image.topics.items():
            for number, part in enumerate(topic.partitions):
                key, target = (topic.topic_id, number), target_of(part)
                where = f"{name}-{number}: {part}"
                factor = self._factors.setdefault(key, len(target))
                assert len(set(target)) >= factor, f"ReplicationFactor: {where}, created with {factor}"
                before = self._targets.get(key, target)
                self._targets[key] = target
                command = self._operator.command
                if target != before and command is not None and command.is_balance and not self._is_tainted:
                    width = len({racks.get(n) for n in target}), len({racks.get(n) for n in before})
                    assert width[0] >= width[1], f"RackSpread: {where}, before {before}"
                if part.adding_replicas or part.removing_replicas:
                    moving.add(TopicPartition(name, number))
        count = len(moving - self._lost)
        assert count <= self._operator.max_concurrent, f"MovesBounded: {sorted(moving)}"
        self._operator.marks["moving"] += bool(moving)

    def on_ended(self, command: Command) -> None:
        """A command has ended by itself or after an interrupt."""
        image = self._cluster.rules.image
        if command.name == "uncordon" or self._is_tainted:
            return
        if command.error is None:
            self._has_remains = False
        elif not isinstance(command.error, KeyboardInterrupt):
            self._has_remains = True  # no controller has answered for the patience of the command
        if self._has_remains:
            return  # an interrupted command has perhaps not settled what an earlier one left
        self._operator.marks["left nothing"] += 1
        node_id = self._operator.cordoned
        if command.name == "empty" and command.error is None:
            held = [
                f"{name}-{number}"
                for name, topic in image.topics.items()
                for number, part in enumerate(topic.partitions)
                if node_id in part.replicas and not name.startswith("x")  # created until the cordon is known
            ]
            assert not held, f"EmptiedNode: node {node_id} has {held}"
        left = sorted(throttled_topics(image)), moves_in(image)
        assert left == ([], []), f"NothingLeft: {command.name} left throttles and moves of {left}"

    def at_end(self) -> None:
        """After the last balance."""
        image = self._cluster.rules.image
        left = sorted(throttled_topics(image)), moves_in(image)
        assert left == ([], []), f"NothingLeft: the last run left throttles and moves of {left}"
        rates = [key for key, values in image.configs.items() if not values.keys().isdisjoint(RATES)]
        assert not rates, f"NothingLeft: {rates}"
        made = plan(facts_in(image).snapshot, Limits(goals=GOALS))
        assert not made.moves, f"Converged: {made.moves}"
        racks = racks_of(image)
        for name, topic in image.topics.items():
            for number, part in enumerate(topic.partitions):
                width = min(len(part.replicas), len(set(racks.values())))
                assert len({racks[n] for n in part.replicas}) == width, f"RackSpread: {name}-{number} {part}"


def target_of(part: PartitionRegistration) -> Nodes:
    """The replicas after the reassignment in progress."""
    return tuple(n for n in part.replicas if n not in part.removing_replicas)


def racks_of(image: MetadataImage) -> dict[int, str | None]:
    """The rack of each node."""
    return {node_id: broker.rack for node_id, broker in image.brokers.items()}


def moves_in(image: MetadataImage) -> list[TopicPartition]:
    """The partitions that are being reassigned."""
    return [
        TopicPartition(name, number)
        for name, topic in image.topics.items()
        for number, part in enumerate(topic.partitions)
        if part.adding_replicas or part.removing_replicas
    ]


def throttled_topics(image: MetadataImage) -> set[str]:
    """The topics that have a list of throttled replicas."""
    return {
        name
        for (kind, name), values in image.configs.items()
        if kind == TOPIC_RESOURCE and name in image.topics and (values.get(SENDING) or values.get(FETCHING))
    }


def facts_in(image: MetadataImage) -> Facts:
    """What the planner gets, with equal sizes and no traffic."""
    cordoned = {
        name
        for (kind, name), values in image.configs.items()
        if kind == BROKER_RESOURCE and values.get(CORDON) == ALL_DIRS
    }
    nodes = tuple(
        NodeFacts(
            node_id,
            broker.rack,
            is_active=not broker.is_fenced and not broker.in_controlled_shutdown,
            is_cordoned=str(node_id) in cordoned,
        )
        for node_id, broker in sorted(image.brokers.items())
    )
    partitions = []
    counts = Counter[str]()
    for name, topic in image.topics.items():
        for number, part in enumerate(topic.partitions):
            is_moving = bool(part.adding_replicas or part.removing_replicas)
            is_in_sync = set(part.replicas) <= set(part.isr)
            is_copyable = part.leader >= 0 and not is_moving
            partitions.append(
                PartitionFacts(
                    TopicPartition(name, number),
                    target_of(part),
                    part.leader,
                    SIZE,
                    is_movable=is_copyable and is_in_sync,
                    is_copyable=is_copyable,
                )
            )
            counts["offline"] += part.leader < 0
            counts["reassigning"] += is_moving
            counts["under-replicated"] += not is_in_sync and not is_moving
    health = Health(
        tuple(node.node_id for node in nodes if not node.is_active),
        (),
        counts["offline"],
        counts["under-replicated"],
        counts["reassigning"],
    )
    return Facts(Snapshot(nodes, tuple(partitions)), health)
