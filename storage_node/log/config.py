"""Keys of one partition's log: Kafka's names and defaults, and headrace's durability class.

Only keys that have an effect are declared. Source: Kafka TopicConfig.java, LogConfig.java.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from ...protocol.errors import ConfigError
from ...protocol.records.compression import (
    GZIP_DEFAULT_LEVEL,
    LZ4_DEFAULT_LEVEL,
    ZSTD_DEFAULT_LEVEL,
    check_level,
)
from ...protocol.records.header import Compression
from ...runtime.config import DAY, HOUR, MAX_INT, MAX_LONG, MIB, MINUTE, Config, key

PRODUCER = "producer"
_CODECS = {
    "uncompressed": Compression.NONE,
    "zstd": Compression.ZSTD,
    "lz4": Compression.LZ4,
    "snappy": Compression.SNAPPY,
    "gzip": Compression.GZIP,
}
COMPRESSION_TYPES = (*_CODECS, PRODUCER)  # Source: Kafka BrokerCompressionType.java

# The first must not exceed the second.
_ORDERED_KEYS = (("min.compaction.lag.ms", "max.compaction.lag.ms"), ("segment.jitter.ms", "segment.ms"))
# Keys whose value may be refused because of another key.
RELATED_KEYS = frozenset(name for pair in _ORDERED_KEYS for name in pair)


@dataclass(frozen=True, kw_only=True)
class LogConfig(Config):
    """Keys of one partition's log; a topic may override each."""

    segment_bytes: int = key(
        "segment.bytes",
        1024 * MIB,
        low=MIB,
        high=MAX_INT,
        unit="bytes",
        live=True,
        doc="Roll the active segment before it would grow past this.",
    )
    segment_ms: int = key(
        "segment.ms",
        7 * DAY,
        low=1,
        high=MAX_LONG,
        unit="ms",
        live=True,
        doc="Roll the active segment once its first batch is this much older than the one arriving.",
    )
    segment_jitter_ms: int = key(
        "segment.jitter.ms",
        0,
        low=0,
        high=MAX_LONG,
        unit="ms",
        live=True,
        doc="Roll up to this much earlier than segment.ms, so that partitions do not all roll at once.",
    )
    segment_index_bytes: int = key(
        "segment.index.bytes",
        10 * MIB,
        low=4,
        high=MAX_INT,
        unit="bytes",
        live=True,
        doc="Roll the active segment when its offset or time index would grow past this.",
    )
    index_interval_bytes: int = key(
        "index.interval.bytes",
        4096,
        low=0,
        high=MAX_INT,
        unit="bytes",
        live=True,
        doc="Add one index entry per this many appended bytes.",
    )
    max_message_bytes: int = key(
        "max.message.bytes",
        MIB + 12,
        low=0,
        high=MAX_INT,
        unit="bytes",
        live=True,
        doc="The largest record batch that is taken, header included, after compression.",
    )
    message_timestamp_type: str = key(
        "message.timestamp.type",
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        live=True,
        doc="Whether records keep the producer's timestamps or get the time of the append.",
    )
    message_timestamp_before_max_ms: int = key(
        "message.timestamp.before.max.ms",
        MAX_LONG,
        low=0,
        high=MAX_LONG,
        unit="ms",
        live=True,
        doc="Refuse batches stamped more than this before the server's clock (CreateTime only).",
    )
    message_timestamp_after_max_ms: int = key(
        "message.timestamp.after.max.ms",
        HOUR,
        low=0,
        high=MAX_LONG,
        unit="ms",
        live=True,
        doc="Refuse batches stamped more than this after the server's clock (CreateTime only).",
    )
    min_insync_replicas: int = key(
        "min.insync.replicas",
        1,
        low=1,
        high=MAX_INT,
        live=True,
        doc="With acks=all, refuse to append while fewer replicas than this are in sync.",
    )
    unclean_leader_election_enable: bool = key(
        "unclean.leader.election.enable",
        False,
        live=True,
        doc="Rather lose acknowledged records than stay without a leader.",
    )
    leader_replication_throttled_replicas: tuple[str, ...] = key(
        "leader.replication.throttled.replicas",
        (),
        live=True,
        doc="Replicas (partition:node, or * for all) that are served at leader.replication.throttled.rate.",
    )
    follower_replication_throttled_replicas: tuple[str, ...] = key(
        "follower.replication.throttled.replicas",
        (),
        live=True,
        doc="Replicas (partition:node, or * for all) that fetch at follower.replication.throttled.rate.",
    )
    compression_type: str = key(
        "compression.type",
        PRODUCER,
        choices=COMPRESSION_TYPES,
        live=True,
        doc="Codec in which the leader stores batches. producer: as they came. Any other value: a batch in"
        " another codec is decompressed and compressed again by the leader.",
    )
    compression_gzip_level: int = key(
        "compression.gzip.level",
        GZIP_DEFAULT_LEVEL,
        low=-1,
        high=9,
        live=True,
        doc="Level at which the leader compresses with compression.type=gzip: 1 to 9, or -1 for the default.",
    )
    compression_lz4_level: int = key(
        "compression.lz4.level",
        LZ4_DEFAULT_LEVEL,
        low=1,
        high=17,
        live=True,
        doc="Level at which the leader compresses with compression.type=lz4.",
    )
    compression_zstd_level: int = key(
        "compression.zstd.level",
        ZSTD_DEFAULT_LEVEL,
        low=-131072,
        high=22,
        live=True,
        doc="Level at which the leader compresses with compression.type=zstd.",
    )
    flush_messages: int = key(
        "flush.messages",
        MAX_LONG,
        low=1,
        high=MAX_LONG,
        unit="records",
        live=True,
        doc="Write to the disk after this many unflushed records; by default the system decides.",
    )
    flush_ms: int = key(
        "flush.ms",
        MAX_LONG,
        low=0,
        high=MAX_LONG,
        unit="ms",
        live=True,
        doc="Write to the disk when the oldest unflushed record is older than this.",
    )
    preallocate: bool = key(
        "preallocate", False, live=True, doc="Reserve the disk space of a whole segment when it is rolled."
    )
    cleanup_policy: tuple[str, ...] = key(
        "cleanup.policy",
        ("delete",),
        choices=("delete", "compact"),
        live=True,
        doc="delete: remove old segments. compact: keep the last value of each key. Both, or an empty list.",
    )
    retention_ms: int = key(
        "retention.ms",
        7 * DAY,
        low=-1,
        high=MAX_LONG,
        unit="ms",
        live=True,
        doc="Remove a segment once its newest record is older than this; -1 for never.",
    )
    retention_bytes: int = key(
        "retention.bytes",
        -1,
        low=-MAX_LONG - 1,
        high=MAX_LONG,
        unit="bytes",
        live=True,
        doc="Remove the oldest segments while the others hold at least this much; below 0 for never.",
    )
    file_delete_delay_ms: int = key(
        "file.delete.delay.ms",
        1 * MINUTE,
        low=0,
        high=MAX_LONG,
        unit="ms",
        live=True,
        doc="How long the files of a removed segment stay, under a name that ends in .deleted.",
    )
    delete_retention_ms: int = key(
        "delete.retention.ms",
        1 * DAY,
        low=0,
        high=MAX_LONG,
        unit="ms",
        live=True,
        doc="How long a reader from the start still sees the tombstones of a compacted topic.",
    )
    min_cleanable_dirty_ratio: float = key(
        "min.cleanable.dirty.ratio",
        0.5,
        low=0,
        high=1,
        live=True,
        doc="Compact a log once this share of its bytes was written after the last time.",
    )
    min_compaction_lag_ms: int = key(
        "min.compaction.lag.ms",
        0,
        low=0,
        high=MAX_LONG,
        unit="ms",
        live=True,
        doc="Records younger than this are not compacted.",
    )
    max_compaction_lag_ms: int = key(
        "max.compaction.lag.ms",
        MAX_LONG,
        low=1,
        high=MAX_LONG,
        unit="ms",
        live=True,
        doc="A record does not stay uncompacted for longer than this, whatever the dirty ratio.",
    )
    durability: str = key(
        "durability",
        "async",
        choices=("async", "fsync"),
        live=True,
        doc="async: acknowledge from the page cache, as Kafka does. fsync: acknowledge after fdatasync.",
    )

    @cached_property
    def is_compacted(self) -> bool:
        """cleanup.policy contains `compact`."""
        return "compact" in self.cleanup_policy

    @cached_property
    def target_compression(self) -> Compression | None:
        """The codec in which the leader stores batches; None: as the producer sent them."""
        return _CODECS.get(self.compression_type)

    @property
    def target_level(self) -> int | None:
        """The level for `target_compression`; None where the codec has no levels."""
        levels = {
            Compression.GZIP: self.compression_gzip_level,
            Compression.LZ4: self.compression_lz4_level,
            Compression.ZSTD: self.compression_zstd_level,
        }
        return None if self.target_compression is None else levels.get(self.target_compression)

    @cached_property
    def max_segment_ms(self) -> int:
        """segment.ms, or less for a compacted topic: the active segment is not compacted."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    def __post_init__(self) -> None:
        super().__post_init__()
        try:  # 0 is in the range of the key, but not a gzip level
            check_level(Compression.GZIP, self.compression_gzip_level)
        except ValueError as error:
            raise ConfigError(f"compression.gzip.level: {error}") from error
        for replicas in (
            self.leader_replication_throttled_replicas,
            self.follower_replication_throttled_replicas,
        ):
            _check_throttled_replicas(replicas)
        values = self.to_mapping()
        for low, high in _ORDERED_KEYS:
            if values[low] > values[high]:
                raise ConfigError(f"{low} {values[low]} must not exceed {high} {values[high]}")


def _check_throttled_replicas(replicas: tuple[str, ...]) -> None:
    wrong = [each for each in replicas if not re.fullmatch(r"[0-9]{1,10}:[0-9]{1,10}", each)]
    if wrong and replicas != ("*",):
        raise ConfigError(f"throttled replicas are partition:node pairs, or * alone, not {wrong[0]!r}")
