"""Removes a storage node for good: its replicas, its leaderships, its process, its registration.

Every step is a state to be reached, and finds out for itself what is left: the next removal continues an
interrupted one. Order: the node is cordoned first, so that it gets no new replicas, and stops only when it
has none. Its config is deleted before its registration: a later node with the same id starts without it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...clients.admin.admin_types import NodeState, Resource
from ...protocol.errors import BrokerIdNotRegisteredError, HeadraceError
from ...runtime.waiting_io import let_pass
from .facts_io import describe_all, facts_of, is_reassigning
from .model import Limits
from .planner import plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.sync.admin_io import Admin
    from .model import Plan
    from .runner_io import Pace

CORDON = "cordoned.log.dirs"
ALL_DIRS = "*"
MAX_TOPICS = 10  # Bound: names in a message
MAX_ROUNDS = 100  # Bound: plans; each moves what the one before could not


class NodeRemovalError(HeadraceError):
    """The node cannot be removed now."""


class Removal:
    """One removal. `move` carries out a plan, `stop` ends the process of the node."""

    def __init__(
        self,
        admin: Admin,
        node_id: int,
        pace: Pace,
        *,
        move: Callable[[Plan], None],
        stop: Callable[[], None],
        report: Callable[[str], None],
        max_moves: int | None = None,
    ) -> None:
        self._admin, self._node_id, self._pace = admin, node_id, pace
        self._move, self._stop, self._report = move, stop, report
        self._max_moves = max_moves

    def proposal(self) -> Plan:
        """The moves that empty the node. Errors: NodeRemovalError with the topics for which the other nodes
        do not suffice; BrokerIdNotRegisteredError."""
        self.state()
        made = plan(
            facts_of(self._admin, 0).snapshot,
            Limits(evacuated=frozenset({self._node_id}), goals=(), max_moves=self._max_moves),
        )
        if made.stuck:
            raise NodeRemovalError(self._why(made))
        return made

    def state(self) -> NodeState:
        """The state of the node. Errors: BrokerIdNotRegisteredError."""
        nodes = self._admin.describe_cluster(include_fenced=True).nodes
        found = next((node.state for node in nodes if node.node_id == self._node_id), None)
        if found is None:
            raise BrokerIdNotRegisteredError(f"node {self._node_id} is not registered")
        return found

    def run(self) -> None:
        """Remove the node. After an error or interrupt before its stop, it serves as before, with the
        replicas that it still has. Errors: NodeRemovalError; those of the client."""
        self._wait_for_others()
        self.proposal()
        is_cordoned = self._cordon()
        try:
            self._empty()
        except BaseException:
            if is_cordoned:
                self.uncordon()
            raise
        self._stop()
        self._wait_until_fenced()
        self.uncordon()
        self._admin.unregister_broker(self._node_id)
        self._report(f"node {self._node_id} is unregistered")

    def uncordon(self) -> None:
        """Let the node get new replicas again. Errors: those of the client."""
        self._admin.alter_configs({Resource.broker(self._node_id): {CORDON: None}}).raise_for_errors()

    def _cordon(self) -> bool:
        """Whether it was not cordoned before. Errors: those of the client."""
        resource = Resource.broker(self._node_id)
        if self.state() is NodeState.FENCED:
            return False
        before = self._admin.describe_configs(resource)[resource].get(CORDON)
        if before is not None and before.value == ALL_DIRS:
            return False
        self._admin.alter_configs({resource: {CORDON: ALL_DIRS}}).raise_for_errors()
        return True

    def _empty(self) -> None:
        """Move until the node has no replica: topics may be created meanwhile, until the cordon works."""
        for _ in range(MAX_ROUNDS):
            held = self._held()
            if not held:
                return
            self._report(f"node {self._node_id} has {held} replicas")
            made = self.proposal()
            self._move(made)
        raise NodeRemovalError(f"node {self._node_id} has still {self._held()} replicas")

    def _held(self) -> int:
        return sum(self._node_id in part.replicas for part in describe_all(self._admin))

    def _wait_for_others(self) -> None:
        """Wait for moves of the node's partitions that are in progress, of an earlier run that was killed.
        Errors: NodeRemovalError if they make no progress."""
        until_s, before = time.monotonic() + self._pace.patience_s, -1
        while True:
            moving = [
                part
                for part in describe_all(self._admin)
                if is_reassigning(part) and self._node_id in part.replicas
            ]
            if not moving:
                return
            if len(moving) != before:
                until_s, before = time.monotonic() + self._pace.patience_s, len(moving)
                self._report(f"waiting for {before} moves that are in progress")
            if time.monotonic() > until_s:
                raise NodeRemovalError(
                    f"{before} moves in progress do not end; `headrace balance cancel` cancels them"
                )
            let_pass(self._pace.poll_s)

    def _wait_until_fenced(self) -> None:
        """Errors: NodeRemovalError if the node still runs after `patience_s`."""
        until_s = time.monotonic() + self._pace.patience_s
        while self.state() is not NodeState.FENCED:
            if time.monotonic() > until_s:
                raise NodeRemovalError(f"node {self._node_id} was stopped, but still sends heartbeats")
            let_pass(self._pace.poll_s)

    def _why(self, made: Plan) -> str:
        topics = sorted({place.topic for place in made.stuck})
        place, reason = next(iter(made.stuck.items()))
        more = f" and {len(topics) - MAX_TOPICS} more" if len(topics) > MAX_TOPICS else ""
        return (
            f"node {self._node_id} cannot be removed: {len(made.stuck)} of its partitions cannot move, of the"
            f" topics {', '.join(topics[:MAX_TOPICS])}{more}; {place}: {reason}"
        )
