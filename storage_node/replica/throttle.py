"""Replication throttles, so that a reassignment leaves bandwidth for clients. Pure.

A leader delays responses, a follower its fetches: each by one rate for all throttled replicas, those in
leader.replication.throttled.replicas and follower.replication.throttled.replicas. Members of the ISR are
never throttled: acknowledgements wait for them. Source: Kafka ReplicationQuotaManager.scala; KIP-73.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.config import MAX_LONG

if TYPE_CHECKING:
    from ..configs.live_config import LiveConfig
    from ..configs.node_config import NodeConfig

_BURST_MS = 1_000
_LOOK_AGAIN_MS = 1_000  # the rate may have changed by then


class Throttle:
    """A token bucket that fills at `rate` bytes/s, up to the bytes of one second.

    While it has tokens more than those may be taken, and later callers wait: a batch of any size passes, and
    the rate holds over time.
    """

    __slots__ = ("_at_ms", "_room", "rate")

    def __init__(self) -> None:
        self.rate = MAX_LONG
        self._room = 0.0
        self._at_ms = 0

    def has_room(self, now_ms: int) -> bool:
        """Whether bytes may be transferred now."""
        if self.rate == MAX_LONG:
            return True
        self._fill(now_ms)
        return self._room > 0

    def take(self, size_bytes: int, now_ms: int) -> None:
        """Count transferred bytes."""
        if self.rate != MAX_LONG:
            self._fill(now_ms)
            self._room -= size_bytes

    def room_ms(self, now_ms: int) -> int:
        """When `has_room` may be true again."""
        self._fill(now_ms)
        wait_ms = -self._room * 1_000 / self.rate if self.rate else _LOOK_AGAIN_MS
        return now_ms + 1 + int(min(wait_ms, _LOOK_AGAIN_MS))

    def limit(self, rate: int) -> None:
        """Change the rate; a debt remains."""
        self.rate = rate

    def _fill(self, now_ms: int) -> None:
        gained = max(now_ms - self._at_ms, 0) * self.rate / 1_000
        self._room = min(self._room + gained, self.rate * _BURST_MS / 1_000)
        self._at_ms = max(now_ms, self._at_ms)


class Throttles:
    """The throttles of one node: as leader, as follower, and for moves between log dirs."""

    def __init__(self, config: LiveConfig) -> None:
        """The rates follow `config`."""
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
    """Whether a topic's list of throttled replicas includes that of `node_id`."""
    return "*" in throttled_replicas or f"{partition}:{node_id}" in throttled_replicas
