"""The configuration of one storage node, under Kafka's names where Kafka has the key."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol.errors import ConfigError
from ...runtime.config import GIB, MAX_INT, MAX_LONG, MIB, MINUTE, SECOND, key
from ...runtime.listener_address import reachable_host
from ...runtime.otlp_config import TracingServerConfig
from ...runtime.server_security_config import ServerSecurityConfig
from ...runtime.telemetry_config import TelemetryConfig
from ..log.cleaner.config import CleanerConfig
from ..log.log_defaults import LogDefaults
from .audit_config import AuditConfig
from .authorization_config import AuthorizationConfig
from .coordinator_config import CoordinatorConfig
from .gateway_config import GatewayConfig
from .transaction_config import TransactionConfig

# Live keys that cannot differ between nodes. Source: KIP-966.
CLUSTER_WIDE_KEYS = frozenset(("min.insync.replicas",))


@dataclass(frozen=True, kw_only=True)
class NodeConfig(
    LogDefaults,
    CleanerConfig,
    CoordinatorConfig,
    TransactionConfig,
    GatewayConfig,
    AuditConfig,
    AuthorizationConfig,
    TracingServerConfig,
    ServerSecurityConfig,
    TelemetryConfig,
):
    """Keys of a storage node."""

    node_id: int = key(
        "node.id",
        -1,
        low=-1,
        high=MAX_INT,
        doc="Id of this node; with -1 the controller generates one, which is stored in the log dirs.",
    )
    broker_rack: str = key("broker.rack", "", doc="Failure domain of this node; empty for none.")
    log_dirs: tuple[str, ...] = key(
        "log.dirs", (), doc="Directories that hold the partitions, one per disk; at least one."
    )
    log_dir_reserve_bytes: int = key(
        "log.dir.reserve.bytes",
        8 * MIB,
        low=0,
        high=GIB,
        unit="bytes",
        doc="Space reserved in each log dir for checkpoints on a full disk; 0 for none.",
    )
    cordoned_log_dirs: tuple[str, ...] = key(
        "cordoned.log.dirs", (), live=True, doc="Log dirs that get no new replicas; * for all."
    )
    balance_enable: bool = key(
        "balance.enable", True, live=True, doc="Whether `headrace balance --watch` may move replicas."
    )
    listener_host: str = key("listener.host", "127.0.0.1", doc="Address to bind; 0.0.0.0 for all.")
    advertised_host: str = key(
        "advertised.host",
        "",
        doc="Host that clients and other servers use for this node; empty: listener.host.",
    )
    listener_port: int = key(
        "listener.port",
        0,
        low=0,
        high=65_535,
        doc="Port to bind; 0: any free port, which is stored in the first log dir and used again.",
    )
    advertised_port: int = key(
        "advertised.port",
        0,
        low=0,
        high=65_535,
        doc="Port that clients and other servers use, such as that of a proxy; 0: the bound port.",
    )

    metrics_listener: str = key(
        "metrics.listener",
        "",
        doc="host:port where Prometheus scrapes this node (/metrics); empty: none. Port 0: any free port,"
        " which is stored and used again. Further nodes of a cluster use the following ports.",
    )

    registration_timeout_ms: int = key(
        "initial.broker.registration.timeout.ms",
        10 * SECOND,
        low=0,
        unit="ms",
        doc="How long to retry the registration while another process has the node id.",
    )
    controller_request_timeout_ms: int = key(
        "controller.request.timeout.ms",
        2 * SECOND,
        low=10,
        unit="ms",
        doc="Timeout of requests to the controller; afterwards the node reconnects.",
    )
    controller_backoff_ms: int = key(
        "controller.backoff.ms",
        50,
        low=1,
        unit="ms",
        doc="First backoff of the search for the active controller; it doubles.",
    )
    controller_backoff_max_ms: int = key(
        "controller.backoff.max.ms",
        1 * SECOND,
        low=1,
        unit="ms",
        doc="Longest backoff of the search for the active controller.",
    )
    heartbeat_interval_ms: int = key(
        "broker.heartbeat.interval.ms",
        0,
        low=0,
        unit="ms",
        doc="Interval of heartbeats; 0: the controller's broker.heartbeat.interval.ms.",
    )
    metadata_max_wait_ms: int = key(
        "metadata.fetch.max.wait.ms",
        500,
        low=1,
        unit="ms",
        doc="How long a metadata fetch waits for new records.",
    )
    controlled_shutdown_timeout_ms: int = key(
        "controlled.shutdown.timeout.ms",
        3 * SECOND,
        low=0,
        unit="ms",
        doc="How long a stopping node waits for the controller to move its leaderships.",
    )

    num_recovery_threads_per_data_dir: int = key(
        "num.recovery.threads.per.data.dir",
        2,
        low=1,
        high=64,
        doc="Threads per log dir that load and recover logs at start.",
    )
    background_threads: int = key(
        "background.threads",
        4,
        low=1,
        high=256,
        live=True,
        doc="Threads for fsync, deletion and checkpoints.",
    )
    retention_check_interval_ms: int = key(
        "log.retention.check.interval.ms",
        5 * MINUTE,
        low=1,
        unit="ms",
        live=True,
        doc="Interval of the retention check, in steps of about a second.",
    )
    checkpoint_interval_ms: int = key(
        "log.flush.offset.checkpoint.interval.ms",
        60 * SECOND,
        low=10,
        unit="ms",
        doc="Interval of the checkpoints of recovery points, log start offsets and high watermarks.",
    )

    socket_request_max_bytes: int = key(
        "socket.request.max.bytes",
        100 * MIB,
        low=1024,
        high=MAX_INT,
        unit="bytes",
        doc="Largest request, on both protocols; a connection that sends more without end is closed.",
    )
    max_connections: int = key(
        "max.connections",
        10_000,
        low=1,
        live=True,
        doc="Connections of each listener at the same time; on secured ones, those that have authenticated.",
    )
    max_in_flight_requests: int = key(
        "max.in.flight.requests.per.connection", 256, low=8, doc="Requests in flight on one connection."
    )
    connections_max_idle_ms: int = key(
        "connections.max.idle.ms",
        10 * MINUTE,
        low=100,
        unit="ms",
        live=True,
        doc="Idle connections are closed after this time.",
    )
    queued_max_request_bytes: int = key(
        "queued.max.request.bytes",
        256 * MIB,
        low=MIB,
        unit="bytes",
        live=True,
        doc="Memory of requests in flight on all connections; more are refused. One request of a Kafka"
        " client may use half of it: 2.5 KiB for each element of its arrays.",
    )
    queued_max_response_bytes: int = key(
        "queued.max.response.bytes",
        256 * MIB,
        low=MIB,
        unit="bytes",
        live=True,
        doc="Memory of responses that clients have not read, on all connections.",
    )
    fetch_max_bytes: int = key(
        "fetch.max.bytes",
        55 * MIB,
        low=1024,
        unit="bytes",
        doc="Largest fetch response, whatever the request allows.",
    )
    fetch_cold_threads: int = key(
        "fetch.cold.threads",
        4,
        low=1,
        high=64,
        doc="Threads that read batches which are not in the page cache.",
    )
    fetch_cold_max_bytes: int = key(
        "fetch.cold.max.bytes",
        64 * MIB,
        low=MIB,
        unit="bytes",
        doc="Bytes of reads from disks in progress, or not yet sent; more reads wait.",
    )
    fetch_read_ahead_bytes: int = key(
        "fetch.read.ahead.bytes",
        4 * MIB,
        low=0,
        high=GIB,
        unit="bytes",
        doc="Read-ahead for clients that catch up from disk; 0 for none.",
    )
    fetch_max_wait_ms: int = key(
        "fetch.max.wait.ms",
        5 * MINUTE,
        low=0,
        unit="ms",
        doc="Longest wait of a fetch, whatever the request allows.",
    )
    max_request_partitions: int = key(
        "max.request.partitions", 20_000, low=1, doc="Partitions or topics in one request."
    )
    purgatory_max_requests: int = key(
        "purgatory.max.requests",
        50_000,
        low=1,
        doc="Delayed requests of each kind; more are refused.",
    )

    num_replica_fetchers: int = key(
        "num.replica.fetchers",
        1,
        low=1,
        high=64,
        live=True,
        doc="Fetch sessions with each leader, over which its partitions are spread.",
    )
    replica_fetch_max_bytes: int = key(
        "replica.fetch.max.bytes",
        1 * MIB,
        low=1,
        high=MAX_INT,
        unit="bytes",
        doc="Largest fetch of a follower per partition, unless one batch is larger.",
    )
    replica_fetch_response_max_bytes: int = key(
        "replica.fetch.response.max.bytes",
        10 * MIB,
        low=1,
        high=MAX_INT,
        unit="bytes",
        doc="Largest fetch of a follower, unless one batch is larger.",
    )
    replica_fetch_min_bytes: int = key(
        "replica.fetch.min.bytes",
        1,
        low=0,
        high=MAX_INT,
        unit="bytes",
        doc="Bytes for which a leader delays the response to a follower.",
    )
    replica_fetch_wait_max_ms: int = key(
        "replica.fetch.wait.max.ms",
        500,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="How long a leader waits for replica.fetch.min.bytes; below replica.lag.time.max.ms.",
    )
    replica_fetch_backoff_ms: int = key(
        "replica.fetch.backoff.ms",
        50,
        low=1,
        unit="ms",
        doc="First backoff of a follower after an error of a partition or leader; it doubles.",
    )
    replica_fetch_backoff_max_ms: int = key(
        "replica.fetch.backoff.max.ms",
        1 * SECOND,
        low=1,
        unit="ms",
        doc="Longest backoff of a follower.",
    )
    replica_lag_time_max_ms: int = key(
        "replica.lag.time.max.ms",
        30 * SECOND,
        low=100,
        unit="ms",
        doc="A follower that has not reached the log end for this long is removed from the ISR.",
    )
    leader_replication_throttled_rate: int = key(
        "leader.replication.throttled.rate",
        MAX_LONG,
        low=0,
        high=MAX_LONG,
        unit="bytes/s",
        live=True,
        doc="Replication quota of a leader, for throttled replicas.",
    )
    follower_replication_throttled_rate: int = key(
        "follower.replication.throttled.rate",
        MAX_LONG,
        low=0,
        high=MAX_LONG,
        unit="bytes/s",
        live=True,
        doc="Replication quota of a follower, for throttled replicas.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = key(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        MAX_LONG,
        low=0,
        high=MAX_LONG,
        unit="bytes/s",
        live=True,
        doc="Quota of all moves of replicas between the log dirs of a node.",
    )
    replica_selector_class: str = key(
        "replica.selector.class",
        "",
        choices=("", "RackAwareReplicaSelector"),
        doc="RackAwareReplicaSelector: consumers with a client.rack read from replicas in that rack.",
    )

    log_tail_cache_bytes: int = key(
        "log.tail.cache.bytes",
        64 * MIB,
        low=0,
        unit="bytes",
        live=True,
        doc="Cache of the newest batches of all partitions, for consumers at the log end; 0 for none.",
    )
    log_tail_cache_partition_bytes: int = key(
        "log.tail.cache.partition.bytes",
        16 * MIB,
        low=0,
        unit="bytes",
        live=True,
        doc="Largest share of one partition in log.tail.cache.bytes.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.log_dirs:
            raise ConfigError("log.dirs must name at least one directory")
        if len(set(self.log_dirs)) != len(self.log_dirs):
            raise ConfigError(f"log.dirs names a directory twice: {', '.join(self.log_dirs)}")
        if self.controller_backoff_max_ms < self.controller_backoff_ms:
            raise ConfigError("controller.backoff.max.ms must not be below controller.backoff.ms")
        if self.replica_fetch_backoff_max_ms < self.replica_fetch_backoff_ms:
            raise ConfigError("replica.fetch.backoff.max.ms must not be below replica.fetch.backoff.ms")
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            raise ConfigError("replica.fetch.wait.max.ms must not be above replica.lag.time.max.ms")
        reachable_host(self.listener_host, self.advertised_host)
        self.check_telemetry()

    @property
    def _metrics_listener(self) -> tuple[str, str]:
        return "metrics.listener", self.metrics_listener

    @property
    def host(self) -> str:
        """The host that other servers and clients use."""
        return reachable_host(self.listener_host, self.advertised_host)
