"""The config keys of producers, and those that all clients have which ask for themselves."""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol.errors import ConfigError
from ..runtime.config import GIB, KIB, MAX_INT, MAX_LONG, MIB, MINUTE, SECOND, Config, key

MAX_IN_FLIGHT = 5  # with idempotence: a partition's leader remembers so many batches of a producer


@dataclass(frozen=True, kw_only=True)
class RequestConfig(Config):
    """Keys of whoever asks servers."""

    request_timeout_ms: int = key(
        "request.timeout.ms",
        30 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="Give up waiting for one response after this; the connection is closed and the request retried.",
    )
    retry_backoff_ms: int = key(
        "retry.backoff.ms",
        100,
        low=0,
        high=MAX_INT,
        unit="ms",
        doc="Wait before the first retry; doubles with each further one, with 20 % of jitter.",
    )
    retry_backoff_max_ms: int = key(
        "retry.backoff.max.ms",
        SECOND,
        low=0,
        high=MAX_INT,
        unit="ms",
        doc="The wait before a retry never grows past this.",
    )


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(RequestConfig):
    """Keys of a producer.

    batch.size is 64 KiB, four times Kafka's: the builders grow with what they hold, so a larger limit costs
    no memory at low rates, and a server spends about five times less CPU per byte at 64 KiB than at 16 KiB.
    """

    acks: str = key(
        "acks",
        "all",
        choices=("all", "-1", "0", "1"),
        doc="Acknowledge when all in-sync replicas (all, -1) or the leader (1) hold it, or never (0).",
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
        doc="A batch of this size is sent at once; it grows further only while an earlier one is under way.",
    )
    compression_type: str = key(
        "compression.type",
        "none",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        doc="Codec of whole batches.",
    )
    compression_gzip_level: int = key("compression.gzip.level", -1, low=-1, high=9, doc="-1: zlib's default.")
    compression_lz4_level: int = key(
        "compression.lz4.level",
        9,
        low=1,
        high=17,
        doc="Level under lz4; 9 is its fast compressor, as in Kafka.",
    )
    compression_zstd_level: int = key(
        "compression.zstd.level", 3, low=-131_072, high=22, doc="Level under zstd."
    )
    enable_idempotence: bool | None = key(
        "enable.idempotence",
        None,
        doc="Number the batches, so that each is stored once and in order, however often it is sent. "
        "Not set: true, unless acks or retries rule it out.",
    )
    transactional_id: str | None = key(
        "transactional.id",
        None,
        doc="Send in transactions, as the only producer of this name: a new one fences off the one before.",
    )
    transaction_timeout_ms: int = key(
        "transaction.timeout.ms",
        MINUTE,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="A transaction that is open for longer is aborted by the cluster.",
    )
    max_in_flight: int = key(
        "max.in.flight.requests.per.connection",
        5,
        low=1,
        high=1000,
        doc="Requests under way per node; at most 5 with idempotence. Without, one partition has a batch in "
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
        doc="Bytes of records waiting to be acknowledged; when they are reached, send blocks.",
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
        doc="Records without a key prefer partitions whose leaders are fast.",
    )
    partitioner_ignore_keys: bool = key(
        "partitioner.ignore.keys", False, doc="Treat records with a key like those without."
    )

    def __post_init__(self) -> None:
        """Cross-field rules, Kafka's: a record must live at least as long as its first attempt, and what
        idempotence and transactions need."""
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
        """Whether batches are numbered: unless it is turned off, or acks or retries rule it out."""
        if self.enable_idempotence is None:
            return self.acks_number == -1 and self.retries > 0
        return self.enable_idempotence

    @property
    def acks_number(self) -> int:
        """0, 1 or -1 as on the wire."""
        return -1 if self.acks == "all" else int(self.acks)

    @property
    def compression_level(self) -> int | None:
        """The level for the chosen codec, None for codecs without levels and for gzip's default."""
        levels = {"lz4": self.compression_lz4_level, "zstd": self.compression_zstd_level}
        if self.compression_type == "gzip" and self.compression_gzip_level != -1:
            return self.compression_gzip_level
        return levels.get(self.compression_type)
