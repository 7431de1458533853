"""The config keys of producers, and request keys shared by all clients."""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol.errors import ConfigError
from ..runtime.config import GIB, KIB, MAX_INT, MAX_LONG, MIB, MINUTE, SECOND, Config, key

MAX_IN_FLIGHT = 5  # with idempotence: a leader remembers this many batches per producer


@dataclass(frozen=True, kw_only=True)
class RequestConfig(Config):
    """Keys of requests, shared by all clients."""

    request_timeout_ms: int = key(
        "request.timeout.ms",
        30 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="Timeout of one response; the connection is then closed and the request retried.",
    )
    retry_backoff_ms: int = key(
        "retry.backoff.ms",
        100,
        low=0,
        high=MAX_INT,
        unit="ms",
        doc="Backoff before the first retry; doubles with each further one, with 20 % jitter.",
    )
    retry_backoff_max_ms: int = key(
        "retry.backoff.max.ms",
        SECOND,
        low=0,
        high=MAX_INT,
        unit="ms",
        doc="Upper bound of the retry backoff.",
    )


@dataclass(frozen=True, kw_only=True)
class TracingConfig(RequestConfig):
    """Keys of the traces that producers and consumers make."""

    enable_tracing: bool = key(
        "enable.tracing",
        False,
        doc="Make spans of sampled records with the tracer provider of the process; see TRACING.md.",
    )
    tracing_keys: bool = key(
        "tracing.message.keys", False, doc="Spans have the key of their record, at most 256 characters of it."
    )


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(TracingConfig):
    """Keys of a producer.

    batch.size is 64 KiB, four times Kafka's: batch builders grow on demand, so a larger limit costs no memory
    at low rates, and a server uses about five times less CPU per byte at 64 KiB than at 16 KiB.
    """

    acks: str = key(
        "acks",
        "all",
        choices=("all", "-1", "0", "1"),
        doc="Acknowledgement by all in-sync replicas (all, -1), by the leader (1), or none (0).",
    )
    linger_ms: int = key(
        "linger.ms",
        5,
        low=0,
        high=MAX_INT,
        unit="ms",
        doc="A batch that is not full waits this long for more records.",
    )
    batch_size: int = key(
        "batch.size",
        64 * KIB,
        low=1,
        high=GIB,
        unit="bytes",
        doc="A batch of this size is sent at once; it grows further only while an earlier one is in flight.",
    )
    compression_type: str = key(
        "compression.type",
        "none",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        doc="Compression codec of batches.",
    )
    compression_gzip_level: int = key("compression.gzip.level", -1, low=-1, high=9, doc="-1: zlib's default.")
    compression_lz4_level: int = key(
        "compression.lz4.level",
        9,
        low=1,
        high=17,
        doc="Level of lz4; 9 selects its fast compressor, as in Kafka.",
    )
    compression_zstd_level: int = key(
        "compression.zstd.level", 3, low=-131_072, high=22, doc="Level of zstd."
    )
    enable_idempotence: bool | None = key(
        "enable.idempotence",
        None,
        doc="Sequence numbers, so that each batch is stored once and in order despite retries. "
        "Not set: true, unless acks or retries exclude it.",
    )
    transactional_id: str | None = key(
        "transactional.id",
        None,
        doc="Id of a transactional producer: a new producer with this id fences the previous one.",
    )
    transaction_timeout_ms: int = key(
        "transaction.timeout.ms",
        MINUTE,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="The coordinator aborts a transaction that is open for longer.",
    )
    max_in_flight: int = key(
        "max.in.flight.requests.per.connection",
        5,
        low=1,
        high=1000,
        doc="Requests in flight per node; at most 5 with idempotence. Without idempotence, a partition has"
        " batches in "
        "at most one of them.",
    )
    retries: int = key(
        "retries", MAX_INT, low=0, high=MAX_INT, doc="Retries of one batch within delivery.timeout.ms."
    )
    delivery_timeout_ms: int = key(
        "delivery.timeout.ms",
        2 * MINUTE,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="A record that is not acknowledged this long after send fails.",
    )
    buffer_memory: int = key(
        "buffer.memory",
        32 * MIB,
        low=1,
        high=MAX_LONG,
        unit="bytes",
        doc="Bytes of unacknowledged records; send blocks at this limit.",
    )
    max_block_ms: int = key(
        "max.block.ms",
        MINUTE,
        low=0,
        high=MAX_LONG,
        unit="ms",
        doc="How long send waits for metadata or for room in the buffer.",
    )
    max_request_size: int = key(
        "max.request.size",
        MIB,
        low=1,
        high=GIB,
        unit="bytes",
        doc="Largest record (uncompressed), and largest batch.",
    )
    partitioner_adaptive: bool = key(
        "partitioner.adaptive.partitioning.enable",
        True,
        doc="Records without a key prefer partitions with fast leaders.",
    )
    partitioner_ignore_keys: bool = key(
        "partitioner.ignore.keys", False, doc="Ignore keys in the choice of the partition."
    )
    tracing_unit: str = key(
        "tracing.sampling.unit",
        "batch",
        choices=("batch", "record"),
        doc="Whether the sampler decides once for each batch, and its first record is traced, or for each"
        " record; records below a span of the application follow that.",
    )

    def __post_init__(self) -> None:
        """Kafka's cross-field rules: delivery.timeout.ms covers at least one attempt; requirements of
        idempotence and transactions."""
        super().__post_init__()
        self._check_idempotence()
        least_ms = min(self.linger_ms + self.request_timeout_ms, MAX_INT)
        if self.delivery_timeout_ms < least_ms:
            raise ConfigError(
                f"delivery.timeout.ms ({self.delivery_timeout_ms}) must be at least"
                f" linger.ms + request.timeout.ms ({least_ms})"
            )

    def _check_idempotence(self) -> None:
        wanted = "enable.idempotence" if self.enable_idempotence else "transactional.id"
        if self.enable_idempotence or self.transactional_id is not None:
            if self.acks_number != -1:
                raise ConfigError(f"{wanted} needs acks=all, not acks={self.acks}")
            if not self.retries:
                raise ConfigError(f"{wanted} needs retries of at least 1, not retries=0")
        if self.transactional_id is not None and self.enable_idempotence is False:
            raise ConfigError("transactional.id needs enable.idempotence=true")
        if self.is_idempotent and self.max_in_flight > MAX_IN_FLIGHT:
            raise ConfigError(
                f"max.in.flight.requests.per.connection must be at most {MAX_IN_FLIGHT} with"
                f" enable.idempotence, not {self.max_in_flight}"
            )

    @property
    def is_idempotent(self) -> bool:
        """Whether batches have sequence numbers: unless disabled, or excluded by acks or retries."""
        if self.enable_idempotence is None:
            return self.acks_number == -1 and self.retries > 0
        return self.enable_idempotence

    @property
    def acks_number(self) -> int:
        """0, 1 or -1, as on the wire."""
        return -1 if self.acks == "all" else int(self.acks)

    @property
    def compression_level(self) -> int | None:
        """The level of the chosen codec, None for codecs without levels and for gzip's default."""
        levels = {"lz4": self.compression_lz4_level, "zstd": self.compression_zstd_level}
        if self.compression_type == "gzip" and self.compression_gzip_level != -1:
            return self.compression_gzip_level
        return levels.get(self.compression_type)
