"""The node's defaults of the topic configs, under Kafka's broker names.

Source: Kafka ServerTopicConfigSynonyms.java.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import ConfigError
from ...runtime.config import HOUR, MAX_INT, MINUTE, Config, declared, key
from .config import LogConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

C = TypeVar("C", bound=Config)

# Keys that replace a key that is not set, in order of precedence.
STAND_INS: dict[str, tuple[str, ...]] = {
    "log.retention.ms": ("log.retention.minutes", "log.retention.hours"),
    "log.roll.ms": ("log.roll.hours",),
    "log.roll.jitter.ms": ("log.roll.jitter.hours",),
}


def _default_of(topic_key: str, name: str, *, unset: str = "") -> Any:
    """Declare the broker key `name`, with the range of the topic key, as its default. With `unset` the key is
    optional: the name of the key that replaces it."""
    doc = f"Default of {topic_key}{f'; unset: {unset}' if unset else ''}."
    declaration = replace(LogConfig.keys()[topic_key], name=name, doc=doc, default_of=topic_key)
    return declared(declaration, None if unset else LogConfig.defaults()[topic_key])


@dataclass(frozen=True, kw_only=True)
class LogDefaults(Config):
    """Keys of a node that apply to topics without a value of their own."""

    log_segment_bytes: int = _default_of("segment.bytes", "log.segment.bytes")
    log_roll_ms: int | None = _default_of("segment.ms", "log.roll.ms", unset="log.roll.hours")
    log_roll_hours: int = key(
        "log.roll.hours", 7 * 24, low=1, high=MAX_INT, unit="h", doc="Where log.roll.ms is not set."
    )
    log_roll_jitter_ms: int | None = _default_of(
        "segment.jitter.ms", "log.roll.jitter.ms", unset="log.roll.jitter.hours"
    )
    log_roll_jitter_hours: int = key(
        "log.roll.jitter.hours", 0, low=0, high=MAX_INT, unit="h", doc="Where log.roll.jitter.ms is not set."
    )
    log_index_size_max_bytes: int = _default_of("segment.index.bytes", "log.index.size.max.bytes")
    log_index_interval_bytes: int = _default_of("index.interval.bytes", "log.index.interval.bytes")
    message_max_bytes: int = _default_of("max.message.bytes", "message.max.bytes")
    log_message_timestamp_type: str = _default_of("message.timestamp.type", "log.message.timestamp.type")
    log_message_timestamp_before_max_ms: int = _default_of(
        "message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"
    )
    log_message_timestamp_after_max_ms: int = _default_of(
        "message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"
    )
    min_insync_replicas: int = _default_of("min.insync.replicas", "min.insync.replicas")
    compression_type: str = _default_of("compression.type", "compression.type")
    compression_gzip_level: int = _default_of("compression.gzip.level", "compression.gzip.level")
    compression_lz4_level: int = _default_of("compression.lz4.level", "compression.lz4.level")
    compression_zstd_level: int = _default_of("compression.zstd.level", "compression.zstd.level")
    log_flush_interval_messages: int = _default_of("flush.messages", "log.flush.interval.messages")
    log_flush_interval_ms: int = _default_of("flush.ms", "log.flush.interval.ms")
    log_preallocate: bool = _default_of("preallocate", "log.preallocate")
    log_durability: str = _default_of("durability", "log.durability")
    log_cleanup_policy: tuple[str, ...] = _default_of("cleanup.policy", "log.cleanup.policy")
    log_retention_ms: int | None = _default_of(
        "retention.ms", "log.retention.ms", unset="log.retention.minutes"
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
    log_retention_bytes: int = _default_of("retention.bytes", "log.retention.bytes")
    log_segment_delete_delay_ms: int = _default_of("file.delete.delay.ms", "log.segment.delete.delay.ms")
    log_cleaner_delete_retention_ms: int = _default_of(
        "delete.retention.ms", "log.cleaner.delete.retention.ms"
    )
    log_cleaner_min_cleanable_ratio: float = _default_of(
        "min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"
    )
    log_cleaner_min_compaction_lag_ms: int = _default_of(
        "min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"
    )
    log_cleaner_max_compaction_lag_ms: int = _default_of(
        "max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.log_defaults()
        if self._retention_ms() == 0:
            raise ConfigError("log.retention.ms, .minutes and .hours are -1 for ever, or at least 1")

    def log_defaults(self) -> LogConfig:
        """The topic configs of this node, without any topic's own values."""
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


# Broker key: topic key that it is the default of.
TOPIC_KEY_SYNONYMS: dict[str, str] = {
    declaration.name: declaration.default_of
    for declaration in LogDefaults.keys().values()
    if declaration.default_of
}


def effective_log_config(
    defaults: LogConfig, overrides: Mapping[str, Any]
) -> tuple[LogConfig, tuple[str, ...]]:
    """`defaults` merged with a topic's own values, and messages about values that were not applied.

    A key or value that this node does not know must not stop it: the metadata log may come from a newer
    controller. The default applies.
    """
    known = LogConfig.keys()
    values = {name: overrides[name] for name in sorted(overrides) if name in known}
    return merged_as_far_as_possible(defaults, values)


def merged_as_far_as_possible(config: C, values: Mapping[str, Any]) -> tuple[C, tuple[str, ...]]:
    """`config` with all `values` if they are valid together; otherwise with those that can be applied one by
    one, and messages about the others."""
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
