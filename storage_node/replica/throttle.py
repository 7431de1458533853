"""How fast replicas that catch up may be fed, so that a reassignment leaves room for everybody else. Pure.

A leader holds back what it sends, a follower what it asks for: each by one rate for all its throttled
replicas, those that leader. and follower.replication.throttled.replicas name for this node. Members of the
ISR are never throttled: acknowledgements wait for them.
Source: Kafka ReplicationQuotaManager.scala; KIP-73.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.config import MAX_LONG

if TYPE_CHECKING:
    from ..configs.live_config import LiveConfig
    from ..configs.node_config import NodeConfig

_BURST_MS = 1_000
_LOOK_AGAIN_MS = 1_000  # the rate may be another one by then


class Throttle:
    """A bucket of bytes that fills at `rate` bytes/s, up to what a second brings.

    Whoever finds something in it may take more than that, and the next ones wait for it: so a batch of any
    size passes, and the rate holds over time.
    """

    __slots__ = ("_at_ms", "_room", "rate")

    def __init__(self) -> None:
        self.rate = MAX_LONG
        self._room = 0.0
        self._at_ms = 0

    def has_room(self, now_ms: int) -> bool:
        """Whether something may pass now."""
        if self.rate == MAX_LONG:
            return True
        self._fill(now_ms)
        return self._room > 0

    def take(self, size_bytes: int, now_ms: int) -> None:
        """So much has passed."""
        if self.rate != MAX_LONG:
            self._fill(now_ms)
            self._room -= size_bytes

    def room_ms(self, now_ms: int) -> int:
        """When to ask `has_room` again, after it said no."""
        self._fill(now_ms)
        wait_ms = -self._room * 1_000 / self.rate if self.rate else _LOOK_AGAIN_MS
        return now_ms + 1 + int(min(wait_ms, _LOOK_AGAIN_MS))

    def limit(self, rate: int) -> None:
        """Another rate; what was taken too much counts on."""
        self.rate = rate

    def _fill(self, now_ms: int) -> None:
        gained = max(now_ms - self._at_ms, 0) * self.rate / 1_000
        self._room = min(self._room + gained, self.rate * _BURST_MS / 1_000)
        self._at_ms = max(now_ms, self._at_ms)


class Throttles:
    """All of one node: of replicas that are fed, that fetch, and that move between its log dirs."""

    def __init__(self, config: LiveConfig) -> None:
        """With the rates of `config`, as they are and as they change."""
        self.leader = Throttle()
        self.follower = Throttle()
        self.mover = Throttle()
        self._limit(config.now)
        config.on_change(
            (
                "leader.replication.throttled.rate",
                "follower.replication.throttled.rate",
                "replica.alter.log.dirs.io.max.bytes.per.second",
            ),
            self._limit,
        )

    def _limit(self, config: NodeConfig) -> None:
        self.leader.limit(config.leader_replication_throttled_rate)
        self.follower.limit(config.follower_replication_throttled_rate)
        self.mover.limit(config.replica_alter_log_dirs_io_max_bytes_per_second)


def is_named(throttled_replicas: tuple[str, ...], partition: int, node_id: int) -> bool:
    """Whether a topic's list of throttled replicas has that of `node_id`."""
    return "*" in throttled_replicas or f"{partition}:{node_id}" in throttled_replicas
