"""The alert rules for Prometheus. Pure data; each has a section in docs/RUNBOOK.md, and a test.

They are for one cluster per Prometheus, or per `cluster` label: what is summed over servers is summed by it.
Expressions name metrics of runtime/telemetry/table.py, `up`, and nothing else (`tests/tidy`).
"""

from __future__ import annotations

from .alert_rule import PAGE, TICKET, AlertRule

_UP = 'up{job=~".*headrace.*"}'
_ACTIVE = "kafka_controller_kafkacontroller_activecontrollercount"
_TIMES = "kafka_network_requestmetrics_totaltimems_bucket"
_WAITS = "kafka_network_requestmetrics_remotetimems_bucket"
_SHRINKS = "kafka_server_replicamanager_isrshrinks_total"
_PRODUCED = "kafka_server_brokertopicmetrics_failedproducerequests_total"
_FETCHED = "kafka_server_brokertopicmetrics_failedfetchrequests_total"
_FREE, _SIZE = "headrace_log_manager_disk_free_bytes", "headrace_log_manager_disk_total_bytes"
_OF_GROUPS = "kafka_server_group_coordinator_metrics_num_partitions"
_OF_TRANSACTIONS = "kafka_server_transaction_coordinator_metrics_num_partitions"
_CLASSIC = "kafka_server_group_coordinator_metrics_group_completed_rebalance_total"
_CONSUMER = "kafka_server_group_coordinator_metrics_consumer_group_rebalance_total"
_EXPIRY = "headrace_tls_certificate_not_after_seconds"
_LAG, _LAG_AGE = "kafka_consumergroup_lag_sum", "kafka_consumergroup_lag_seconds_max"

CONTROLLERS = (
    AlertRule(
        "HeadraceNoActiveController",
        f"(sum by (cluster) ({_ACTIVE}) or 0 * sum by (cluster) ({_UP})) < 1",  # also if all are down
        "30s",
        PAGE,
        "No controller is active: metadata cannot change, and a failed leader is not replaced.",
    ),
    AlertRule(
        "HeadraceSeveralActiveControllers",
        f"sum by (cluster) ({_ACTIVE}) > 1",
        "2m",
        PAGE,
        "{{ $value }} controllers say that they are active.",
    ),
    AlertRule(
        "HeadraceOfflinePartitions",
        "max by (cluster) (kafka_controller_kafkacontroller_offlinepartitionscount) > 0",
        "30s",
        PAGE,
        "{{ $value }} partitions have no leader: they can be neither written nor read.",
    ),
    AlertRule(
        "HeadraceFencedNodes",
        "max by (cluster) (kafka_controller_kafkacontroller_fencedbrokercount) > 0",
        "1m",
        PAGE,
        "{{ $value }} registered nodes send no heartbeats.",
    ),
    AlertRule(
        "HeadraceUncleanElection",
        "max by (cluster) (increase(kafka_controller_controllerstats_uncleanleaderelections_total[10m])) > 0",
        "0s",
        PAGE,
        "A leader was elected that may lack acknowledged records.",
    ),
    AlertRule(
        "HeadraceControllerSlow",
        "histogram_quantile(0.99, sum by (cluster, le)"
        " (rate(kafka_controller_controllereventmanager_eventqueueprocessingtimems_bucket[5m]))) > 1000",
        "5m",
        TICKET,
        "1 % of the controller's decisions take longer than {{ $value }} ms until they are committed.",
    ),
    AlertRule(
        "HeadracePreferredLeaderImbalance",
        "max by (cluster) (kafka_controller_kafkacontroller_preferredreplicaimbalancecount)"
        " / max by (cluster) (kafka_controller_kafkacontroller_globalpartitioncount) > 0.1",
        "30m",
        TICKET,
        "{{ $value | humanizePercentage }} of the partitions are not led by their preferred replica.",
    ),
    AlertRule(
        "HeadraceLeaderSkew",
        "max by (cluster) (headrace_kafka_controller_leader_skew) > 1.5"
        " and max by (cluster) (kafka_controller_kafkacontroller_globalpartitioncount) > 20",
        "1h",
        TICKET,
        "A node leads {{ $value }} times as many partitions as the average.",
    ),
    AlertRule(
        "HeadraceReplicaSkew",
        "max by (cluster) (headrace_kafka_controller_replica_skew) > 1.5"
        " and max by (cluster) (kafka_controller_kafkacontroller_globalpartitioncount) > 20",
        "1h",
        TICKET,
        "A node has {{ $value }} times as many replicas as the average.",
    ),
)

