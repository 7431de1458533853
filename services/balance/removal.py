"""Removes a storage node for good: its replicas, its leaderships, its process, its registration. Pure.

Every step is a state to be reached, and finds out for itself what is left: the next removal continues an
interrupted one. Order: the node is cordoned first, so that it gets no new replicas, and stops only when it
has none. Its config is deleted before its registration: a later node with the same id starts without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...clients.admin.admin_types import NodeState, Resource
from ...protocol.errors import BrokerIdNotRegisteredError, HeadraceError
from .execution import settle
from .model import Limits
from .planner import plan
from .requests import (
    AlterConfigs,
    CarryOut,
    ReadConfig,
    ReadFacts,
    ReadNodes,
    ReadReplicas,
    Report,
    Sleep,
    StopNode,
    Unregister,
)

if TYPE_CHECKING:
    from .model import Plan
    from .requests import Pace, Steps

CORDON = "cordoned.log.dirs"
ALL_DIRS = "*"
MAX_TOPICS = 10  # Bound: names in a message
MAX_ROUNDS = 100  # Bound: plans; each moves what the one before could not


class NodeRemovalError(HeadraceError):
    """The node cannot be removed now."""


class Removal:
    """One removal. `max_moves`: partitions of one plan."""

    def __init__(self, node_id: int, pace: Pace, max_moves: int | None = None) -> None:
        self._node_id, self._pace, self._max_moves = node_id, pace, max_moves

    def proposal(self) -> Steps[Plan]:
        """The moves that empty the node. Errors: NodeRemovalError with the topics for which the other nodes
        do not suffice; BrokerIdNotRegisteredError."""
        yield from self._state()
        facts = yield ReadFacts()
        limits = Limits(evacuated=frozenset({self._node_id}), goals=(), max_moves=self._max_moves)
        made = plan(facts.snapshot, limits)
        if made.stuck:
            raise NodeRemovalError(self._why(made))
        return made

    def steps(self) -> Steps[None]:
        """Remove the node. After an error or interrupt before its stop, it serves as before, with the
        replicas that it still has. Errors: NodeRemovalError; those of requests."""
        yield from self.empty()
        yield StopNode(self._node_id)
        yield from self._wait_until_fenced()
        yield from self.uncordon()
        yield Unregister(self._node_id)
        yield Report(f"node {self._node_id} is unregistered")

    def empty(self) -> Steps[None]:
        """Cordon the node, and move all its replicas. Errors: as `steps`."""
        yield from settle(self._pace)
        yield from self.proposal()
        is_cordoned = yield from self._cordon()
        try:
            yield from self._move_all()
        except GeneratorExit:  # the process has ended
            raise
        except BaseException:
            if is_cordoned:
                yield from self._pace.insist(self.uncordon)
            raise

    def uncordon(self) -> Steps[None]:
        """Let the node get new replicas again."""
        yield AlterConfigs({Resource.broker(self._node_id): {CORDON: None}})

    def _state(self) -> Steps[NodeState]:
        """Errors: BrokerIdNotRegisteredError."""
        nodes = yield ReadNodes()
        if self._node_id not in nodes:
            raise BrokerIdNotRegisteredError(f"node {self._node_id} is not registered")
        state: NodeState = nodes[self._node_id]
        return state

    def _cordon(self) -> Steps[bool]:
        """Whether it was not cordoned before."""
        resource = Resource.broker(self._node_id)
        if (yield from self._state()) is NodeState.FENCED:
            return False
        if (yield ReadConfig(resource, CORDON)) == ALL_DIRS:
            return False
        yield AlterConfigs({resource: {CORDON: ALL_DIRS}})
        return True

    def _move_all(self) -> Steps[None]:
        """Move until the node has no replica: topics may be created meanwhile, until the cordon works."""
        held = 0
        for _ in range(MAX_ROUNDS):
            held = yield from self._held()
            if not held:
                return
            yield Report(f"node {self._node_id} has {held} replicas")
            made = yield from self.proposal()
            yield CarryOut(made)
        raise NodeRemovalError(f"node {self._node_id} has still {held} replicas")

    def _held(self) -> Steps[int]:
        replicas = yield ReadReplicas()
        return sum(self._node_id in each for each in replicas.values())

    def _wait_until_fenced(self) -> Steps[None]:
        """Errors: NodeRemovalError if the node still runs after `patience_s`."""
        until_s = self._pace.clock() + self._pace.patience_s
        while (yield from self._state()) is not NodeState.FENCED:
            if self._pace.clock() > until_s:
                raise NodeRemovalError(f"node {self._node_id} was stopped, but still sends heartbeats")
            yield Sleep(self._pace.poll_s)

    def _why(self, made: Plan) -> str:
        topics = sorted({place.topic for place in made.stuck})
        place, reason = next(iter(made.stuck.items()))
        more = f" and {len(topics) - MAX_TOPICS} more" if len(topics) > MAX_TOPICS else ""
        return (
            f"node {self._node_id} cannot be removed: {len(made.stuck)} of its partitions cannot move, of the"
            f" topics {', '.join(topics[:MAX_TOPICS])}{more}; {place}: {reason}"
        )
