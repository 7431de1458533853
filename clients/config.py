"""The config keys of the clients: one schema per client, Kafka's names and defaults.

Values come, strongest first, from keyword arguments, the `config` mapping, the environment
(`HEADRACE_LINGER_MS` for `linger.ms`) and the declared default. `partition_keys` shares out keys that
were given for a whole cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ..protocol.errors import ConfigError
from ..runtime.config import GIB, KIB, MAX_INT, MAX_LONG, MIB, MINUTE, SECOND, Config, key, nearest_key
from .durations import duration_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ENVIRONMENT_PREFIX = "HEADRACE_"
MAX_IN_FLIGHT = 5  # with idempotence: a partition's leader remembers so many batches of a producer
RESET_BY_DURATION = "by_duration:"
RESET_POLICIES = ("earliest", "latest", "none")


@dataclass(frozen=True, kw_only=True)
class ConnectionConfig(Config):
    """Keys of the connections and the metadata cache, which all clients of one cluster share."""

    client_id: str = key("client.id", "", doc="Name of this client in the servers' status.")
    metadata_max_age_ms: int = key(
        "metadata.max.age.ms",
        5 * MINUTE,
        low=10,
        high=MAX_LONG,
        unit="ms",
        doc="Ask for fresh metadata at least this often; finds new partitions.",
    )
    reconnect_backoff_ms: int = key(
        "reconnect.backoff.ms",
        50,
        low=0,
        high=MAX_INT,
        unit="ms",
        doc="Wait this long before the second attempt to connect to a node; doubles with each failure.",
    )
    reconnect_backoff_max_ms: int = key(
        "reconnect.backoff.max.ms",
        SECOND,
        low=0,
        high=MAX_INT,
        unit="ms",
        doc="The wait before reconnecting to a node never grows past this.",
    )
    connection_setup_timeout_ms: int = key(
        "socket.connection.setup.timeout.ms",
        10 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="Give up on a connection that is not open and greeted after this.",
    )


@dataclass(frozen=True, kw_only=True)
class _RequestConfig(Config):
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
class ProducerConfig(_RequestConfig):
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
        "Not set: true with a transactional.id.",
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
        """Whether batches are numbered."""
        if self.enable_idempotence is None:
            return self.transactional_id is not None
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


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(_RequestConfig):
    """Keys of a consumer."""

    auto_offset_reset: str = key(
        "auto.offset.reset",
        "latest",
        doc="Where to start without a position: earliest, latest, by_duration:<ISO 8601>, or none (raise).",
    )
    fetch_min_bytes: int = key(
        "fetch.min.bytes",
        1,
        low=0,
        high=MAX_INT,
        unit="bytes",
        doc="A fetch waits for this much, up to fetch.max.wait.ms.",
    )
    fetch_max_bytes: int = key(
        "fetch.max.bytes",
        50 * MIB,
        low=KIB,
        high=MAX_INT,
        unit="bytes",
        doc="Fetched bytes not yet handed to the user, over all partitions; one batch may exceed it.",
    )
    fetch_max_wait_ms: int = key(
        "fetch.max.wait.ms",
        500,
        low=0,
        high=MAX_INT,
        unit="ms",
        doc="A fetch without enough data is answered after this.",
    )
    max_partition_fetch_bytes: int = key(
        "max.partition.fetch.bytes",
        MIB,
        low=1,
        high=MAX_INT,
        unit="bytes",
        doc="Bytes of one partition in one fetch; the next is asked for when half of it is consumed.",
    )
    max_poll_records: int = key(
        "max.poll.records", 500, low=1, high=MAX_INT, doc="Records that one poll returns at most."
    )
    check_crcs: bool = key("check.crcs", True, doc="Check the CRC-32C of each batch before decoding it.")
    client_rack: str = key(
        "client.rack",
        "",
        doc="Where this consumer runs, as in broker.rack: it reads a replica there.",
    )
    api_timeout_ms: int = key(
        "default.api.timeout.ms",
        MINUTE,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="Timeout of calls that ask the cluster, where none is given.",
    )
    isolation_level: str = key(
        "isolation.level",
        "read_uncommitted",
        choices=("read_uncommitted", "read_committed"),
        doc="read_committed leaves out records of transactions that were aborted, or are not ended yet.",
    )
    group: str = key("group.id", "", doc="The consumer group: its members share the topics' partitions.")
    group_instance_id: str = key(
        "group.instance.id",
        "",
        doc="A static member: one that comes back within the session timeout has its partitions still.",
    )
    group_protocol: str = key(
        "group.protocol",
        "classic",
        choices=("classic", "consumer"),
        doc="classic: the group's leader assigns; consumer: the coordinator does (KIP-848).",
    )
    group_remote_assignor: str = key(
        "group.remote.assignor",
        "",
        doc="The coordinator's assignor under group.protocol=consumer: uniform or range; empty: its default.",
    )
    assignors: tuple[str, ...] = key(
        "partition.assignment.strategy",
        ("range", "cooperative-sticky"),
        doc="Assignors under group.protocol=classic, in the order of preference: range, roundrobin, sticky, "
        "cooperative-sticky. Members keep their partitions over a rebalance if all of these are cooperative.",
    )
    session_timeout_ms: int = key(
        "session.timeout.ms",
        45 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="A member without heartbeats for this long is out of its group (classic).",
    )
    heartbeat_interval_ms: int = key(
        "heartbeat.interval.ms",
        3 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="Between two heartbeats (classic).",
    )
    max_poll_interval_ms: int = key(
        "max.poll.interval.ms",
        5 * MINUTE,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="A member that asks for no records for this long leaves its group.",
    )
    enable_auto_commit: bool = key(
        "enable.auto.commit", True, doc="Commit now and then what the user has finished."
    )
    auto_commit_interval_ms: int = key(
        "auto.commit.interval.ms", 5 * SECOND, low=0, high=MAX_INT, unit="ms", doc="How often."
    )
    exclude_internal_topics: bool = key(
        "exclude.internal.topics", True, doc="Patterns do not match internal topics."
    )

    @property
    def is_read_committed(self) -> bool:
        """Whether only records of committed transactions are read."""
        return self.isolation_level == "read_committed"

    def __post_init__(self) -> None:
        """Check the reset policy, which has a form that `choices` cannot say, and what groups need."""
        super().__post_init__()
        if self.group_instance_id and not self.group:
            raise ConfigError("group.instance.id needs a group.id")
        if self.heartbeat_interval_ms >= self.session_timeout_ms and self.group_protocol == "classic":
            raise ConfigError(
                f"heartbeat.interval.ms ({self.heartbeat_interval_ms}) must be below session.timeout.ms"
                f" ({self.session_timeout_ms})"
            )
        policy = self.auto_offset_reset
        if policy.startswith(RESET_BY_DURATION):
            duration_ms(policy.removeprefix(RESET_BY_DURATION))
        elif policy not in RESET_POLICIES:
            raise ConfigError(
                f"auto.offset.reset must be earliest, latest, none or by_duration:<ISO 8601>, not {policy!r}"
            )


@dataclass(frozen=True, kw_only=True)
class AdminConfig(_RequestConfig):
    """Keys of an admin client."""

    api_timeout_ms: int = key(
        "default.api.timeout.ms",
        MINUTE,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="Timeout of calls where none is given.",
    )


ClientConfigs = (ConnectionConfig, ProducerConfig, ConsumerConfig, AdminConfig)
C = TypeVar("C", bound=Config)


def dotted(name: str, schemas: Iterable[type[Config]], *, is_keyword: bool = False) -> str:
    """The dotted name behind any spelling of a key: dotted, underscored, or the field's own short name.

    Errors: ConfigError with the nearest known name, spelled for a keyword argument or for a mapping.
    """
    known: dict[str, str] = {}
    for schema in schemas:
        for real in schema.keys():  # noqa: SIM118 - a classmethod of Config, not a mapping's keys
            known[real] = known[real.replace(".", "_")] = known[schema.field_of(real)] = real
    if name in known:
        return known[name]
    hint = nearest_key(name, dict.fromkeys(known.values()), is_keyword=is_keyword)
    raise ConfigError(f"unknown config key {name!r}{hint}")


def given(
    config: Mapping[str, Any] | None, options: Mapping[str, Any], schemas: tuple[type[Config], ...]
) -> dict[str, Any]:
    """What the user gave, by dotted names; keyword arguments win over the `config` mapping.

    Errors: ConfigError for an unknown key.
    """
    values = {dotted(name, schemas): value for name, value in (config or {}).items()}
    values.update({dotted(name, schemas, is_keyword=True): value for name, value in options.items()})
    if values.get("compression.type", "") is None:
        values["compression.type"] = "none"
    if "acks" in values:
        values["acks"] = str(values["acks"])
    return values


def resolve(schema: type[C], values: Mapping[str, Any], environment: Mapping[str, str]) -> C:
    """One client's config out of what was given (dotted names, those of other schemas too) and the
    environment. Errors: ConfigError for a bad value, naming the key."""
    found: dict[str, Any] = {}
    for name in schema.keys():  # noqa: SIM118 - a classmethod of Config, not a mapping's keys
        variable = ENVIRONMENT_PREFIX + name.replace(".", "_").upper()
        if name in values:
            found[name] = values[name]
        elif variable in environment:
            found[name] = environment[variable]
    return schema.of(found)
