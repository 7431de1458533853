"""The metrics of storage nodes. Pure data; `table.py` has all of them.

Kafka's names where Kafka has the metric; the domain `headrace` has the others.
"""

from __future__ import annotations

from .metric import counter, gauge, histogram

_TOPICS = "BrokerTopicMetrics"
_PARTITION = ("topic", "partition")
_BY_TOPIC = {"labels": ("topic",), "has_total": True}

# --- traffic ---------------------------------------------------------------------------------------------

MESSAGES_IN = counter(
    "kafka.server",
    _TOPICS,
    "MessagesInPerSec",
    "Records appended by producers.",
    unit="{record}",
    **_BY_TOPIC,
)
BYTES_IN = counter(
    "kafka.server", _TOPICS, "BytesInPerSec", "Bytes of batches from producers.", unit="By", **_BY_TOPIC
)
BYTES_OUT = counter(
    "kafka.server", _TOPICS, "BytesOutPerSec", "Bytes of batches to consumers.", unit="By", **_BY_TOPIC
)
BYTES_REJECTED = counter(
    "kafka.server",
    _TOPICS,
    "BytesRejectedPerSec",
    "Bytes of batches that are larger than max.message.bytes.",
    unit="By",
    **_BY_TOPIC,
)
FAILED_PRODUCE = counter(
    "kafka.server",
    _TOPICS,
    "FailedProduceRequestsPerSec",
    "Partitions in Produce requests that got an error.",
    unit="{partition}",
    **_BY_TOPIC,
)
FAILED_FETCH = counter(
    "kafka.server",
    _TOPICS,
    "FailedFetchRequestsPerSec",
    "Partitions in Fetch requests that got an error.",
    unit="{partition}",
    **_BY_TOPIC,
)
BATCHES_IN = counter("headrace", _TOPICS, "BatchesInPerSec", "Batches appended by producers.", unit="{batch}")
REPLICATION_BYTES_IN = counter(
    "kafka.server", _TOPICS, "ReplicationBytesInPerSec", "Bytes fetched from leaders.", unit="By"
)
REPLICATION_BYTES_OUT = counter(
    "kafka.server", _TOPICS, "ReplicationBytesOutPerSec", "Bytes sent to followers.", unit="By"
)

# --- requests --------------------------------------------------------------------------------------------

_BY_REQUEST = {"labels": ("request",)}
TOTAL_TIME = histogram(
    "kafka.network",
    "RequestMetrics",
    "TotalTimeMs",
    "From the decoded request to its response, by api; Fetch is FetchConsumer or FetchFollower.",
    unit="ms",
    **_BY_REQUEST,
)
LOCAL_TIME = histogram(
    "kafka.network",
    "RequestMetrics",
    "LocalTimeMs",
    "The handler's turn in the event loop.",
    unit="ms",
    **_BY_REQUEST,
)
REMOTE_TIME = histogram(
    "kafka.network",
    "RequestMetrics",
    "RemoteTimeMs",
    "Wait behind the turn: for replicas, records, disks, coordinators or the controller.",
    unit="ms",
    **_BY_REQUEST,
)
REQUESTS = counter(
    "kafka.network", "RequestMetrics", "RequestsPerSec", "Requests, by api.", unit="{request}", **_BY_REQUEST
)
REQUEST_ERRORS = counter(
    "kafka.network",
    "RequestMetrics",
    "ErrorsPerSec",
    "Requests that got an error as a whole.",
    labels=("request", "error"),
    unit="{request}",
)
PURGATORY_SIZE = gauge(
    "kafka.server",
    "DelayedOperationPurgatory",
    "PurgatorySize",
    "Requests that wait for acks (Produce) or for records and other events (Fetch).",
    labels=("delayedOperation",),
    unit="{request}",
)
REQUEST_BYTES_HELD = gauge(
    "headrace",
    "RequestChannel",
    "HeldRequestBytes",
    "Bytes of requests without a response, by listener.",
    labels=("listener",),
    unit="By",
)
RESPONSE_BYTES_HELD = gauge(
    "headrace",
    "RequestChannel",
    "PendingResponseBytes",
    "Bytes of responses that clients have not read, by listener.",
    labels=("listener",),
    unit="By",
)

# --- replicas --------------------------------------------------------------------------------------------

