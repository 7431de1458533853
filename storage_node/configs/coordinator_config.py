"""Keys of the group and transaction coordinators, under Kafka's names. Source: Kafka
GroupCoordinatorConfig.java, TransactionStateManagerConfig.java; KIP-848."""

from __future__ import annotations

from dataclasses import dataclass

from ...runtime.config import DAY, MAX_INT, MAX_LONG, MIB, MINUTE, SECOND, Config, key


@dataclass(frozen=True, kw_only=True)
class CoordinatorConfig(Config):
    """The coordinators' keys of a storage node."""

    group_min_session_timeout_ms: int = key(
        "group.min.session.timeout.ms",
        6 * SECOND,
        low=1,
        unit="ms",
        live=True,
        doc="Shortest session timeout of a member of a classic group.",
    )
    group_max_session_timeout_ms: int = key(
        "group.max.session.timeout.ms",
        30 * MINUTE,
        low=1,
        unit="ms",
        live=True,
        doc="Longest session timeout of a member of a classic group.",
    )
    group_initial_rebalance_delay_ms: int = key(
        "group.initial.rebalance.delay.ms",
        3 * SECOND,
        low=0,
        unit="ms",
        live=True,
        doc="How long the first rebalance of an empty group waits for more members.",
    )
    group_max_size: int = key(
        "group.max.size",
        MAX_INT,
        low=1,
        high=MAX_INT,
        live=True,
        doc="Members of a classic group, at most.",
    )
    group_consumer_session_timeout_ms: int = key(
        "group.consumer.session.timeout.ms",
        45 * SECOND,
        low=1,
        unit="ms",
        live=True,
        doc="Session timeout of members of consumer groups.",
    )
    group_consumer_heartbeat_interval_ms: int = key(
        "group.consumer.heartbeat.interval.ms",
        5 * SECOND,
        low=1,
        unit="ms",
        live=True,
        doc="Heartbeat interval of members of consumer groups; shorter after a change of the group.",
    )
    group_consumer_assignment_interval_ms: int = key(
        "group.consumer.assignment.interval.ms",
        1 * SECOND,
        low=0,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Shortest time between two assignments of a consumer group; the first one is not delayed.",
    )
    group_consumer_max_size: int = key(
        "group.consumer.max.size",
        MAX_INT,
        low=1,
        high=MAX_INT,
        live=True,
        doc="Members of a consumer group, at most.",
    )
    group_consumer_assignors: tuple[str, ...] = key(
        "group.consumer.assignors",
        ("uniform", "range"),
        doc="Assignors of consumer groups; the first is the default.",
    )
    group_consumer_regex_refresh_interval_ms: int = key(
        "group.consumer.regex.refresh.interval.ms",
        10 * MINUTE,
        low=10 * SECOND,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="How often the coordinator matches the expressions of consumer groups again, with the rights that"
        " their members have by then; after a topic was created or deleted it does so after 10 seconds.",
    )
    group_consumer_migration_policy: str = key(
        "group.consumer.migration.policy",
        "bidirectional",
        choices=("disabled", "upgrade", "downgrade", "bidirectional"),
        live=True,
        doc="Conversions between classic and consumer groups that are allowed while they have members.",
    )
    group_streams_session_timeout_ms: int = key(
        "group.streams.session.timeout.ms",
        45 * SECOND,
        low=1,
        unit="ms",
        live=True,
        doc="Session timeout of members of streams groups.",
    )
    group_streams_heartbeat_interval_ms: int = key(
        "group.streams.heartbeat.interval.ms",
        5 * SECOND,
        low=1,
        unit="ms",
        live=True,
        doc="Heartbeat interval of members of streams groups; shorter after a change of the group.",
    )
    group_streams_max_size: int = key(
        "group.streams.max.size",
        MAX_INT,
        low=1,
        high=MAX_INT,
        live=True,
        doc="Members of a streams group, at most.",
    )
    group_streams_num_standby_replicas: int = key(
        "group.streams.num.standby.replicas",
        0,
        low=0,
        high=MAX_INT,
        live=True,
        doc="Standby tasks of each stateful task of streams groups.",
    )
    group_streams_num_warmup_replicas: int = key(
        "group.streams.num.warmup.replicas",
        2,
        low=0,
        high=MAX_INT,
        live=True,
        doc="Warm-up tasks of a streams group, at most: a stateful task moves when its warm-up task has"
        " caught up. 0: it moves at once.",
    )
    group_streams_acceptable_recovery_lag: int = key(
        "group.streams.acceptable.recovery.lag",
        10_000,
        low=0,
        high=MAX_LONG,
        live=True,
        doc="Offsets that a warm-up task of a streams group may be behind when its task moves to it.",
    )
    group_streams_task_offset_interval_ms: int = key(
        "group.streams.task.offset.interval.ms",
        60 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="How often members of streams groups report the offsets of their stores.",
    )
    group_streams_initial_rebalance_delay_ms: int = key(
        "group.streams.initial.rebalance.delay.ms",
        3 * SECOND,
        low=0,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="How long the first assignment of an empty streams group waits for more members.",
    )
    group_streams_assignment_interval_ms: int = key(
        "group.streams.assignment.interval.ms",
        1 * SECOND,
        low=0,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Shortest time between two assignments of a streams group.",
    )
    offset_metadata_max_bytes: int = key(
        "offset.metadata.max.bytes",
        4096,
        low=0,
        high=MAX_INT,
        unit="bytes",
        live=True,
        doc="Largest metadata of a committed offset.",
    )
    offsets_retention_minutes: int = key(
        "offsets.retention.minutes",
        10_080,
        low=1,
        high=MAX_INT,
        unit="min",
        live=True,
        doc="Retention of offsets of groups without members, and of topics without a subscription.",
    )
    offsets_retention_check_interval_ms: int = key(
        "offsets.retention.check.interval.ms",
        10 * MINUTE,
        low=1,
        unit="ms",
        doc="Interval of the check for expired offsets.",
    )
    offsets_commit_timeout_ms: int = key(
        "offsets.commit.timeout.ms",
        5 * SECOND,
        low=1,
        unit="ms",
        live=True,
        doc="How long a commit of a coordinator may wait for the ISR.",
    )
    offsets_topic_num_partitions: int = key(
        "offsets.topic.num.partitions",
        50,
        low=1,
        high=10_000,
        doc="Partitions of __consumer_offsets; must not change once the topic exists.",
    )
    offsets_topic_replication_factor: int = key(
        "offsets.topic.replication.factor",
        3,
        low=1,
        high=32_767,
        doc="Replicas of __consumer_offsets; the topic is not created with fewer nodes.",
    )
    offsets_topic_segment_bytes: int = key(
        "offsets.topic.segment.bytes",
        100 * MIB,
        low=MIB,
        high=MAX_INT,
        unit="bytes",
        doc="Segment size of __consumer_offsets; small segments load and compact faster.",
    )
    group_lag_interval_ms: int = key(
        "group.lag.interval.ms",
        15 * SECOND,
        low=0,
        unit="ms",
        live=True,
        doc="Time between two counts of the lag of all groups that a node coordinates; 0: never.",
    )
    group_lag_max_series: int = key(
        "group.lag.max.series",
        2_000,
        low=0,
        high=1_000_000,
        live=True,
        doc="Groups, and partitions of groups, whose lag a node's metrics have: those with the largest.",
    )
    transactional_id_expiration_ms: int = key(
        "transactional.id.expiration.ms",
        7 * DAY,
        low=1,
        unit="ms",
        live=True,
        doc="Expiration of unused transactional ids.",
    )
    transaction_max_timeout_ms: int = key(
        "transaction.max.timeout.ms",
        15 * MINUTE,
        low=1,
        unit="ms",
        live=True,
        doc="Longest transaction timeout of a producer.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10 * SECOND,
        low=1,
        unit="ms",
        doc="Interval of the check for timed-out transactions.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = key(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        60 * MINUTE,
        low=1,
        unit="ms",
        doc="Interval of the check for expired transactional ids.",
    )
    transaction_partition_verification_enable: bool = key(
        "transaction.partition.verification.enable",
        True,
        live=True,
        doc="Verify with the coordinator that a transaction has the partition before its first append.",
    )
    transaction_state_log_num_partitions: int = key(
        "transaction.state.log.num.partitions",
        50,
        low=1,
        high=10_000,
        doc="Partitions of __transaction_state; must not change once the topic exists.",
    )
    transaction_state_log_replication_factor: int = key(
        "transaction.state.log.replication.factor",
        3,
        low=1,
        high=32_767,
        doc="Replicas of __transaction_state; the topic is not created with fewer nodes.",
    )
    transaction_state_log_min_isr: int = key(
        "transaction.state.log.min.isr",
        2,
        low=1,
        high=MAX_INT,
        doc="min.insync.replicas of __transaction_state.",
    )
    transaction_state_log_segment_bytes: int = key(
        "transaction.state.log.segment.bytes",
        100 * MIB,
        low=MIB,
        high=MAX_INT,
        unit="bytes",
        doc="Segment size of __transaction_state.",
    )
