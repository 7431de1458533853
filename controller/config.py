"""Keys of the controller: Kafka's names where Kafka has the idea."""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol.errors import ConfigError
from ..runtime.config import KIB, MAX_INT, MIB, MINUTE, SECOND, key
from ..storage_node.log.listener_memory import MAX_PORT, reachable_host
from .group_bounds import GroupBounds


@dataclass(frozen=True, kw_only=True)
class ControllerConfig(GroupBounds):
    """Keys of one controller process."""

    controller_id: int = key(
        "controller.id", 1, low=0, high=MAX_INT, doc="The id of this controller among the voters."
    )
    metadata_log_dir: str = key(
        "metadata.log.dir", "", doc="The folder that holds the metadata log and its snapshots. Required."
    )
    listener_host: str = key("listener.host", "127.0.0.1", doc="The address to bind; 0.0.0.0 for all.")
    advertised_host: str = key(
        "advertised.host",
        "",
        doc="Name or address by which nodes reach the controller; empty takes listener.host.",
    )
    listener_port: int = key(
        "listener.port",
        0,
        low=0,
        high=65_535,
        doc="The port to listen on; 0 takes the one of the last start again, or else any free one.",
    )
    advertised_port: int = key(
        "advertised.port",
        0,
        low=0,
        high=65_535,
        doc="Port at which others reach this controller, as of a proxy before it; 0 takes the bound one.",
    )
    num_partitions: int = key(
        "num.partitions",
        1,
        low=1,
        high=MAX_INT,
        live=True,
        doc="Partitions of a topic that does not say how many.",
    )
    default_replication_factor: int = key(
        "default.replication.factor",
        1,
        low=1,
        high=32_767,
        live=True,
        doc="Replicas of a topic that does not say; `headrace up` sets 3, or as many as there are nodes.",
    )
    min_insync_replicas: int = key(
        "min.insync.replicas",
        1,
        low=1,
        high=MAX_INT,
        doc="What a new cluster starts with as its cluster-wide min.insync.replicas; change it there later."
        " `headrace up` sets 2 for three nodes and more.",
    )
    unclean_leader_election_enable: bool = key(
        "unclean.leader.election.enable",
        False,
        live=True,
        doc="Rather lose acknowledged records than stay without a leader, where no other config says so.",
    )
    unclean_leader_election_interval_ms: int = key(
        "unclean.leader.election.interval.ms",
        5 * MINUTE,
        low=1,
        unit="ms",
        live=True,
        doc="How often leaderless partitions that allow it are looked through for an unclean election.",
    )
    unclean_recovery_strategy: str = key(
        "unclean.recovery.strategy",
        "Balanced",
        choices=("Balanced", "None"),
        live=True,
        doc="Balanced: when no replica is known to have every record, the last leader leads again. None: an "
        "operator must decide.",
    )
    auto_leader_rebalance_enable: bool = key(
        "auto.leader.rebalance.enable", True, live=True, doc="Bring preferred leaders back by and by."
    )
    leader_imbalance_check_interval_seconds: int = key(
        "leader.imbalance.check.interval.seconds",
        300,
        low=1,
        unit="s",
        live=True,
        doc="How often to look for imbalance.",
    )
    leader_imbalance_per_broker_percentage: int = key(
        "leader.imbalance.per.broker.percentage",
        10,
        low=0,
        high=100,
        unit="%",
        live=True,
        doc="Bring leaders back to a node once others lead more of the partitions that prefer it.",
    )
    broker_heartbeat_interval_ms: int = key(
        "broker.heartbeat.interval.ms", 300, low=10, unit="ms", doc="How often a storage node must be heard."
    )
    broker_session_timeout_ms: int = key(
        "broker.session.timeout.ms",
        1500,
        low=50,
        unit="ms",
        doc="A storage node that sent no heartbeat for this long is fenced, unless its heartbeats were late "
        "before: see broker.session.timeout.max.ms.",
    )
    broker_session_timeout_max_ms: int = key(
        "broker.session.timeout.max.ms",
        9 * SECOND,
        low=50,
        unit="ms",
        doc="The longest session timeout of a node whose heartbeats were late in the last minute, as on a "
        "busy machine: the heartbeat interval and three times the largest lateness. A value up to "
        "broker.session.timeout.ms makes the timeout constant.",
    )
    reserved_broker_max_id: int = key(
        "reserved.broker.max.id", 1000, low=0, high=MAX_INT - 1, doc="Generated node ids start above this."
    )
    metadata_log_segment_bytes: int = key(
        "metadata.log.segment.bytes",
        64 * MIB,
        low=64 * MIB,  # Bound: the largest decision must fit
        high=MAX_INT,
        unit="bytes",
        doc="Roll the metadata log's active segment before it would grow past this.",
    )
    snapshot_interval_bytes: int = key(
        "metadata.log.max.record.bytes.between.snapshots",
        20 * MIB,
        low=1,
        unit="bytes",
        doc="Write a snapshot once this many bytes of records were appended since the last one.",
    )
    max_topics_per_request: int = key(
        "max.topics.per.request", 1000, low=1, doc="Topics or resources that one request may name."
    )
    # Bound: a decision is one record batch; 10,000 new partitions at about 60 bytes make 0.6 MB of it.
    max_partitions_per_request: int = key(
        "max.partitions.per.request", 10_000, low=1, doc="Partitions that one request may create."
    )
    # Bound: one topic each with the longest name is a snapshot of 50 MB, which a reader takes as one answer.
    max_partitions: int = key(
        "max.partitions", 100_000, low=1, high=150_000, doc="Partitions that the whole cluster may have."
    )
    # Bound: what a reader takes as one answer is 64 MiB, of which topics and partitions may need 50 MB.
    max_config_bytes: int = key(
        "max.config.bytes",
        12 * MIB,
        low=0,
        high=12 * MIB,
        unit="bytes",
        doc="What the configs of all topics and nodes may take in the metadata, names included.",
    )
    max_storage_nodes: int = key(
        "max.storage.nodes", 1000, low=1, high=10_000, doc="Storage nodes that may be registered."
    )
    max_queued_requests: int = key(
        "queued.max.requests", 2000, low=1, doc="Requests that may wait for a decision; more are refused."
    )
    purgatory_max_requests: int = key(
        "purgatory.max.requests", 10_000, low=1, doc="Long polls of metadata that may wait at once."
    )
    # Bound: a reader that is further behind than this gets a snapshot, so this is only a short memory.
    metadata_tail_records: int = key(
        "metadata.tail.max.records", 50_000, low=0, doc="Newest metadata records kept in memory for readers."
    )
    metadata_fetch_max_records: int = key(
        "metadata.fetch.max.records", 10_000, low=1, doc="Records that one answer to a metadata poll holds."
    )
    metadata_fetch_max_wait_ms: int = key(
        "metadata.fetch.max.wait.ms",
        MINUTE,
        low=1,
        unit="ms",
        doc="The longest that a metadata poll may wait.",
    )
    socket_request_max_bytes: int = key(
        "socket.request.max.bytes", 4 * MIB, low=KIB, high=MAX_INT, unit="bytes", doc="The largest request."
    )
    # Bound: ten readers of the largest snapshot at once; they share its bytes, but each counts.
    queued_max_response_bytes: int = key(
        "queued.max.response.bytes",
        512 * MIB,
        low=MIB,
        unit="bytes",
        doc="Responses not yet taken by their readers, all connections together.",
    )
    checkpoint_interval_ms: int = key(
        "metadata.log.checkpoint.interval.ms",
        1 * SECOND,
        low=10,
        unit="ms",
        doc="How often to remember how much of the metadata log is durable, if that has changed.",
    )
    quorum_bootstrap_servers: tuple[str, ...] = key(
        "controller.quorum.bootstrap.servers",
        (),
        doc="host:port of controllers of the quorum, by which one that knows none of its voters finds them. "
        "Without any, a controller with an empty disk begins a quorum of its own.",
    )
    quorum_election_timeout_ms: int = key(
        "controller.quorum.election.timeout.ms",
        1000,
        low=10,
        unit="ms",
        doc="How long a voter waits for a leader, or for the votes it asked for, before it asks (again); "
        "up to twice as long, by chance.",
    )
    quorum_fetch_timeout_ms: int = key(
        "controller.quorum.fetch.timeout.ms",
        2000,
        low=20,
        unit="ms",
        doc="A voter that could not fetch from the leader for this long asks for votes; a leader from which "
        "no majority fetched for one and a half times as long resigns.",
    )
    quorum_election_backoff_max_ms: int = key(
        "controller.quorum.election.backoff.max.ms",
        1000,
        low=1,
        unit="ms",
        doc="The longest that a voter waits, by chance, after an election that it lost.",
    )
    quorum_request_timeout_ms: int = key(
        "controller.quorum.request.timeout.ms",
        2000,
        low=10,
        unit="ms",
        doc="How long one controller waits for the answer of another.",
    )
    quorum_retry_backoff_ms: int = key(
        "controller.quorum.retry.backoff.ms",
        20,
        low=1,
        unit="ms",
        doc="How long to wait before a request that failed is repeated.",
    )
    quorum_auto_join: bool = key(
        "controller.quorum.auto.join.enable",
        False,
        doc="Whether a controller that is no voter asks to become one, in place of the voter with its id.",
    )
    lock_timeout_ms: int = key(
        "metadata.log.lock.timeout.ms",
        5 * SECOND,
        low=0,
        unit="ms",
        doc="How long a start waits for a process before it, just killed, to let go of the folder.",
    )
    shutdown_timeout_ms: int = key(
        "controller.shutdown.timeout.ms",
        5 * SECOND,
        low=0,
        unit="ms",
        doc="How long a stop waits for writes.",
    )

    controller_quota_window_num: int = key(
        "controller.quota.window.num",
        11,
        low=1,
        high=1_000,
        doc="Windows over which the changes of the metadata of clients with quotas are measured; what these"
        " hold may come at once.",
    )
    controller_quota_window_size_seconds: int = key(
        "controller.quota.window.size.seconds",
        1,
        low=1,
        high=3_600,
        unit="s",
        doc="Length of each of these windows.",
    )

    @property
    def bootstrap_endpoints(self) -> tuple[tuple[str, int], ...]:
        """The bootstrap servers. Errors: ConfigError for one that is not host:port."""
        return tuple(_endpoint(text) for text in self.quorum_bootstrap_servers)

    @property
    def host(self) -> str:
        """Where nodes reach the controller."""
        return reachable_host(self.listener_host, self.advertised_host)

    def __post_init__(self) -> None:
        super().__post_init__()
        reachable_host(self.listener_host, self.advertised_host)
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