_REPLICAS = "ReplicaManager"
PARTITION_COUNT = gauge(
    "kafka.server", _REPLICAS, "PartitionCount", "Partitions with a replica here.", unit="{partition}"
)
LEADER_COUNT = gauge("kafka.server", _REPLICAS, "LeaderCount", "Partitions led here.", unit="{partition}")
OFFLINE_REPLICAS = gauge(
    "kafka.server", _REPLICAS, "OfflineReplicaCount", "Replicas whose log dir failed.", unit="{partition}"
)
UNDER_REPLICATED = gauge(
    "kafka.server",
    _REPLICAS,
    "UnderReplicatedPartitions",
    "Led partitions with a replica outside of the ISR.",
    unit="{partition}",
)
UNDER_MIN_ISR = gauge(
    "kafka.server",
    _REPLICAS,
    "UnderMinIsrPartitionCount",
    "Led partitions with fewer in-sync replicas than min.insync.replicas: acks=all fails.",
    unit="{partition}",
)
AT_MIN_ISR = gauge(
    "kafka.server",
    _REPLICAS,
    "AtMinIsrPartitionCount",
    "Led partitions with just min.insync.replicas in-sync replicas.",
    unit="{partition}",
)
LOST_TO_MIN_ISR = gauge(
    "headrace",
    _REPLICAS,
    "UnderReplicatedAtMinIsr",
    "Led partitions that have lost replicas, and have just min.insync.replicas in-sync replicas left.",
    unit="{partition}",
)
REASSIGNING = gauge(
    "kafka.server", _REPLICAS, "ReassigningPartitions", "Led partitions that are moved.", unit="{partition}"
)
ISR_SHRINKS = counter("kafka.server", _REPLICAS, "IsrShrinksPerSec", "ISRs that lost replicas.")
ISR_EXPANDS = counter("kafka.server", _REPLICAS, "IsrExpandsPerSec", "ISRs that got replicas back.")
MAX_LAG = gauge(
    "kafka.server",
    "ReplicaFetcherManager",
    "MaxLag",
    "Largest number of records that a replica here lacks of its leader.",
    unit="{record}",
)
FETCHER_LAG = gauge(
    "kafka.server",
    "FetcherLagMetrics",
    "ConsumerLag",
    "Records that the replica here lacks of its leader.",
    labels=_PARTITION,
    unit="{record}",
)
PRODUCER_IDS = gauge("kafka.server", _REPLICAS, "ProducerIdCount", "Producers with state in a log.")
OPEN_TRANSACTIONS = gauge(
    "kafka.server",
    _REPLICAS,
    "PartitionsWithOpenTransactionsCount",
    "Partitions with an open transaction.",
    unit="{partition}",
)
PARTITIONS_WITH_LATE_TRANSACTIONS = gauge(
    "kafka.server",
    _REPLICAS,
    "PartitionsWithLateTransactionsCount",
    "Led partitions with a transaction that is open for longer than transaction.max.timeout.ms and"
    " five minutes.",
    unit="{partition}",
)
OLDEST_TRANSACTION_AGE = gauge(
    "headrace",
    _REPLICAS,
    "OldestTransactionAgeSeconds",
    "Age of the oldest open transaction of a led partition; 0 without one.",
    unit="s",
)
VERIFICATION_FAILURES = counter(
    "kafka.server",
    "AddPartitionsToTxnManager",
    "VerificationFailureRate",
    "Transactional batches that the coordinator did not confirm.",
    unit="{batch}",
)
ISR_CHANGES_UNDER_WAY = gauge(
    "headrace", _REPLICAS, "IsrChangesUnderWay", "ISR proposals without a response.", unit="{partition}"
)

# --- logs and disks --------------------------------------------------------------------------------------

