"""Names, groups and levels of metrics, as Kafka Streams has them."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

CLIENT, THREAD, TASK = "stream-metrics", "stream-thread-metrics", "stream-task-metrics"
STATE_UPDATER, STATE = "stream-state-updater-metrics", "stream-state-metrics"
NODE, TOPIC = "stream-processor-node-metrics", "stream-topic-metrics"
RECORD_CACHE = "stream-record-cache-metrics"

Tags = tuple[tuple[str, str], ...]


class Level(IntEnum):
    """metrics.recording.level: metrics of this level and the ones before it are given."""

    INFO = 0
    DEBUG = 1
    TRACE = 2


class MetricName(NamedTuple):
    """A metric. `tags` are pairs, such as thread-id and task-id, in Kafka's order."""

    name: str
    group: str
    tags: Tags
