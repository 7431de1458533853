"""The config keys of the clients: one schema per client, with Kafka's names and defaults.

In order of precedence, values come from keyword arguments, the `config` mapping, the environment
(`HEADRACE_LINGER_MS` for `linger.ms`) and the default. `partition_keys` distributes keys that were given for
a whole cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ..protocol.errors import ConfigError
from ..runtime.config import KIB, MAX_INT, MAX_LONG, MIB, MINUTE, SECOND, Config, key, nearest_key
from ..runtime.config_references import is_provider_key
from .durations import duration_ms
from .foreign_names import advice_for, general_advice
from .producer_config import ProducerConfig as ProducerConfig
from .producer_config import RequestConfig, TracingConfig
from .security_config import SecurityConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ENVIRONMENT_PREFIX = "HEADRACE_"
RESET_BY_DURATION = "by_duration:"
CLASSIC_ASSIGNORS = ("range", "cooperative-sticky")
RESET_POLICIES = ("earliest", "latest", "none")


@dataclass(frozen=True, kw_only=True)
class ConnectionConfig(SecurityConfig):
    """Keys of connections and the metadata cache, which all clients of a cluster share."""

    client_id: str = key("client.id", "", doc="Name of this client in server status, logs and quotas.")
    metadata_max_age_ms: int = key(
        "metadata.max.age.ms",
        5 * MINUTE,
        low=10,
        high=MAX_LONG,
        unit="ms",
        doc="Refresh metadata at least this often, which discovers new partitions.",
    )
    reconnect_backoff_ms: int = key(
        "reconnect.backoff.ms",
        50,
        low=0,
        high=MAX_INT,
        unit="ms",
        doc="Backoff before the second attempt to connect to a node; doubles with each failure.",
    )
    reconnect_backoff_max_ms: int = key(
        "reconnect.backoff.max.ms",
        SECOND,
        low=0,
        high=MAX_INT,
        unit="ms",
        doc="Upper bound of the reconnect backoff.",
    )
    connection_setup_timeout_ms: int = key(
        "socket.connection.setup.timeout.ms",
        10 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="Timeout of opening a connection, handshake and authentication included.",
    )

    def __post_init__(self) -> None:
        """The keys of security have to fit each other."""
        super().__post_init__()
        self.check_security()


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(TracingConfig):
    """Config keys of a consumer."""

    auto_offset_reset: str = key(
        "auto.offset.reset",
        "latest",
        doc="Start position without a committed offset: earliest, latest, by_duration:<ISO 8601>, or none (an"
        " error).",
    )
    fetch_min_bytes: int = key(
        "fetch.min.bytes",
        1,
        low=0,
        high=MAX_INT,
        unit="bytes",
        doc="Minimum bytes of a fetch response, unless fetch.max.wait.ms passes.",
    )
    fetch_max_bytes: int = key(
        "fetch.max.bytes",
        50 * MIB,
        low=KIB,
        high=MAX_INT,
        unit="bytes",
        doc="Bound of buffered bytes over all partitions; a single batch may exceed it.",
    )
    fetch_max_wait_ms: int = key(
        "fetch.max.wait.ms",
        500,
        low=0,
        high=MAX_INT,
        unit="ms",
        doc="Longest wait of a fetch for fetch.min.bytes.",
    )
    max_partition_fetch_bytes: int = key(
        "max.partition.fetch.bytes",
        MIB,
        low=1,
        high=MAX_INT,
        unit="bytes",
        doc="Bytes of one partition per fetch; the next fetch is sent when half of them are consumed.",
    )
    max_poll_records: int = key(
        "max.poll.records", 500, low=1, high=MAX_INT, doc="Maximum number of records per poll."
    )
    check_crcs: bool = key("check.crcs", True, doc="Check the CRC-32C of each batch before decoding it.")
    client_rack: str = key(
        "client.rack",
        "",
        doc="Rack of this consumer, as in broker.rack: it reads from a replica in the same rack.",
    )
    api_timeout_ms: int = key(
        "default.api.timeout.ms",
        MINUTE,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="Default timeout of calls that send requests.",
    )
    isolation_level: str = key(
        "isolation.level",
        "read_uncommitted",
        choices=("read_uncommitted", "read_committed"),
        doc="read_committed skips records of aborted transactions, and stops before open ones.",
    )
    group: str = key("group.id", "", doc="The consumer group: its members share the topics' partitions.")
    group_instance_id: str = key(
        "group.instance.id",
        "",
        doc="Id of a static member, which keeps its partitions if it rejoins within the session timeout.",
    )
    group_protocol: str = key(
        "group.protocol",
        "classic",
        choices=("classic", "consumer"),
        doc="classic: the group leader assigns partitions; consumer: the coordinator does (KIP-848).",
    )
    group_remote_assignor: str = key(
        "group.remote.assignor",
        "",
        doc="Server-side assignor of group.protocol=consumer: uniform or range; empty: the coordinator's"
        " default.",
    )
    assignors: tuple[str, ...] = key(
        "partition.assignment.strategy",
        CLASSIC_ASSIGNORS,
        doc="Assignors of group.protocol=classic, in order of preference: range, roundrobin, sticky, "
        "cooperative-sticky. Members keep their partitions during a rebalance if all of them are"
        " cooperative.",
    )
    session_timeout_ms: int = key(
        "session.timeout.ms",
        45 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="A member without heartbeats for this long is removed from its group (classic).",
    )
    heartbeat_interval_ms: int = key(
        "heartbeat.interval.ms",
        3 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="Heartbeat interval (classic).",
    )
    max_poll_interval_ms: int = key(
        "max.poll.interval.ms",
        5 * MINUTE,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="A member that does not poll for this long leaves its group.",
    )
    enable_auto_commit: bool = key(
        "enable.auto.commit", True, doc="Commit the offsets of processed records periodically."
    )
    auto_commit_interval_ms: int = key(
        "auto.commit.interval.ms",
        5 * SECOND,
        low=0,
        high=MAX_INT,
        unit="ms",
        doc="Interval of automatic commits.",
    )
    exclude_internal_topics: bool = key(
        "exclude.internal.topics", True, doc="Patterns do not match internal topics."
    )

    @property
    def is_read_committed(self) -> bool:
        """Whether isolation.level is read_committed."""
        return self.isolation_level == "read_committed"

    def __post_init__(self) -> None:
        """Validate the reset policy, whose form `choices` cannot express, and the keys of groups."""
        super().__post_init__()
        if self.group_instance_id and not self.group:
            raise ConfigError("group.instance.id needs a group.id")
        if self.heartbeat_interval_ms >= self.session_timeout_ms and self.group_protocol == "classic":
            raise ConfigError(
                f"heartbeat.interval.ms ({self.heartbeat_interval_ms}) must be below session.timeout.ms"
                f" ({self.session_timeout_ms})"
            )
        is_new = self.group_protocol == "consumer"
        if is_new and self.assignors != CLASSIC_ASSIGNORS:
            raise ConfigError(
                "partition.assignment.strategy applies to group.protocol=classic: with consumer the"
                " coordinator"
                " assigns, see group.remote.assignor"
            )
        if self.group_remote_assignor and not is_new:
            raise ConfigError("group.remote.assignor needs group.protocol=consumer")
        policy = self.auto_offset_reset
        if policy.startswith(RESET_BY_DURATION):
            duration_ms(policy.removeprefix(RESET_BY_DURATION))
        elif policy not in RESET_POLICIES:
            raise ConfigError(
                f"auto.offset.reset must be earliest, latest, none or by_duration:<ISO 8601>, not {policy!r}"
            )


@dataclass(frozen=True, kw_only=True)
class AdminConfig(RequestConfig):
    """Config keys of an admin client."""

    api_timeout_ms: int = key(
        "default.api.timeout.ms",
        MINUTE,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="Default timeout of calls.",
    )


ClientConfigs = (ConnectionConfig, ProducerConfig, ConsumerConfig, AdminConfig)
_KINDS = {"producers": ProducerConfig, "consumers": ConsumerConfig, "admin clients": AdminConfig}
C = TypeVar("C", bound=Config)


def dotted(name: str, schemas: Iterable[type[Config]], *, is_keyword: bool = False) -> str:
    """The dotted name of any spelling of a key: dotted, underscored, or the field's short name.

    Errors: ConfigError with the nearest known name, in the spelling of keyword arguments or mappings.
    """
    known: dict[str, str] = {}
    for schema in schemas:
        known |= _spellings(schema)
    if name in known:
        return known[name]
    advice = advice_for(name) or _other_clients(name)
    hint = nearest_key(name, dict.fromkeys(known.values()), is_keyword=is_keyword)
    advice = advice or (None if hint else general_advice(name))
    raise ConfigError(f"unknown config key {name!r}{hint if advice is None else f'; {advice}'}")


def _spellings(schema: type[Config]) -> dict[str, str]:
    """The dotted name of each key by its spellings."""
    known: dict[str, str] = {}
    for real in schema.keys():  # noqa: SIM118 - a classmethod of Config, not a mapping's keys
        known[real] = known[real.replace(".", "_")] = known[schema.field_of(real)] = real
    return known


def _other_clients(name: str) -> str | None:
    """Which other clients have the key; None if none has."""
    found = [kind for kind, schema in _KINDS.items() if name in _spellings(schema)]
    return f"only {' and '.join(found)} have it" if found else None


def given(
    config: Mapping[str, Any] | None, options: Mapping[str, Any], schemas: tuple[type[Config], ...]
) -> dict[str, Any]:
    """The given values by dotted name; keyword arguments override the `config` mapping.

    Errors: ConfigError for an unknown key.
    """
    values = {
        name if is_provider_key(name) else dotted(name, schemas): value
        for name, value in (config or {}).items()
    }
    values.update({dotted(name, schemas, is_keyword=True): value for name, value in options.items()})
    for name in ("group.id", "transactional.id"):
        if values.get(name, "") is None:
            del values[name]
        elif not str(values.get(name, name)).strip():
            raise ConfigError(f"{name} must not be empty: omit it instead")
    if values.get("compression.type", "") is None:
        values["compression.type"] = "none"
    if "acks" in values:
        values["acks"] = str(values["acks"])
    return values


def resolve(schema: type[C], values: Mapping[str, Any], environment: Mapping[str, str]) -> C:
    """One client's config from given values (dotted names, including those of other schemas) and the
    environment. Errors: ConfigError for an invalid value, with the key."""
    found: dict[str, Any] = {}
    for name in schema.keys():  # noqa: SIM118 - a classmethod of Config, not a mapping's keys
        variable = ENVIRONMENT_PREFIX + name.replace(".", "_").upper()
        if name in values:
            found[name] = values[name]
        elif variable in environment:
            found[name] = environment[variable]
    return schema.of(found)