LOG_SIZE = gauge("kafka.log", "Log", "Size", "Bytes of the log.", labels=_PARTITION, unit="By")
LOG_SEGMENTS = gauge("kafka.log", "Log", "NumLogSegments", "Segments of the log.", labels=_PARTITION)
LOG_START = gauge("kafka.log", "Log", "LogStartOffset", "First offset.", labels=_PARTITION)
LOG_END = gauge("kafka.log", "Log", "LogEndOffset", "Next offset.", labels=_PARTITION)
LAST_STABLE_LAG = gauge(
    "kafka.cluster",
    "Partition",
    "LastStableOffsetLag",
    "Records between last stable offset and high watermark: open transactions hold them back.",
    labels=_PARTITION,
    unit="{record}",
)
TOPIC_BYTES = gauge(
    "headrace", "Log", "TopicSize", "Bytes of all replicas of the topic here.", labels=("topic",), unit="By"
)
PARTITIONS_OMITTED = gauge(
    "headrace",
    "Metrics",
    "PartitionsOmitted",
    "Partitions without series of their own, because of metrics.max.partitions.",
    unit="{partition}",
)
TOPICS_OMITTED = gauge(
    "headrace",
    "Metrics",
    "TopicsOmitted",
    "Topics without series of their own, because of metrics.max.topics.",
    unit="{topic}",
)
OFFLINE_DIRS = gauge(
    "kafka.log", "LogManager", "OfflineLogDirectoryCount", "Log dirs whose disk failed.", unit="{directory}"
)
DIR_OFFLINE = gauge(
    "kafka.log",
    "LogManager",
    "LogDirectoryOffline",
    "1 if the disk of the log dir failed.",
    labels=("logDirectory",),
)
DIR_BYTES = gauge(
    "kafka.log",
    "LogManager",
    "LogDirectorySize",
    "Bytes of the logs in the log dir.",
    labels=("logDirectory",),
    unit="By",
)
DIR_PARTITIONS = gauge(
    "headrace", "LogManager", "LogDirectoryPartitions", "Logs in the log dir.", labels=("directory",)
)
DIR_REFUSES = gauge(
    "headrace",
    "LogManager",
    "LogDirectoryFull",
    "1 while the log dir refuses records because its disk is full.",
    labels=("directory",),
)
DISK_TOTAL = gauge(
    "headrace",
    "LogManager",
    "DiskTotalBytes",
    "Size of the file system of the log dir.",
    labels=("directory",),
    unit="By",
)
DISK_FREE = gauge(
    "headrace",
    "LogManager",
    "DiskFreeBytes",
    "Space that is left for this user in the file system of the log dir.",
    labels=("directory",),
    unit="By",
)
_CLEANER = ("kafka.log", "LogCleanerManager")
MAX_DIRTY = gauge(*_CLEANER, "max-dirty-percent", "Largest dirty part of a compacted log.", unit="%")
CLEANER_IDLE = gauge(*_CLEANER, "time-since-last-run-ms", "Time since the last pass.", unit="ms")
UNCLEANABLE = gauge(
    *_CLEANER,
    "uncleanable-partitions-count",
    "Partitions whose compaction failed.",
    labels=("logDirectory",),
    unit="{partition}",
)
CLEANER_RECOPY = gauge(
    "kafka.log", "LogCleaner", "cleaner-recopy-percent", "Part of the last cleaned log that stayed.", unit="%"
)
CLEANER_BUFFER = gauge(
    "kafka.log",
    "LogCleaner",
    "max-buffer-utilization-percent",
    "Part of the map of the last cleaning that was used.",
    unit="%",
)
CLEANER_TIME = gauge(
    "kafka.log",
    "LogCleaner",
    "max-clean-time-secs",
    "Longest of the last and the running cleanings.",
    unit="s",
)

# --- the broker ------------------------------------------------------------------------------------------

BROKER_STATE = gauge(
    "kafka.server",
    "KafkaServer",
    "BrokerState",
    "0 not running, 1 starting, 2 recovering, 3 running, 6 pending controlled shutdown, 7 shutting down.",
)
METADATA_OFFSET = gauge(
    "kafka.server", "broker-metadata-metrics", "last-applied-record-offset", "Offset of the applied metadata."
)
METADATA_AGE = gauge(
    "headrace",
    "broker-metadata-metrics",
    "SecondsSinceController",
    "Time since the last response of the active controller.",
    unit="s",
)

LOG_FLUSH_TIME = histogram(
    "kafka.log",
    "LogFlushStats",
    "LogFlushRateAndTimeMs",
    "Time in which a thread syncs the files of a log to the disk.",
    unit="ms",
)

NODE_METRICS = tuple(each for name, each in sorted(globals().items()) if name.isupper() and name[0] != "_")
