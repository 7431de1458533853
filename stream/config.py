"""Config keys of a streams application, with Kafka's names and defaults. Source: Kafka StreamsConfig.java.

Keys of the embedded clients are given with a prefix: `consumer.`, `main.consumer.`, `restore.consumer.`,
`global.consumer.`, `producer.`, `admin.`; `topic.` gives keys of internal topics, `client.tag.` the tags of
the instance.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..protocol.errors import ConfigError
from ..runtime.config import MAX_INT, MAX_LONG, MIB, MINUTE, SECOND, key
from .query.security_config import QuerySecurityConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

AT_LEAST_ONCE = "at_least_once"
EXACTLY_ONCE = "exactly_once_v2"
COMMIT_INTERVAL_MS = {AT_LEAST_ONCE: 30 * SECOND, EXACTLY_ONCE: 100}
OPTIMIZATIONS = ("merge.repartition.topics", "reuse.ktable.source.topics", "single.store.self.join")
CLIENT_PREFIXES = (
    "main.consumer.",
    "restore.consumer.",
    "global.consumer.",
    "consumer.",
    "producer.",
    "admin.",
    "topic.",
    "client.tag.",
)
MAX_PORT = 65_535
_APPLICATION_ID = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True, kw_only=True)
class StreamsConfig(QuerySecurityConfig):
    """Keys of a streams application. `commit.interval.ms` -1 stands for the default of the guarantee."""

    application_id: str = key(
        "application.id",
        "",
        doc="Name of the application: its consumer group, and the prefix of its internal topics.",
    )
    guarantee: str = key(
        "processing.guarantee",
        AT_LEAST_ONCE,
        choices=(AT_LEAST_ONCE, EXACTLY_ONCE),
        doc="exactly_once_v2 writes changelogs, outputs and offsets in one transaction.",
    )
    threads: int = key(
        "num.stream.threads",
        1,
        low=1,
        high=MAX_INT,
        doc="Threads of this process that run tasks.",
    )
    cache_bytes: int = key(
        "statestore.cache.max.bytes",
        10 * MIB,
        low=0,
        high=MAX_LONG,
        unit="bytes",
        doc="Memory of the record caches of all threads together.",
    )
    uncommitted_bytes: int = key(
        "statestore.uncommitted.max.bytes",
        64 * MIB,
        low=-1,
        high=MAX_LONG,
        unit="bytes",
        doc="Memory of the writes of persistent stores since the last commit, of all threads together; with"
        " more, a thread commits at once. -1: no limit.",
    )
    commit_interval_ms: int = key(
        "commit.interval.ms",
        -1,
        low=-1,
        high=MAX_LONG,
        unit="ms",
        doc="Time between commits; -1: 30,000 ms, and 100 ms with exactly_once_v2.",
    )
    buffered_records: int = key(
        "buffered.records.per.partition",
        1000,
        low=1,
        high=MAX_INT,
        doc="A partition with more buffered records is paused.",
    )
    max_task_idle_ms: int = key(
        "max.task.idle.ms",
        0,
        low=-1,
        high=MAX_LONG,
        unit="ms",
        doc="Longest wait of a task for records of an empty partition, for the order of timestamps; 0: until"
        " the consumer knows that there are none; -1: no wait.",
    )
    poll_ms: int = key(
        "poll.ms", 100, low=1, high=MAX_LONG, unit="ms", doc="Longest wait of one poll for records."
    )
    optimization: str = key(
        "topology.optimization",
        "none",
        doc="none, all, or a list of merge.repartition.topics, reuse.ktable.source.topics and"
        " single.store.self.join.",
    )
    state_dir: str = key(
        "state.dir", "", doc="Folder of persistent stores; empty: headrace-streams in the temporary folder."
    )
    state_cleanup_delay_ms: int = key(
        "state.cleanup.delay.ms",
        10 * MINUTE,
        low=0,
        high=MAX_LONG,
        unit="ms",
        doc="The store folder of a task that moved away is deleted after this time.",
    )
    state_max_age_ms: int = key(
        "state.cleanup.dir.max.age.ms",
        -1,
        low=-1,
        high=MAX_LONG,
        unit="ms",
        doc="An instance that starts deletes store folders that were not used for this time; -1: none.",
    )
    snapshot_dir: str = key(
        "snapshot.dir",
        "",
        doc="Shared folder, or URL of an object store, with snapshots of the stores that RocksDB has; empty:"
        " no snapshots.",
    )
    snapshot_interval_ms: int = key(
        "snapshot.interval.ms",
        10 * MINUTE,
        low=0,
        high=MAX_LONG,
        unit="ms",
        doc="Time between snapshots of a task.",
    )
    snapshot_retention: int = key(
        "snapshot.retention",
        3,
        low=1,
        high=MAX_INT,
        doc="Snapshots of each task that are kept.",
    )
    standby_replicas: int = key(
        "num.standby.replicas",
        -1,
        low=-1,
        high=MAX_INT,
        doc="Standby tasks of each stateful task; -1: as the config streams.num.standby.replicas of the group"
        " says, which an instance that starts with another value sets.",
    )
    warmup_replicas: int = key(
        "max.warmup.replicas",
        -1,
        low=-1,
        high=MAX_INT,
        doc="Warm-up tasks at a time; -1: as the config streams.num.warmup.replicas of the group says, which"
        " an instance that starts with another value sets.",
    )
    acceptable_recovery_lag: int = key(
        "acceptable.recovery.lag",
        -1,
        low=-1,
        high=MAX_LONG,
        doc="Offsets that a warm-up task may be behind when its task moves to it; -1: as the config"
        " streams.acceptable.recovery.lag of the group says, which an instance that starts with another value"
        " sets.",
    )
    group_writes_state: bool = key(
        "allow.os.group.write.access",
        False,
        doc="The group of the process may write to the folders of the stores, too.",
    )
    default_store: str = key(
        "default.dsl.store",
        "rocksDB",
        choices=("rocksDB", "in_memory"),
        doc="Kind of stores of DSL operators without one of their own.",
    )
    store_format: str = key(
        "dsl.store.format",
        "default",
        choices=("default", "headers", "DEFAULT", "HEADERS"),
        doc="headers: persistent stores of DSL operators have room for the headers of records.",
    )
    window_store_additional_retention_ms: int = key(
        "windowstore.changelog.additional.retention.ms",
        24 * 60 * MINUTE,
        low=0,
        high=MAX_LONG,
        unit="ms",
        doc="Added to the retention of changelogs of window stores, for clocks that differ.",
    )
    replication_factor: int = key(
        "replication.factor",
        -1,
        low=-1,
        high=32767,
        doc="Replicas of internal topics; -1: the default of the cluster.",
    )
    repartition_purge_interval_ms: int = key(
        "repartition.purge.interval.ms",
        30 * SECOND,
        low=0,
        high=MAX_LONG,
        unit="ms",
        doc="Time between deletions of consumed records of repartition topics.",
    )
    state_isolation: str = key(
        "default.state.isolation.level",
        "",
        choices=("", "READ_UNCOMMITTED", "READ_COMMITTED"),
        doc="What queries read of persistent stores: all writes, or those of the last commit; empty:"
        " READ_UNCOMMITTED with at_least_once, READ_COMMITTED with exactly_once_v2.",
    )
    task_timeout_ms: int = key(
        "task.timeout.ms",
        5 * MINUTE,
        low=0,
        high=MAX_LONG,
        unit="ms",
        doc="A task that made no progress for this time because of retriable errors fails; 0: at the first.",
    )
    explicit_names: bool = key(
        "ensure.explicit.internal.resource.naming",
        False,
        doc="Refuse a topology with internal topics or stores that have generated names.",
    )
    allow_topology_change: bool = key(
        "allow.topology.change",
        False,
        doc="Start also where stores would begin empty, or records be lost, by a changed topology of"
        " the application.",
    )
    dead_letter_topic: str = key(
        "errors.dead.letter.queue.topic.name",
        "",
        doc="Topic of records that an exception handler skips; empty: none.",
    )
    processing_handler_global: bool = key(
        "processing.exception.handler.global.enabled",
        False,
        doc="The processing exception handler is called for global stores, too.",
    )
    application_server: str = key(
        "application.server",
        "",
        doc="host:port at which this instance answers queries of other processes, which learn it from the"
        " group; it listens at the address of this host, such as 127.0.0.1. Port 0: a free port. Empty:"
        " none.",
    )
    pushes_description: bool = key(
        "topology.description.push.enabled",
        True,
        doc="The group gets the description of the topology, for `headrace stream describe ID`.",
    )
    enable_tracing: bool = key(
        "enable.tracing",
        False,
        doc="Make spans of sampled records: poll, process, send and commit; see TRACING.md.",
    )
    metrics_level: str = key(
        "metrics.recording.level",
        "INFO",
        choices=("INFO", "DEBUG", "TRACE"),
        doc="The least important metrics that an instance gives.",
    )
    log_summary_interval_ms: int = key(
        "log.summary.interval.ms",
        2 * MINUTE,
        low=-1,
        high=MAX_LONG,
        unit="ms",
        doc="Time between summaries in the log; -1: none.",
    )

    def __post_init__(self) -> None:
        """Validate the application id and the optimizations. Errors: ConfigError."""
        super().__post_init__()
        if not _APPLICATION_ID.fullmatch(self.application_id):
            raise ConfigError(
                f"application.id {self.application_id!r} must be 1 to 249 letters, digits, dots, underscores"
                " or hyphens: it is part of topic names"
            )
        _ = self.optimizations, self.endpoint
        self.check_query_security()

    @property
    def endpoint(self) -> tuple[str, int] | None:
        """Host and port of application.server; None without. Errors: ConfigError."""
        if not self.application_server:
            return None
        host, _, port = self.application_server.rpartition(":")
        if not host or not port.isascii() or not port.isdecimal() or not int(port) <= MAX_PORT:
            raise ConfigError(
                f"application.server {self.application_server!r} is not host:port, as in node1:8080"
            )
        return host.removeprefix("[").removesuffix("]"), int(port)

    @property
    def query_isolation(self) -> str:
        """default.state.isolation.level, or that of the guarantee: read_committed or read_uncommitted."""
        given = "READ_COMMITTED" if self.is_exactly_once else "READ_UNCOMMITTED"
        return (self.state_isolation or given).lower()

    @property
    def is_exactly_once(self) -> bool:
        """Whether processing.guarantee is exactly_once_v2."""
        return self.guarantee == EXACTLY_ONCE

    @property
    def stores_have_headers(self) -> bool:
        """Whether dsl.store.format is headers."""
        return self.store_format.lower() == "headers"

    @property
    def commit_every_ms(self) -> int:
        """commit.interval.ms, or the default of the guarantee."""
        return COMMIT_INTERVAL_MS[self.guarantee] if self.commit_interval_ms < 0 else self.commit_interval_ms

    @property
    def optimizations(self) -> frozenset[str]:
        """The optimizations that are on. Errors: ConfigError for an unknown one."""
        names = [name.strip() for name in self.optimization.split(",")]
        if names == ["none"]:
            return frozenset()
        if names == ["all"]:
            return frozenset(OPTIMIZATIONS)
        unknown = [name for name in names if name not in OPTIMIZATIONS]
        if unknown:
            raise ConfigError(
                f"topology.optimization: {unknown[0]!r} is none of {', '.join(OPTIMIZATIONS)}; none and all"
                " stand alone"
            )
        return frozenset(names)


def split_config(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The keys of the application, and those of each embedded client by its prefix without the dot."""
    own: dict[str, Any] = {}
    clients: dict[str, dict[str, Any]] = {prefix[:-1]: {} for prefix in CLIENT_PREFIXES}
    for name, value in values.items():
        prefix = next((prefix for prefix in CLIENT_PREFIXES if name.startswith(prefix)), None)
        if prefix is None:
            own[name] = value
        else:
            clients[prefix[:-1]][name.removeprefix(prefix)] = value
    return own, clients
