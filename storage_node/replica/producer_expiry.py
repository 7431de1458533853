"""Expires the state of inactive producers, a bounded number of logs per step. Pure.

Leaders and followers expire by the timestamps of records, so that their states stay about the same.
Source: Kafka UnifiedLog.java producerExpireCheck.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..configs.live_config import LiveConfig
    from ..configs.node_config import NodeConfig
    from .partition import PartitionKey
    from .partition_table import PartitionTable

# Bound: per step (about a second): producers that are checked, where a log counts for ten.
_CHECKED_PRODUCERS, _LOG_WEIGHT = 20_000, 10


class ProducerExpiry:
    """See the module's docstring."""

    def __init__(self, table: PartitionTable, config: LiveConfig) -> None:
        self._table = table
        self._config = config
        self._next_round_ms: int | None = None
        self._to_check: deque[PartitionKey] = deque()
        config.on_change(("producer.id.expiration.check.interval.ms",), self._interval_changed)

    def _interval_changed(self, _config: NodeConfig) -> None:
        self._next_round_ms = None

    def step(self, now_ms: int, wall_ms: int) -> None:
        """Continue a round, or start the next one if it is due. Called about each second."""
        config = self._config.now
        if self._next_round_ms is None:
            self._next_round_ms = now_ms + config.producer_id_expiration_check_interval_ms
        if now_ms >= self._next_round_ms:
            self._next_round_ms = now_ms + config.producer_id_expiration_check_interval_ms
            self._to_check = self._to_check or deque(self._table.partitions)
        left = _CHECKED_PRODUCERS
        while self._to_check and left > 0:
            partition = self._table.partitions.get(self._to_check.popleft())
            left -= _LOG_WEIGHT
            if partition is not None and partition.log is not None and partition.is_online:
                left -= len(partition.log.producers.states)
                partition.log.producers.states.expire(wall_ms - config.producer_id_expiration_ms)
