"""Failure detection in simulation: the controller's core and the nodes' memberships, with stalls.

Heartbeat responses wait for the metadata log, whose disk may take seconds; nodes and the controller stall;
processes are killed, with an end of their connection or, like a failed machine, without it. Laws:
- LiveNodeIsNotFenced: a node that never stalls for longer than SHORT_STALL_MS is not fenced, however slow the
  disk of the metadata log and the controller are.
- SlowLogIsNoLateness: the session timeout of such a node grows only a little.
- LateNodeIsFencedOnce: equal stalls, longer than broker.session.timeout.ms, fence a node once, not each time.
- DeadNodeIsFenced: a killed process is fenced within broker.session.timeout.ms after its connection ended, a
  failed machine within broker.session.timeout.max.ms, both plus two ticks and network delays.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.controller.config import ControllerConfig
from headrace.controller.controller import Controller, tick_interval_ms
from headrace.controller.state.heartbeat_delays import FACTOR
from headrace.protocol.messages.control import BrokerHeartbeatRequest, BrokerRegistrationRequest
from headrace.protocol.metadata.features import OWN_RANGES
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.records import NoOpRecord
from headrace.runtime.effect_performer import EffectPerformer, ignore, on
from headrace.storage_node.links import membership as m
from world import World

if TYPE_CHECKING:
    from collections.abc import Callable

NODES = (1, 2, 3)
REQUEST_TIMEOUT_MS = 2_000
NETWORK_MS = 5
SHORT_STALL_MS = 1_100
SLACK_MS = 300  # the delay that the network and controller stalls may add to a measured heartbeat delay
TIMES = m.MembershipTimes(0, 50, 1_000, 10_000, 5_000)


@dataclass(frozen=True)
class Plan:
    """The longest delays of one run, in ms."""

    disk_ms: int = 0
    node_stall_ms: tuple[int, int] = (0, 0)  # shortest and longest
    controller_stall_ms: int = 0
    duration_ms: int = 60_000


SHORT = Plan(disk_ms=4_000, node_stall_ms=(0, SHORT_STALL_MS), controller_stall_ms=4_000)
LONG = Plan(disk_ms=1_000, node_stall_ms=(1_700, 1_900))


@dataclass
class Node:
    """One process: its membership, and whether it runs."""

    node_id: int
    core: m.Membership = field(default_factory=lambda: m.Membership(TIMES))
    timers: dict[str, Any] = field(default_factory=dict)
    awake_at_ms: int = 0
    is_dead: bool = False


class DetectionSim:
    """One run. `run` raises AssertionError with the name of the broken law."""

    def __init__(self, seed: int, plan: Plan) -> None:
        self.world, self.plan = World(seed), plan
        self.random = self.world.stream("late")
        self.config = ControllerConfig.of({"metadata.log.dir": "/m"})
        self.core = Controller(self.config, random.Random(seed), MetadataImage(), 0)
        self.core.apply(0, self.core.decide_format("c"))
        self.nodes = {node_id: Node(node_id) for node_id in NODES}
        self._performers = {node_id: self._performer(node) for node_id, node in self.nodes.items()}
        self.marks: Counter[str] = Counter()
        self.false_alarms: Counter[int] = Counter()
        self.is_fenced: dict[int, bool] = {}
        self._committed_at_ms = 0
        self._controller_awake_at_ms = 0
        self._arrived: list[Callable[[], None]] = []
        self._is_calm = False  # no more stalls: the time until fencing is measured

    # --- the run ------------------------------------------------------------------------------------------

    def run(self) -> DetectionSim:
        """Run with stalls for a while, then kill one process and one machine."""
        for node in self.nodes.values():
            self._performers[node.node_id].perform_all(node.core.start())
            self.world.after(2_000 + self.random.randrange(3_000), "stall", lambda n=node: self._stall(n))
        self._tick()
        self._write()
        self.world.after(3_000, "controller stall", self._stall_controller)
        self.world.run(self.plan.duration_ms)
        self._is_calm = True
        self.world.run(10_000)
        for node_id, is_process in ((1, True), (2, False)):
            self._die(self.nodes[node_id], is_process=is_process)
        return self

    def _die(self, node: Node, *, is_process: bool) -> None:
        """End a process. Its kernel closes the connection, unless the machine failed too."""
        assert not self.core.image.brokers[node.node_id].is_fenced, "LiveNodeIsNotFenced: no node stalled"
        node.is_dead = True
        broker_epoch, config = node.core.broker_epoch, self.config
        limit_ms = config.broker_session_timeout_max_ms
        if is_process:
            limit_ms = config.broker_session_timeout_ms
            self.world.after(
                NETWORK_MS,
                "connection ends",
                lambda: self.core.note_disconnected(node.node_id, broker_epoch, self.world.now_ms),
            )
        limit_ms += NETWORK_MS + 2 * tick_interval_ms(config)
        died = self.world.run(limit_ms, until=lambda: self.core.image.brokers[node.node_id].is_fenced)
        assert died, f"DeadNodeIsFenced: node {node.node_id} is not fenced after {limit_ms} ms"
        self.marks["died"] += 1

    def _stall(self, node: Node) -> None:
        shortest, longest = self.plan.node_stall_ms
        if longest and not self._is_calm:
            node.awake_at_ms = self.world.now_ms + self.random.randint(shortest, longest)
            self.marks["stalls"] += 1
        self.world.after(3_000 + self.random.randrange(3_000), "stall", lambda: self._stall(node))

    def _stall_controller(self) -> None:
        if self.plan.controller_stall_ms and not self._is_calm:
            stall_ms = self.random.randrange(self.plan.controller_stall_ms)
            self._controller_awake_at_ms = self.world.now_ms + stall_ms
            self.marks["controller stalls"] += stall_ms > self.config.broker_session_timeout_ms
        self.world.after(6_000 + self.random.randrange(4_000), "controller stall", self._stall_controller)

    # --- the controller -----------------------------------------------------------------------------------

    def _tick(self) -> None:
        now_ms = self.world.now_ms
        if now_ms < self._controller_awake_at_ms:
            self.world.after(self._controller_awake_at_ms - now_ms, "tick", self._tick)
            return
        self.core.tick(now_ms)
        arrived, self._arrived = self._arrived, []
        for handle in arrived:  # an event loop runs its timers before it reads its sockets
            self.world.after(NETWORK_MS, "read late", handle)
        while records := self.core.decide_expiry(now_ms):
            self._append(records)
        self._check_timeouts(now_ms)
        self.world.after(tick_interval_ms(self.config), "tick", self._tick)

    def _check_timeouts(self, now_ms: int) -> None:
        if self.plan.node_stall_ms[1] > SHORT_STALL_MS:
            return
        longest_ms = self.config.broker_heartbeat_interval_ms + FACTOR * (SHORT_STALL_MS + SLACK_MS)
        for node_id in NODES:
            timeout_ms = self.core.sessions.timeout_ms(node_id, now_ms)
            assert timeout_ms <= longest_ms, (
                f"SlowLogIsNoLateness: node {node_id} may be silent for {timeout_ms} ms"
            )

    def _write(self) -> None:
        """Append other decisions twice a second: heartbeat responses wait for their flush."""
        if self.world.now_ms >= self._controller_awake_at_ms and not self._is_calm:
            self._append((NoOpRecord(),))
        self.world.after(500, "write", self._write)

    def _append(self, records: Any) -> None:
        """Apply records immediately; they are committed in order when the disk has synced them."""
        self.core.apply(self.core.image.offset + 1, records)
        self.core.check()
        delay_ms = 0 if self._is_calm else self.random.randrange(self.plan.disk_ms + 1)
        self._committed_at_ms = max(self._committed_at_ms, self.world.now_ms + delay_ms)
        offset = self.core.image.offset
        for node in self.nodes.values():
            wait_ms = self._committed_at_ms - self.world.now_ms + NETWORK_MS
            self.world.after(wait_ms, "metadata", lambda n=node: self._feed(n, m.MetadataApplied(offset)))
        for node_id, broker in self.core.image.brokers.items():
            if broker.is_fenced and not self.is_fenced.get(node_id, True):
                self._note_fenced(self.nodes[node_id])
            self.is_fenced[node_id] = broker.is_fenced

    def _note_fenced(self, node: Node) -> None:
        if node.is_dead:
            return
        self.false_alarms[node.node_id] += 1
        if self.plan.node_stall_ms[1] <= SHORT_STALL_MS:
            raise AssertionError(f"LiveNodeIsNotFenced: node {node.node_id} at {self.world.now_ms}")
        if self.false_alarms[node.node_id] > 1:
            raise AssertionError(f"LateNodeIsFencedOnce: node {node.node_id} at {self.world.now_ms}")

    def _ask(self, node: Node, body: Any, answered: Callable[[Any], m.Event], late: m.Event | None) -> None:
        state = {"is_open": True}

        def decide() -> None:
            decision = self.core.decide(body, self.world.now_ms)
            if decision.records:
                self._append(decision.records)
            wait_ms = max(0, self._committed_at_ms - self.world.now_ms) + NETWORK_MS
            self.marks["slow answers"] += wait_ms > self.config.broker_session_timeout_ms
            self.world.after(wait_ms, "answer", lambda: finish(answered(decision.reply)))

        def finish(event: m.Event | None) -> None:
            if state["is_open"] and event is not None:
                state["is_open"] = False
                self._feed(node, event)

        def arrive() -> None:
            if self.world.now_ms < self._controller_awake_at_ms:
                self._arrived.append(decide)
            else:
                decide()

        self.world.after(NETWORK_MS, "request", arrive)
        if late is not None:
            self.world.after(REQUEST_TIMEOUT_MS, "timeout", lambda: finish(late))

    # --- the nodes ----------------------------------------------------------------------------------------

    def _feed(self, node: Node, event: m.Event) -> None:
        """Step the node's core with an event after its stall; not if the process has ended."""
        wait_ms = node.awake_at_ms - self.world.now_ms
        if wait_ms > 0:
            self.world.after(wait_ms, "awake", lambda: self._feed(node, event))
        elif not node.is_dead:
            self._performers[node.node_id].perform_all(node.core.step(event, self.world.now_ms))
            node.core.check()

    def _performer(self, node: Node) -> EffectPerformer:
        return EffectPerformer(
            m.Effect,
            on(m.FindController, lambda _: self._connect(node)),
            on(
                m.SendRegistration,
                lambda _: self._ask(node, self._registration(node), m.RegistrationAnswered, None),
            ),
            on(m.SendHeartbeat, lambda effect: self._send_heartbeat(node, effect)),
            on(m.SetTimer, lambda effect: self._set_timer(node, effect)),
            *(on(kind, ignore) for kind in (m.AdoptIdentity, m.FollowMetadata, m.ShutdownAllowed, m.Failed)),
        )

    def _connect(self, node: Node) -> None:
        self.world.after(NETWORK_MS, "connected", lambda: self._feed(node, m.Connected()))

    def _send_heartbeat(self, node: Node, effect: m.SendHeartbeat) -> None:
        body = BrokerHeartbeatRequest(
            node.node_id, effect.broker_epoch, node.core.metadata_offset, want_shutdown=effect.want_shutdown
        )
        answered = functools.partial(m.HeartbeatAnswered, sent_ms=effect.sent_ms)
        self._ask(node, body, answered, m.HeartbeatFailed())

    def _set_timer(self, node: Node, effect: m.SetTimer) -> None:
        if effect.key in node.timers:
            node.timers[effect.key].cancel()
        wait_ms = max(0, effect.deadline_ms - self.world.now_ms)
        node.timers[effect.key] = self.world.after(
            wait_ms, f"timer {effect.key}", lambda: self._feed(node, m.TimerFired(effect.key))
        )

    @staticmethod
    def _registration(node: Node) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            node.node_id, "", bytes([node.node_id]) * 16, "h", 9_000, features=OWN_RANGES
        )