QUORUM = (
    AlertRule(
        "HeadraceQuorumWithoutLeader",
        "max by (cluster) (kafka_server_raft_metrics_current_leader) < 0",
        "30s",
        PAGE,
        "No controller knows a leader of the quorum.",
    ),
    AlertRule(
        "HeadraceQuorumVoterMissing",
        "max by (cluster) (kafka_server_raft_metrics_number_of_voters)"
        " > count by (cluster) (kafka_server_raft_metrics_current_epoch)",
        "5m",
        TICKET,
        "{{ $value }} controllers have a vote, and fewer of them run: one more loss may stop the quorum.",
    ),
    AlertRule(
        "HeadraceQuorumElections",
        "max by (cluster) (changes(kafka_server_raft_metrics_current_epoch[15m])) > 3",
        "0s",
        TICKET,
        "{{ $value }} elections of controllers within 15 minutes.",
    ),
    AlertRule(
        "HeadraceQuorumCommitSlow",
        "histogram_quantile(0.99, sum by (cluster, le)"
        " (rate(kafka_server_raft_metrics_commit_latency_bucket[5m]))) > 500",
        "5m",
        TICKET,
        "1 % of the commits to the metadata log take longer than {{ $value }} ms.",
    ),
    AlertRule(
        "HeadraceQuorumVoterBehind",
        "max by (cluster) (kafka_server_raft_metrics_high_watermark)"
        " - on (cluster) group_right kafka_server_raft_metrics_log_end_offset > 1000",
        "5m",
        TICKET,
        "{{ $labels.instance }} lacks {{ $value }} committed records of the metadata log.",
    ),
)

REPLICATION = (
    AlertRule(
        "HeadraceUnderMinIsr",
        "sum by (cluster) (kafka_server_replicamanager_underminisrpartitioncount) > 0",
        "1m",
        PAGE,
        "{{ $value }} partitions have fewer in-sync replicas than min.insync.replicas: acks=all fails.",
    ),
    AlertRule(
        "HeadraceUnderReplicated",
        "sum by (cluster) (kafka_server_replicamanager_underreplicatedpartitions) > 0",
        "5m",
        TICKET,
        "{{ $value }} partitions have replicas that are not in sync.",
    ),
    AlertRule(
        "HeadraceAtMinIsr",
        "sum by (cluster) (headrace_replica_manager_under_replicated_at_min_isr) > 0",
        "15m",
        TICKET,
        "{{ $value }} partitions have just min.insync.replicas in-sync replicas: the next loss stops writes.",
    ),
    AlertRule(
        "HeadraceIsrFlapping",
        f"count_over_time((sum by (cluster) (increase({_SHRINKS}[3m])) > 0)[15m:3m]) > 3",
        "0s",
        TICKET,
        "ISRs lost replicas in {{ $value }} of the last five intervals of three minutes.",
    ),
    AlertRule(
        "HeadraceReplicaLag",
        "max by (cluster, instance) (kafka_server_replicafetchermanager_maxlag) > 100000",
        "10m",
        TICKET,
        "A replica on {{ $labels.instance }} lacks {{ $value }} records of its leader.",
    ),
    AlertRule(
        "HeadraceOfflineReplicas",
        "sum by (cluster) (kafka_server_replicamanager_offlinereplicacount) > 0",
        "1m",
        TICKET,
        "{{ $value }} replicas are on log dirs that failed.",
    ),
    AlertRule(
        "HeadraceReassignmentStuck",
        "sum by (cluster) (min_over_time(kafka_server_replicamanager_reassigningpartitions[1h])) > 0",
        "6h",
        TICKET,
        "Partitions have been moving for more than 6 hours.",
    ),
)

DISKS = (
    AlertRule(
        "HeadraceLogDirOffline",
        "max by (cluster, instance, logDirectory) (kafka_log_logmanager_logdirectoryoffline) > 0",
        "0s",
        PAGE,
        "The disk of {{ $labels.logDirectory }} on {{ $labels.instance }} failed.",
    ),
    AlertRule(
        "HeadraceLogDirFull",
        "max by (cluster, instance, directory) (headrace_log_manager_log_directory_full) > 0",
        "0s",
        PAGE,
        "{{ $labels.directory }} on {{ $labels.instance }} is full and refuses records.",
    ),
    AlertRule(
        "HeadraceDiskLow",
        f"{_FREE} / {_SIZE} < 0.15",
        "5m",
        TICKET,
        "{{ $value | humanizePercentage }} of the disk of {{ $labels.directory }} on"
        " {{ $labels.instance }} is free.",
    ),
    AlertRule(
        "HeadraceDiskFullSoon",
        f"predict_linear({_FREE}[1h], 4 * 3600) < 0 and {_FREE} / {_SIZE} < 0.4",
        "15m",
        PAGE,
        "At the rate of the last hour the disk of {{ $labels.directory }} on {{ $labels.instance }} is full"
        " within 4 hours.",
    ),
    AlertRule(
        "HeadraceCompactionFails",
        "sum by (cluster, instance) (kafka_log_logcleanermanager_uncleanable_partitions_count) > 0",
        "5m",
        TICKET,
        "{{ $value }} partitions on {{ $labels.instance }} cannot be compacted and grow without a bound.",
    ),
    AlertRule(
        "HeadraceCompactionBehind",
        "max by (cluster, instance) (kafka_log_logcleanermanager_max_dirty_percent) > 90",
        "6h",
        TICKET,
        "{{ $value }} % of a compacted log on {{ $labels.instance }} is not compacted.",
    ),
)

