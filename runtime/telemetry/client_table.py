"""The metrics of applications: producers, consumers and pipelines. Pure data; `table.py` has all of them.

Kafka's names are those of the attributes of its JMX beans. For OpenTelemetry a name of the semantic
conventions is used where there is one, and else that of OpenTelemetry's instrumentation for Java:
`record-error-total` of a producer is `kafka.producer.record_error_total`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .metric import Kind, Metric, counter, gauge, histogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_CLIENT_ID, _GROUP = "messaging.client.id", "messaging.consumer.group.name"
_TOPIC, _PARTITION = "messaging.destination.name", "messaging.destination.partition.id"
_OPERATION = "messaging.operation.name"
_ATTRIBUTES = {"client_id": _CLIENT_ID, "group": _GROUP, "topic": _TOPIC, "partition": _PARTITION}
_MESSAGES = {  # name in Kafka -> name and operation of the conventions
    "record-send-total": ("messaging.client.sent.messages", "send"),
    "records-consumed-total": ("messaging.client.consumed.messages", "poll"),
}


def _of_client(kind: str, group: str, names: Mapping[str, str], labels: tuple[str, ...]) -> dict[str, Metric]:
    """Metrics by Kafka's name, from their meanings."""
    return {name: _declared(kind, group, name, doc, labels) for name, doc in names.items()}


def _declared(kind: str, group: str, name: str, doc: str, labels: tuple[str, ...]) -> Metric:
    otel, operation = _MESSAGES.get(name, (f"kafka.{kind}.{name.replace('-', '_')}", ""))
    return Metric(
        f"kafka.{kind}",
        group,
        name,
        Kind.COUNTER if name.endswith("-total") else Kind.GAUGE,
        doc,
        labels,
        unit="{message}" if operation else _unit(name),
        otel_name=otel,
        attributes=tuple(_ATTRIBUTES[label] for label in labels),
        constants=((_OPERATION, operation),) if operation else (),
    )


def _unit(name: str) -> str:
    words = name.split("-")
    if "ns" in words:
        return "ns"
    if "bytes" in words or name in ("byte-total", "batch-size-avg"):
        return "By"
    if "latency" in words or "time" in words:
        return "ms"
    return "s" if name.endswith("seconds-ago") else "1"


def _each(names: Iterable[str], doc: str) -> dict[str, str]:
    return {name: doc.format(name.removesuffix("-total").replace("-", " ")) for name in names}


