"""A node's defaults of the topic keys, under Kafka's broker names.

Source: Kafka ServerTopicConfigSynonyms.java.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import ConfigError
from ...runtime.config import DAY, GIB, HOUR, MAX_INT, MAX_LONG, MIB, MINUTE, Config, key
from .config import LogConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

C = TypeVar("C", bound=Config)

# Broker key: topic key that it is the default of.
TOPIC_KEY_SYNONYMS: dict[str, str] = {
    "log.segment.bytes": "segment.bytes",
    "log.roll.ms": "segment.ms",
    "log.roll.jitter.ms": "segment.jitter.ms",
    "log.index.size.max.bytes": "segment.index.bytes",
    "log.index.interval.bytes": "index.interval.bytes",
    "message.max.bytes": "max.message.bytes",
    "log.message.timestamp.type": "message.timestamp.type",
    "log.message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms": "message.timestamp.after.max.ms",
    "min.insync.replicas": "min.insync.replicas",
    "compression.type": "compression.type",
    "log.flush.interval.messages": "flush.messages",
    "log.flush.interval.ms": "flush.ms",
    "log.preallocate": "preallocate",
    "log.durability": "durability",
    "log.cleanup.policy": "cleanup.policy",
    "log.retention.ms": "retention.ms",
    "log.retention.bytes": "retention.bytes",
    "log.segment.delete.delay.ms": "file.delete.delay.ms",
    "log.cleaner.delete.retention.ms": "delete.retention.ms",
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms",
    "log.cleaner.max.compaction.lag.ms": "max.compaction.lag.ms",
}
# Keys of a node's own file that stand in for one that it does not set, the stronger ones first.
STAND_INS: dict[str, tuple[str, ...]] = {
    "log.retention.ms": ("log.retention.minutes", "log.retention.hours"),
    "log.roll.ms": ("log.roll.hours",),
    "log.roll.jitter.ms": ("log.roll.jitter.hours",),
}


@dataclass(frozen=True, kw_only=True)
class LogDefaults(Config):
    """Keys of a node that stand in where a topic has no value of its own."""

    log_segment_bytes: int = key(
        "log.segment.bytes",
        1 * GIB,
        low=MIB,
        high=MAX_INT,
        unit="bytes",
        live=True,
        doc="Default of segment.bytes.",
    )
    log_roll_ms: int | None = key(
        "log.roll.ms", None, low=1, unit="ms", live=True, doc="Default of segment.ms; unset: log.roll.hours."
    )
    log_roll_hours: int = key(
        "log.roll.hours", 7 * 24, low=1, high=MAX_INT, unit="h", doc="Where log.roll.ms is not set."
    )
    log_roll_jitter_ms: int | None = key(
        "log.roll.jitter.ms",
        None,
        low=0,
        unit="ms",
        live=True,
        doc="Default of segment.jitter.ms; unset: log.roll.jitter.hours.",
    )
    log_roll_jitter_hours: int = key(
        "log.roll.jitter.hours", 0, low=0, high=MAX_INT, unit="h", doc="Where log.roll.jitter.ms is not set."
    )
    log_index_size_max_bytes: int = key(
        "log.index.size.max.bytes",
        10 * MIB,
        low=4,
        unit="bytes",
        live=True,
        doc="Default of segment.index.bytes.",
    )
    log_index_interval_bytes: int = key(
        "log.index.interval.bytes",
        4096,
        low=0,
        unit="bytes",
        live=True,
        doc="Default of index.interval.bytes.",
    )
    message_max_bytes: int = key(
        "message.max.bytes",
        MIB + 12,
        low=0,
        high=MAX_INT,
        unit="bytes",
        live=True,
        doc="Default of max.message.bytes.",
    )
    log_message_timestamp_type: str = key(
        "log.message.timestamp.type",
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        live=True,
        doc="Default of message.timestamp.type.",
    )
    log_message_timestamp_before_max_ms: int = key(
        "log.message.timestamp.before.max.ms",
        MAX_LONG,
        low=0,
        unit="ms",
        live=True,
        doc="Default of message.timestamp.before.max.ms.",
    )
    log_message_timestamp_after_max_ms: int = key(
        "log.message.timestamp.after.max.ms",
        1 * HOUR,
        low=0,
        unit="ms",
        live=True,
        doc="Default of message.timestamp.after.max.ms.",
    )
    min_insync_replicas: int = key(
        "min.insync.replicas",
        1,
        low=1,
        live=True,
        doc="Replicas that must hold a record before acks=all is answered.",
    )
    compression_type: str = key(
        "compression.type", "producer", choices=("producer",), live=True, doc="Default of compression.type."
    )
    log_flush_interval_messages: int = key(
        "log.flush.interval.messages", MAX_LONG, low=1, live=True, doc="Default of flush.messages."
    )
    log_flush_interval_ms: int = key(
        "log.flush.interval.ms", MAX_LONG, low=0, unit="ms", live=True, doc="Default of flush.ms."
    )
    log_preallocate: bool = key("log.preallocate", False, live=True, doc="Default of preallocate.")
    log_durability: str = key(
        "log.durability",
        "async",
        choices=("async", "fsync"),
        live=True,
        doc="Default of durability: fsync acknowledges only what is on the disk.",
    )
    log_cleanup_policy: tuple[str, ...] = key(
        "log.cleanup.policy",
        ("delete",),
        choices=("delete", "compact"),
        live=True,
        doc="Default of cleanup.policy.",
    )
    log_retention_ms: int | None = key(
        "log.retention.ms",
        None,
        low=-1,
        unit="ms",
        live=True,
        doc="Default of retention.ms, -1 for ever; unset: log.retention.minutes.",
    )
    log_retention_minutes: int | None = key(
        "log.retention.minutes",
        None,
        low=-1,
        high=MAX_INT,
        unit="min",
        doc="Where log.retention.ms is not set; unset: log.retention.hours.",
    )
    log_retention_hours: int = key(
        "log.retention.hours",
        7 * 24,
        low=-1,
        high=MAX_INT,
        unit="h",
        doc="Where neither log.retention.ms nor log.retention.minutes is set; -1 for ever.",
    )
    log_retention_bytes: int = key(
        "log.retention.bytes", -1, low=-1, unit="bytes", live=True, doc="Default of retention.bytes."
    )
    log_segment_delete_delay_ms: int = key(
        "log.segment.delete.delay.ms",
        1 * MINUTE,
        low=0,
        unit="ms",
        live=True,
        doc="Default of file.delete.delay.ms.",
    )
    log_cleaner_delete_retention_ms: int = key(
        "log.cleaner.delete.retention.ms",
        1 * DAY,
        low=0,
        unit="ms",
        live=True,
        doc="Default of delete.retention.ms.",
    )
    log_cleaner_min_cleanable_ratio: float = key(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        low=0,
        high=1,
        live=True,
        doc="Default of min.cleanable.dirty.ratio.",
    )
    log_cleaner_min_compaction_lag_ms: int = key(
        "log.cleaner.min.compaction.lag.ms",
        0,
        low=0,
        unit="ms",
        live=True,
        doc="Default of min.compaction.lag.ms.",
    )
    log_cleaner_max_compaction_lag_ms: int = key(
        "log.cleaner.max.compaction.lag.ms",
        MAX_LONG,
        low=1,
        unit="ms",
        live=True,
        doc="Default of max.compaction.lag.ms.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.log_defaults()
        if self._retention_ms() == 0:
            raise ConfigError("log.retention.ms, .minutes and .hours are -1 for ever, or at least 1")

    def log_defaults(self) -> LogConfig:
        """The topic keys as this node sets them, before any topic's own."""
        values = self.to_mapping()
        values["log.retention.ms"] = self._retention_ms()
        if self.log_roll_ms is None:
            values["log.roll.ms"] = self.log_roll_hours * HOUR
        if self.log_roll_jitter_ms is None:
            values["log.roll.jitter.ms"] = self.log_roll_jitter_hours * HOUR
        return LogConfig.of({topic: values[broker] for broker, topic in TOPIC_KEY_SYNONYMS.items()})

    def _retention_ms(self) -> int:
        """Milliseconds before minutes before hours. Source: Kafka AbstractKafkaConfig.java."""
        if self.log_retention_ms is not None:
            return self.log_retention_ms
        if self.log_retention_minutes is not None:
            return max(self.log_retention_minutes * MINUTE, -1)
        return max(self.log_retention_hours * HOUR, -1)


def effective_log_config(
    defaults: LogConfig, overrides: Mapping[str, Any]
) -> tuple[LogConfig, tuple[str, ...]]:
    """`defaults` with a topic's own values over them, and what could not be applied, in words.

    A key or value that this node does not know must not stop it: the metadata log may come from a newer
    controller. It is left out, and its default stays.
    """
    known = LogConfig.keys()
    values = {name: overrides[name] for name in sorted(overrides) if name in known}
    return merged_as_far_as_possible(defaults, values)


def merged_as_far_as_possible(config: C, values: Mapping[str, Any]) -> tuple[C, tuple[str, ...]]:
    """`config` with all `values`, if they go together; else with those that can be applied one by one, and
    what could not, in words."""
    try:
        return config.merged(values), ()
    except ConfigError:
        faults = []
    for name, value in values.items():
        try:
            config = config.merged({name: value})
        except ConfigError as error:
            faults.append(f"{name} is not usable: {error}")
    return config, tuple(faults)
