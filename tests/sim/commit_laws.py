"""CommittedInTime: with a live, connected min ISR every record in the leader's log commits in bounded time.

A liveness law that must hold during faults, not only after healing. It samples the partitions every
`SAMPLE_MS` of virtual time, plans no event and draws no random number, so it does not change traces.

It applies to a partition while, by the committed metadata, it has a leader and
- the leader and enough other members of the ISR for min.insync.replicas are sound (a process runs, is not
  paused, no fault waits in its disk), and no link between the leader and them is cut;
- a majority of the controllers is sound, and no link among them, or to the leader, is cut;
- none of that, and the state of no other replica (sound or not, linked or not), has changed for the bound:
  each change may start a delay that a config allows. A replica that stays dead, paused or cut off for that
  long must have been fenced, or have left the ISR for its lag, and must not hold up the high watermark.

A second law, HighWatermarkCurrent, has no time bound: see `_check_current`.

The arithmetic of the bound is in `CommitBounds`. All values come from the configs of the run.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.storage_node.replica.isr_changes import RETRY_MS
from sim_node_effects import SILENCE_MS

if TYPE_CHECKING:
    from cluster import SimCluster
    from headrace.controller.config import ControllerConfig
    from headrace.protocol.metadata.image import PartitionRegistration
    from headrace.storage_node.configs.node_config import NodeConfig
    from headrace.storage_node.replica.partition import Partition
    from sim_node import SimNode

SAMPLE_MS = 100
NODE_TICK_MS = 1_000  # sim_node.TICK_MS: each tick looks for lagging followers
# Bound: a chain of at most ten messages and flushes, each far below 100 ms without loss.
ROUND_TRIPS_MS = 1_000


class CommitBounds(NamedTuple):
    """How long a record may stay uncommitted after the last change of the states it depends on, in ms.

    `commit_ms`: the longer of two delays, then the metadata, then messages.
    - A fetch or its answer was lost: the follower waits SILENCE_MS and at most
      replica.fetch.backoff.max.ms before it fetches again.  3000 + 1000 = 4000
    - A member of the ISR does not fetch: it lags after replica.lag.time.max.ms, the next tick of the node
      proposes the shrink, and the proposal may be sent again after controller.request.timeout.ms and
      RETRY_MS.  1500 + 1000 + 1000 + 50 = 3550. The end of its session may remove it sooner, but can take
      up to broker.session.timeout.max.ms, so the bound does not count on that.
    - The leader learns of the change with its next FetchMetadata, or after a lost one:
      metadata.fetch.max.wait.ms + controller.request.timeout.ms + controller.backoff.max.ms.
      500 + 1000 + 200 = 1700
    Together 4000 + 1700 + 1000 = 6700.

    `election_ms`, on top, after a change among the controllers: two rounds of elections, each of
    controller.quorum.fetch.timeout.ms, at most twice controller.quorum.election.timeout.ms, and
    controller.quorum.election.backoff.max.ms.  2 * (2000 + 2000 + 1000) = 10000
    """

    commit_ms: int
    election_ms: int

    @classmethod
    def of(cls, node: NodeConfig, controller: ControllerConfig) -> CommitBounds:
        """The bounds of a cluster with these configs."""
        fetched_ms = SILENCE_MS + node.replica_fetch_backoff_max_ms
        proposed_ms = node.controller_request_timeout_ms + RETRY_MS
        lagged_ms = node.replica_lag_time_max_ms + NODE_TICK_MS + proposed_ms
        learned_ms = (
            node.metadata_max_wait_ms + node.controller_request_timeout_ms + node.controller_backoff_max_ms
        )
        round_ms = (
            controller.quorum_fetch_timeout_ms
            + 2 * controller.quorum_election_timeout_ms
            + controller.quorum_election_backoff_max_ms
        )
        commit_ms = max(fetched_ms, lagged_ms) + learned_ms + ROUND_TRIPS_MS
        return cls(commit_ms, 2 * round_ms)


class _Uncommitted:
    """The uncommitted records of one leadership, as (when first seen, log end offset then), oldest first."""

    __slots__ = ("ends", "leadership", "live_since_ms")

    def __init__(self, leadership: tuple[int, int]) -> None:
        self.leadership = leadership  # (leader epoch, process number of the leader)
        self.ends: deque[tuple[int, int]] = deque()
        self.live_since_ms: int | None = None  # time since which min ISR members are live, None: they are not


class CommitLaw:
    """Samples health and high watermarks, and asserts CommittedInTime."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster, self._world = cluster, cluster.world
        self.next_ms = 0
        self._health: dict[str, tuple[int, bool]] = {}  # (process number, is sound) by server
        self._changed_ms: dict[str, int] = {}  # time of its last change
        self._uncommitted: dict[tuple[bytes, int], _Uncommitted] = {}
        self.bounds = CommitBounds.of(next(iter(cluster.nodes.values())).config, cluster.config)

    def check(self) -> None:
        """Called after the first event at or after `next_ms`. Errors: AssertionError for a broken law."""
        now_ms = self._world.now_ms
        self.next_ms = now_ms + SAMPLE_MS
        cluster = self._cluster
        for process in (*cluster.controllers.values(), *cluster.nodes.values()):
            health = (process.life, process.is_sound)
            if self._health.get(process.name) != health:
                self._health[process.name], self._changed_ms[process.name] = health, now_ms
        for name, topic in cluster.rules.image.topics.items():
            for number, registration in enumerate(topic.partitions):
                key = (topic.topic_id, number)
                leader = cluster.nodes.get(registration.leader)
                partition = None if leader is None or leader.core is None else leader.partition_of(key)
                if leader is None or partition is None:
                    self._uncommitted.pop(key, None)
                else:
                    self._sample((name, number), registration, leader, partition)

    def _sample(
        self,
        name: tuple[str, int],
        registration: PartitionRegistration,
        leader: SimNode,
        partition: Partition,
    ) -> None:
        now_ms, log = self._world.now_ms, partition.log
        if log is None or log.is_offline or partition.high_watermark >= log.log_end_offset:
            self._uncommitted.pop(partition.key, None)
            return
        leadership = (registration.leader_epoch, leader.life)
        waiting = self._uncommitted.get(partition.key)
        if waiting is None or waiting.leadership != leadership:
            waiting = self._uncommitted[partition.key] = _Uncommitted(leadership)
        ends = waiting.ends
        while ends and ends[0][1] <= partition.high_watermark:
            ends.popleft()
        if not ends or ends[-1][1] < log.log_end_offset:
            ends.append((now_ms, log.log_end_offset))
        self._check_current(leader, partition)
        if not self._has_live_min_isr(registration, leader, partition):
            waiting.live_since_ms = None
            return
        if waiting.live_since_ms is None:
            waiting.live_since_ms = now_ms
        bound_ms = self.bounds.commit_ms
        waits_ms = now_ms - max(ends[0][0], waiting.live_since_ms)
        if waits_ms > bound_ms and self._is_steady(registration, leader):
            raise AssertionError(
                f"CommittedInTime: {name} on {leader.name}, epoch {registration.leader_epoch}, ISR "
                f"{registration.isr}: offset {partition.high_watermark} of {log.log_end_offset} waits for "
                f"{waits_ms} ms, the bound is {bound_ms} ms"
            )

    def _check_current(self, leader: SimNode, partition: Partition) -> None:
        """HighWatermarkCurrent: between events a leader's high watermark is what the leader itself computes
        from its followers, its ISR and its image at its last tick: it reacts to every change of these
        inputs."""
        in_sync, log, context = partition.in_sync, partition.log, partition.context
        if in_sync is None or log is None or not partition.is_leader:
            return
        end = in_sync.committed_end(
            partition.safe_end_offset,
            log.log_end_offset,
            partition.min_isr,
            leader.ticked_ms,
            context.is_eligible,
        )
        assert end <= partition.high_watermark, (
            f"HighWatermarkCurrent: {partition.topic_partition} on {leader.name} stays at "
            f"{partition.high_watermark}, although {end} are committed"
        )

    def _has_live_min_isr(
        self, registration: PartitionRegistration, leader: SimNode, partition: Partition
    ) -> bool:
        cluster = self._cluster
        if not self._is_sound(leader):
            return False
        live = 1
        for node_id in registration.isr:
            node = cluster.nodes[node_id]
            if node is not leader and self._is_sound(node) and not self._is_cut(leader.name, node.name):
                held = node.partition_of(partition.key)
                live += held is not None and held.is_online
        return live >= min(cluster.plan.min_isr, len(registration.replicas))

    def _is_steady(self, registration: PartitionRegistration, leader: SimNode) -> bool:
        """Whether the last change is longer ago than every delay that configs allow."""
        network, bounds, now_ms = self._cluster.network, self.bounds, self._world.now_ms
        for node_id in sorted({*registration.replicas, *registration.isr}):
            node = self._cluster.nodes[node_id]
            changed_ms = self._changed_ms[node.name]
            if node is not leader:
                changed_ms = max(changed_ms, network.changed_ms(leader.name, node.name))
            if now_ms - changed_ms <= bounds.commit_ms:
                return False
        return self._is_quorum_steady(leader)

    def _is_quorum_steady(self, leader: SimNode) -> bool:
        controllers = list(self._cluster.controllers.values())
        sound = [each for each in controllers if self._is_sound(each)]
        if 2 * len(sound) <= len(controllers):
            return False
        links = [(leader.name, each.name) for each in sound]
        links += [(one.node_id, other.node_id) for one in sound for other in sound if one is not other]
        if any(self._is_cut(*link) for link in links):
            return False
        changes_ms = [self._changed_ms[each.name] for each in controllers]
        changes_ms += [self._cluster.network.changed_ms(*link) for link in links]
        return self._world.now_ms - max(changes_ms) > self.bounds.commit_ms + self.bounds.election_ms

    def _is_sound(self, process: Any) -> bool:
        return self._health[process.name][1]

    def _is_cut(self, one: Any, other: Any) -> bool:
        network = self._cluster.network
        return network.is_cut(one, other) or network.is_cut(other, one)
