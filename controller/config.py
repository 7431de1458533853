"""Keys of the controller: Kafka's names where Kafka has the idea."""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol.errors import ConfigError
from ..runtime.config import DAY, HOUR, KIB, MAX_INT, MIB, MINUTE, SECOND, key
from ..runtime.listener_address import MAX_PORT, reachable_host
from ..runtime.server_security_config import ServerSecurityConfig
from ..runtime.telemetry_config import TelemetryConfig
from .group_bounds import GroupBounds


@dataclass(frozen=True, kw_only=True)
class ControllerConfig(GroupBounds, ServerSecurityConfig, TelemetryConfig):
    """Keys of one controller process."""

    controller_id: int = key(
        "controller.id", 1, low=0, high=MAX_INT, doc="Id of this controller among the voters."
    )
    metadata_log_dir: str = key(
        "metadata.log.dir", "", doc="Directory of the metadata log and its snapshots. Required."
    )
    listener_host: str = key("listener.host", "127.0.0.1", doc="Address to bind; 0.0.0.0 for all.")
    advertised_host: str = key(
        "advertised.host",
        "",
        doc="Host that other servers use for this controller; empty: listener.host.",
    )
    listener_port: int = key(
        "listener.port",
        0,
        low=0,
        high=65_535,
        doc="Port to bind; 0: the port of the last run, or else any free port.",
    )
    advertised_port: int = key(
        "advertised.port",
        0,
        low=0,
        high=65_535,
        doc="Port that other servers use, such as that of a proxy; 0: the bound port.",
    )
    controller_metrics_listener: str = key(
        "controller.metrics.listener",
        "",
        doc="host:port where Prometheus scrapes this controller (/metrics); empty: none. Port 0: any free"
        " port, which is stored and used again. Further controllers of a cluster use the following ports.",
    )
    num_partitions: int = key(
        "num.partitions",
        1,
        low=1,
        high=MAX_INT,
        live=True,
        doc="Default number of partitions of a topic.",
    )
    default_replication_factor: int = key(
        "default.replication.factor",
        1,
        low=1,
        high=32_767,
        live=True,
        doc="Default number of replicas; `headrace up` sets 3, or the number of nodes if that is less.",
    )
    min_insync_replicas: int = key(
        "min.insync.replicas",
        1,
        low=1,
        high=MAX_INT,
        doc="Cluster-wide min.insync.replicas of a new cluster; later it is changed as a cluster config."
        " `headrace up` sets 2 with three or more nodes.",
    )
    unclean_leader_election_enable: bool = key(
        "unclean.leader.election.enable",
        False,
        live=True,
        doc="Default of topics: whether an unclean election is allowed when no eligible replica is active.",
    )
    unclean_leader_election_interval_ms: int = key(
        "unclean.leader.election.interval.ms",
        5 * MINUTE,
        low=1,
        unit="ms",
        live=True,
        doc="Interval of the check for partitions without a leader that allow unclean elections.",
    )
    unclean_recovery_strategy: str = key(
        "unclean.recovery.strategy",
        "Balanced",
        choices=("Balanced", "None"),
        live=True,
        doc="Balanced: while ISR and ELR are empty, the last known leader is elected. None: an "
        "operator has to elect a leader.",
    )
    auto_leader_rebalance_enable: bool = key(
        "auto.leader.rebalance.enable", True, live=True, doc="Elect preferred leaders periodically."
    )
    leader_imbalance_check_interval_seconds: int = key(
        "leader.imbalance.check.interval.seconds",
        300,
        low=1,
        unit="s",
        live=True,
        doc="Interval of the check for imbalanced leaders.",
    )
    leader_imbalance_per_broker_percentage: int = key(
        "leader.imbalance.per.broker.percentage",
        10,
        low=0,
        high=100,
        unit="%",
        live=True,
        doc="Preferred leaders are elected once other nodes lead more of a node's preferred partitions.",
    )
    broker_heartbeat_interval_ms: int = key(
        "broker.heartbeat.interval.ms",
        300,
        low=10,
        unit="ms",
        doc="Interval of the heartbeats of storage nodes.",
    )
    broker_session_timeout_ms: int = key(
        "broker.session.timeout.ms",
        1500,
        low=50,
        unit="ms",
        doc="A storage node without a heartbeat for this long is fenced, unless its heartbeats were late "
        "before: see broker.session.timeout.max.ms.",
    )
    broker_session_timeout_max_ms: int = key(
        "broker.session.timeout.max.ms",
        9 * SECOND,
        low=50,
        unit="ms",
        doc="Longest session timeout of a node whose heartbeats were late in the last minute, as on a "
        "busy machine: the heartbeat interval plus three times the largest lateness. A value up to "
        "broker.session.timeout.ms makes the timeout constant.",
    )
    reserved_broker_max_id: int = key(
        "reserved.broker.max.id", 1000, low=0, high=MAX_INT - 1, doc="Generated node ids are above this."
    )
    metadata_log_segment_bytes: int = key(
        "metadata.log.segment.bytes",
        64 * MIB,
        low=64 * MIB,  # Bound: the largest decision must fit
        high=MAX_INT,
        unit="bytes",
        doc="Largest segment of the metadata log.",
    )
    snapshot_interval_bytes: int = key(
        "metadata.log.max.record.bytes.between.snapshots",
        20 * MIB,
        low=1,
        unit="bytes",
        doc="A snapshot is written after so many bytes of records.",
    )
    max_topics_per_request: int = key(
        "max.topics.per.request", 1000, low=1, doc="Topics or resources in one request."
    )
    # Bound: a decision is one record batch; 10,000 new partitions at about 60 bytes make 0.6 MB of it.
    max_partitions_per_request: int = key(
        "max.partitions.per.request", 10_000, low=1, doc="Partitions that one request may create, at most."
    )
    # Bound: one topic each with the longest name is a snapshot of 50 MB, which a reader takes as one answer.
    max_partitions: int = key(
        "max.partitions", 100_000, low=1, high=150_000, doc="Partitions of the cluster, at most."
    )
    # Bound: what a reader takes as one answer is 96 MiB, of which topics and partitions may need 50 MB,
    # and rules, credentials and delegation tokens 25 MB.
    max_config_bytes: int = key(
        "max.config.bytes",
        12 * MIB,
        low=0,
        high=12 * MIB,
        unit="bytes",
        doc="Size of all dynamic configs in the metadata, with their names, at most.",
    )
    max_storage_nodes: int = key(
        "max.storage.nodes", 1000, low=1, high=10_000, doc="Registered storage nodes, at most."
    )
    max_queued_requests: int = key(
        "queued.max.requests", 2000, low=1, doc="Requests that wait for a decision; more are refused."
    )
    purgatory_max_requests: int = key(
        "purgatory.max.requests",
        10_000,
        low=1,
        doc="Metadata fetches that wait at the same time; more are refused.",
    )
    # Bound: a reader that is further behind than this gets a snapshot, so this is only a short memory.
    metadata_tail_records: int = key(
        "metadata.tail.max.records",
        50_000,
        low=0,
        doc="Newest metadata records in memory; readers further behind get a snapshot.",
    )
    metadata_fetch_max_records: int = key(
        "metadata.fetch.max.records", 10_000, low=1, doc="Records in one response to a metadata fetch."
    )
    metadata_fetch_max_wait_ms: int = key(
        "metadata.fetch.max.wait.ms",
        MINUTE,
        low=1,
        unit="ms",
        doc="Longest wait of a metadata fetch.",
    )
    socket_request_max_bytes: int = key(
        "socket.request.max.bytes", 4 * MIB, low=KIB, high=MAX_INT, unit="bytes", doc="Largest request frame."
    )
    # Bound: ten readers of the largest snapshot at once; they share its bytes, but each counts.
    queued_max_response_bytes: int = key(
        "queued.max.response.bytes",
        512 * MIB,
        low=MIB,
        unit="bytes",
        doc="Memory of responses that clients have not read, on all connections.",
    )
    checkpoint_interval_ms: int = key(
        "metadata.log.checkpoint.interval.ms",
        1 * SECOND,
        low=10,
        unit="ms",
        doc="Interval of the checkpoint of the committed offset.",
    )
    quorum_bootstrap_servers: tuple[str, ...] = key(
        "controller.quorum.bootstrap.servers",
        (),
        doc="host:port of controllers of the quorum, for a controller that does not know the voters. "
        "Without it a controller with an empty directory begins a quorum of its own.",
    )
    quorum_election_timeout_ms: int = key(
        "controller.quorum.election.timeout.ms",
        1000,
        low=10,
        unit="ms",
        doc="How long a voter waits for a leader, or for votes, before the next election; "
        "randomized up to twice as long.",
    )
    quorum_fetch_timeout_ms: int = key(
        "controller.quorum.fetch.timeout.ms",
        2000,
        low=20,
        unit="ms",
        doc="A voter without a successful fetch for this long starts an election; a leader from which "
        "no majority fetched for one and a half times as long resigns.",
    )
    quorum_election_backoff_max_ms: int = key(
        "controller.quorum.election.backoff.max.ms",
        1000,
        low=1,
        unit="ms",
        doc="Longest random backoff after a lost election.",
    )
    quorum_request_timeout_ms: int = key(
        "controller.quorum.request.timeout.ms",
        2000,
        low=10,
        unit="ms",
        doc="Timeout of requests between controllers.",
    )
    quorum_retry_backoff_ms: int = key(
        "controller.quorum.retry.backoff.ms",
        20,
        low=1,
        unit="ms",
        doc="Backoff of failed requests between controllers.",
    )
    quorum_auto_join: bool = key(
        "controller.quorum.auto.join.enable",
        False,
        doc="Whether a controller that is no voter joins the quorum, replacing the voter with its id.",
    )
    lock_timeout_ms: int = key(
        "metadata.log.lock.timeout.ms",
        5 * SECOND,
        low=0,
        unit="ms",
        doc="How long a start waits until the previous process releases the lock of the directory.",
    )
    shutdown_timeout_ms: int = key(
        "controller.shutdown.timeout.ms",
        5 * SECOND,
        low=0,
        unit="ms",
        doc="How long a stop waits for unanswered requests.",
    )

    controller_quota_window_num: int = key(
        "controller.quota.window.num",
        11,
        low=1,
        high=1_000,
        doc="Sample windows of controller_mutation_rate; a burst may use the quota of all windows at once.",
    )
    controller_quota_window_size_seconds: int = key(
        "controller.quota.window.size.seconds",
        1,
        low=1,
        high=3_600,
        unit="s",
        doc="Length of each sample window.",
    )

    delegation_token_secret_key: str = key(
        "delegation.token.secret.key",
        "",
        sensitive=True,
        doc="Key of the HMACs of delegation tokens, the same on all servers; empty: there are no tokens.",
    )
    delegation_token_max_lifetime_ms: int = key(
        "delegation.token.max.lifetime.ms",
        7 * DAY,
        low=1,
        unit="ms",
        doc="Longest lifetime of a delegation token; it cannot be renewed beyond.",
    )
    delegation_token_expiry_time_ms: int = key(
        "delegation.token.expiry.time.ms",
        DAY,
        low=1,
        unit="ms",
        doc="How long a delegation token is valid before it has to be renewed.",
    )
    delegation_token_expiry_check_interval_ms: int = key(
        "delegation.token.expiry.check.interval.ms",
        HOUR,
        low=1,
        unit="ms",
        doc="Interval of the removal of expired delegation tokens.",
    )

    @property
    def bootstrap_endpoints(self) -> tuple[tuple[str, int], ...]:
        """The bootstrap servers. Errors: ConfigError for one that is not host:port."""
        return tuple(_endpoint(text) for text in self.quorum_bootstrap_servers)

    @property
    def _metrics_listener(self) -> tuple[str, str]:
        return "controller.metrics.listener", self.controller_metrics_listener

    @property
    def host(self) -> str:
        """Where nodes reach the controller."""
        return reachable_host(self.listener_host, self.advertised_host)

    def __post_init__(self) -> None:
        super().__post_init__()
        reachable_host(self.listener_host, self.advertised_host)
        self.check_telemetry()
        _ = self.bootstrap_endpoints
        if not self.metadata_log_dir:
            raise ConfigError("metadata.log.dir must name a folder")
        if self.broker_session_timeout_ms <= self.broker_heartbeat_interval_ms:
            raise ConfigError(
                f"broker.session.timeout.ms {self.broker_session_timeout_ms} must be longer than "
                f"broker.heartbeat.interval.ms {self.broker_heartbeat_interval_ms}"
            )


def _endpoint(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= MAX_PORT:
        raise ConfigError(f"controller.quorum.bootstrap.servers has {text!r}, which is not host:port")
    return host.strip("[]"), int(port)