SERVERS = (
    AlertRule(
        "HeadraceServerDown",
        f"{_UP} == 0",
        "1m",
        PAGE,
        "{{ $labels.instance }} cannot be scraped.",
    ),
    AlertRule(
        "HeadraceServerRestarts",
        'changes(process_start_time_seconds{job=~".*headrace.*"}[30m]) > 2',
        "0s",
        TICKET,
        "{{ $labels.instance }} was started {{ $value }} times within 30 minutes.",
    ),
    AlertRule(
        "HeadraceEventLoopBusy",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent < 0.3",
        "10m",
        TICKET,
        "The event loop of {{ $labels.instance }} is idle for {{ $value | humanizePercentage }} of the time.",
    ),
    AlertRule(
        "HeadraceEventLoopSaturated",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent < 0.1",
        "5m",
        PAGE,
        "The event loop of {{ $labels.instance }} is idle for {{ $value | humanizePercentage }} of the time.",
    ),
    AlertRule(
        "HeadraceEventLoopStalls",
        "headrace_event_loop_longest_stall_seconds > 1",
        "1m",
        TICKET,
        "The event loop of {{ $labels.instance }} stood still for {{ $value }} s.",
    ),
    AlertRule(
        "HeadraceMetricsStale",
        "headrace_metrics_age_seconds > 30",
        "1m",
        PAGE,
        "{{ $labels.instance }} has not answered for {{ $value }} s, although its process runs.",
    ),
    AlertRule(
        "HeadraceControllerUnreachable",
        "headrace_broker_metadata_metrics_seconds_since_controller > 30",
        "1m",
        PAGE,
        "{{ $labels.instance }} has had no response of the controller for {{ $value }} s.",
    ),
    AlertRule(
        "HeadraceMetadataBehind",
        "max by (cluster) (kafka_controller_kafkacontroller_lastappliedrecordoffset)"
        " - on (cluster) group_right kafka_server_broker_metadata_metrics_last_applied_record_offset > 1000",
        "5m",
        TICKET,
        "{{ $labels.instance }} lacks {{ $value }} metadata records.",
    ),
    AlertRule(
        "HeadraceFileDescriptorsLow",
        'process_open_fds{job=~".*headrace.*"} / process_max_fds > 0.8',
        "10m",
        TICKET,
        "{{ $labels.instance }} uses {{ $value | humanizePercentage }} of its file descriptors.",
    ),
    AlertRule(
        "HeadraceCertificateExpires",
        f"{_EXPIRY} - time() < 14 * 86400",
        "1h",
        TICKET,
        "The certificate of {{ $labels.listener }} on {{ $labels.instance }} expires within 14 days.",
    ),
    AlertRule(
        "HeadraceCertificateExpiresSoon",
        f"{_EXPIRY} - time() < 2 * 86400",
        "5m",
        PAGE,
        "The certificate of {{ $labels.listener }} on {{ $labels.instance }} expires within 2 days.",
    ),
)