PRODUCER_METRICS = _of_client(
    "producer",
    "producer-metrics",
    {
        "record-send-total": "Records that were acknowledged.",
        "record-error-total": "Records that failed.",
        "record-retry-total": "Batches that were sent again.",
        "byte-total": "Bytes of acknowledged batches.",
        "request-total": "Produce requests.",
        "batch-split-total": "Batches that were split because they were too large.",
        "batch-duplicate-total": "Batches that an earlier attempt had stored.",
        "producer-epoch-bump-total": "Raised epochs of the producer id.",
        "batch-size-avg": "Bytes of a batch on average, since the start.",
        "records-per-batch-avg": "Records of a batch on average, since the start.",
        "requests-in-flight": "Produce requests without a response.",
        "batches-pending": "Batches without an outcome.",
        "buffer-total-bytes": "buffer.memory.",
        "buffer-available-bytes": "The part of buffer.memory that is not in use.",
        "waiting-threads": "Callers that wait for memory.",
        **_each(
            (f"txn-{call}-time-ns-total" for call in ("init", "begin", "send-offsets", "commit", "abort")),
            "Time spent in calls: {}.",
        ),
    },
    ("client_id",),
)
CONSUMER_METRICS = _of_client(
    "consumer",
    "consumer-fetch-manager-metrics",
    {
        "records-consumed-total": "Records that the application got.",
        "bytes-fetched-total": "Bytes of fetched batches.",
        "fetch-total": "Fetch requests.",
        "bytes-buffered": "Bytes of fetched batches that the application has not taken.",
        "assigned-partitions": "Assigned partitions.",
        "records-lag-max": "Records that the partition with the most of them has after the position.",
        "records-lead-min": "Records that the partition with the fewest of them has before the position.",
    },
    ("client_id", "group"),
) | _of_client(
    "consumer",
    "consumer-metrics",
    {"last-poll-seconds-ago": "Time since the application asked for records; -1 before the first time."},
    ("client_id", "group"),
)
PARTITION_METRICS = _of_client(
    "consumer",
    "consumer-fetch-manager-metrics",
    {
        "records-lag": "Records of the partition after the position.",
        "records-lead": "Records of the partition before the position.",
    },
    ("client_id", "group", "topic", "partition"),
)
MEMBER_METRICS = _of_client(
    "consumer",
    "consumer-coordinator-metrics",
    {
        "rebalance-total": "Rebalances.",
        "rebalance-rate-per-hour": "Rebalances per hour.",
        "rebalance-latency-avg": "Duration of a rebalance on average.",
        "rebalance-latency-max": "Duration of the longest rebalance.",
        "rebalance-latency-total": "Duration of all rebalances.",
        "failed-rebalance-total": "Rebalances that failed.",
        "failed-rebalance-rate-per-hour": "Rebalances per hour that failed.",
        "last-rebalance-seconds-ago": "Time since the last rebalance; -1 without one.",
        "last-heartbeat-seconds-ago": "Time since the last heartbeat; -1 without one.",
        "heartbeat-response-time-max": "Longest time until the response to a heartbeat.",
        **{
            f"{request}-{ending}": meaning.format(request)
            for request in ("commit", "heartbeat", "join", "sync")
            for ending, meaning in (
                ("total", "Responses to {} requests."),
                ("rate", "Responses to {} requests per second."),
            )
        },
        **{
            f"{name}-{ending}": f"{meaning} time until the response to a {name.split('-')[0]} request."
            for name in ("commit-latency", "join-time", "sync-time")
            for ending, meaning in (("avg", "Average"), ("max", "Longest"))
        },
        **{
            f"partition-{change}-latency-{ending}": f"{meaning} time of a change with callbacks: {change}."
            for change in ("assigned", "revoked", "lost")
            for ending, meaning in (("avg", "Average"), ("max", "Longest"))
        },
    },
    ("client_id", "group"),
)

OPERATION_DURATION = histogram(
    "messaging",
    "client",
    "operation.duration",
    "Duration of operations: of send from the first record of a batch to its outcome, of poll until records"
    " are returned, of commit until the response.",
    labels=("client_id", "group", "operation", "topic", "error"),
    unit="s",
    prometheus_name="messaging_client_operation_duration_seconds",
    otel_name="messaging.client.operation.duration",
    attributes=(_CLIENT_ID, _GROUP, _OPERATION, _TOPIC, "error.type"),
)

_PIPELINE = ("headrace", "pipeline")
READ_RECORDS = counter(
    *_PIPELINE,
    "records-read-total",
    "Rows that the tasks of this process have read.",
    labels=("topic",),
    unit="{record}",
)
READ_BYTES = counter(
    *_PIPELINE,
    "bytes-read-total",
    "Bytes of the columns of these rows.",
    labels=("topic",),
    unit="By",
)
WRITTEN_RECORDS = counter(
    *_PIPELINE,
    "records-written-total",
    "Rows of the tasks of this process that were acknowledged.",
    labels=("topic",),
    unit="{record}",
)
WRITTEN_BYTES = counter(
    *_PIPELINE,
    "bytes-written-total",
    "Bytes of the columns of the rows that were sent.",
    labels=("topic",),
    unit="By",
)
READ_LAG = gauge(
    *_PIPELINE,
    "read-lag",
    "Offsets between the end of the last processed batch of the streams that this process drives and the end"
    " of the log, at the last plan; of several streams the largest.",
    labels=("topic", "partition"),
    unit="{record}",
)
PIPELINE_METRICS = (READ_RECORDS, READ_BYTES, WRITTEN_RECORDS, WRITTEN_BYTES, READ_LAG)
CLIENT_METRICS = (
    *PRODUCER_METRICS.values(),
    *CONSUMER_METRICS.values(),
    *PARTITION_METRICS.values(),
    *MEMBER_METRICS.values(),
    OPERATION_DURATION,
)