REQUESTS = (
    AlertRule(
        "HeadraceProduceSlow",
        f'histogram_quantile(0.99, sum by (cluster, le) (rate({_TIMES}{{request="Produce"}}[5m]))) > 1000',
        "10m",
        TICKET,
        "1 % of the Produce requests take longer than {{ $value }} ms.",
    ),
    AlertRule(
        "HeadraceReplicationSlow",
        f'histogram_quantile(0.99, sum by (cluster, le) (rate({_WAITS}{{request="Produce"}}[5m]))) > 500',
        "10m",
        TICKET,
        "1 % of the Produce requests wait for replicas or disks for longer than {{ $value }} ms.",
    ),
    AlertRule(
        "HeadraceProduceFails",
        f'sum by (cluster, instance) (rate({_PRODUCED}{{topic=""}}[5m])) > 1',
        "5m",
        PAGE,
        "{{ $value }} entries of Produce requests per second fail on {{ $labels.instance }}.",
    ),
    AlertRule(
        "HeadraceFetchFails",
        f'sum by (cluster, instance) (rate({_FETCHED}{{topic=""}}[5m])) > 1',
        "5m",
        TICKET,
        "{{ $value }} entries of Fetch requests per second fail on {{ $labels.instance }}.",
    ),
    AlertRule(
        "HeadraceBytesRejected",
        "sum by (cluster, topic)"
        ' (increase(kafka_server_brokertopicmetrics_bytesrejected_total{topic!=""}[10m])) > 0',
        "0s",
        TICKET,
        "Batches for {{ $labels.topic }} are larger than max.message.bytes.",
    ),
    AlertRule(
        "HeadracePurgatoryLarge",
        "kafka_server_delayedoperationpurgatory_purgatorysize > 5000",
        "10m",
        TICKET,
        "{{ $value }} requests wait on {{ $labels.instance }}; at purgatory.max.requests more are refused.",
    ),
    AlertRule(
        "HeadraceAuthenticationFailures",
        "sum by (cluster, instance, listener)"
        " (rate(kafka_server_socket_server_metrics_failed_authentication_total[5m])) > 1",
        "5m",
        TICKET,
        "{{ $value }} authentications per second fail on listener {{ $labels.listener }} of"
        " {{ $labels.instance }}.",
    ),
    AlertRule(
        "HeadraceClientsThrottled",
        "sum by (cluster, instance, quota) (rate(headrace_client_quota_manager_throttled_total[5m])) > 1",
        "30m",
        TICKET,
        "Quota {{ $labels.quota }} slows clients of {{ $labels.instance }} down.",
    ),
)

GROUPS = (
    AlertRule(
        "HeadraceCoordinatorFailed",
        f'sum by (cluster) ({_OF_GROUPS}{{state="failed"}})'
        f' + sum by (cluster) ({_OF_TRANSACTIONS}{{state="failed"}}) > 0',
        "1m",
        PAGE,
        "{{ $value }} partitions of coordinators cannot be loaded: their groups or transactions stand still.",
    ),
    AlertRule(
        "HeadraceCoordinatorLoading",
        f'sum by (cluster) ({_OF_GROUPS}{{state="loading"}})'
        f' + sum by (cluster) ({_OF_TRANSACTIONS}{{state="loading"}}) > 0',
        "5m",
        TICKET,
        "{{ $value }} partitions of coordinators have been loading for 5 minutes.",
    ),
    AlertRule(
        "HeadraceRebalances",
        f"sum by (cluster) (rate({_CLASSIC}[10m])) + sum by (cluster) (rate({_CONSUMER}[10m])) > 1",
        "15m",
        TICKET,
        "Groups rebalance {{ $value }} times per second.",
    ),
    AlertRule(
        "HeadraceConsumerLagGrows",
        f"min by (cluster, group) (deriv({_LAG}[30m])) > 0 and min by (cluster, group) ({_LAG_AGE}) > 300",
        "30m",
        TICKET,
        "Group {{ $labels.group }} is more than 5 minutes behind, and its lag grows.",
    ),
    AlertRule(
        "HeadraceConsumerLate",
        f"max by (cluster, group) ({_LAG_AGE}) > 3600",
        "15m",
        TICKET,
        "Group {{ $labels.group }} has not read a record that is {{ $value | humanizeDuration }} old.",
    ),
    AlertRule(
        "HeadraceTransactionLate",
        "sum by (cluster) (kafka_server_replicamanager_partitionswithlatetransactionscount) > 0",
        "5m",
        TICKET,
        "{{ $value }} partitions have a transaction that nothing ends: readers of committed records wait.",
    ),
    AlertRule(
        "HeadraceTransactionOld",
        "max by (cluster, instance) (headrace_replica_manager_oldest_transaction_age_seconds) > 900",
        "5m",
        TICKET,
        "A transaction on {{ $labels.instance }} has been open for {{ $value | humanizeDuration }}.",
    ),
    AlertRule(
        "HeadraceTransactionsUnverified",
        "sum by (cluster)"
        " (rate(kafka_server_addpartitionstotxnmanager_verificationfailurerate_total[5m])) > 0.1",
        "10m",
        TICKET,
        "{{ $value }} transactional batches per second are refused: their transaction is not open.",
    ),
)

RULE_GROUPS = (
    ("controllers", CONTROLLERS),
    ("quorum", QUORUM),
    ("replication", REPLICATION),
    ("disks", DISKS),
    ("servers", SERVERS),
    ("requests", REQUESTS),
    ("groups and transactions", GROUPS),
)
ALERT_RULES = tuple(rule for _, rules in RULE_GROUPS for rule in rules)
