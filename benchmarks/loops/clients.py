"""Clients of both systems with the same settings."""

from __future__ import annotations

from typing import Any

BATCH_BYTES = 64 * 1024
LINGER_MS = 5
QUEUE_RECORDS = 1_000_000
QUEUE_KIB = 1 << 20
ASSIGNOR = "range"  # of groups by the classic protocol
UNCOMMITTED = "read_uncommitted"  # headrace's default; librdkafka's is read_committed
# With its defaults the consumer pauses fetching for up to a second when its queue is full.
DEEP_QUEUE = {
    "queued.min.messages": QUEUE_RECORDS,
    "queued.max.messages.kbytes": 256 * 1024,
    "fetch.queue.backoff.ms": 1,
}


def kafka_producer(spec: dict[str, Any]) -> Any:
    """A confluent-kafka producer with room for a million records in its queue."""
    from confluent_kafka import Producer

    in_transactions = "transactional_id" in spec
    return Producer(
        {
            "bootstrap.servers": spec["bootstrap"],
            "acks": "all" if in_transactions else spec.get("acks", "1"),
            "linger.ms": spec.get("linger_ms", LINGER_MS),
            "batch.size": spec.get("batch_bytes", BATCH_BYTES),
            "batch.num.messages": 1_000_000,  # only bytes limit a batch
            "message.max.bytes": 10_000_000,
            "compression.type": spec.get("compression", "none"),
            "enable.idempotence": in_transactions,
            **({"transactional.id": spec["transactional_id"]} if in_transactions else {}),
            "max.in.flight.requests.per.connection": 5,
            "queue.buffering.max.messages": QUEUE_RECORDS,
            "queue.buffering.max.kbytes": QUEUE_KIB,
            "socket.nagle.disable": True,
        }
    )


def kafka_consumer(spec: dict[str, Any], partitions: list[int], *, from_end: bool = False) -> Any:
    """A confluent-kafka consumer with `partitions` assigned, without a group."""
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": spec["bootstrap"],
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": spec.get("reports_eof", False),
            "isolation.level": spec.get("isolation", UNCOMMITTED),
            "check.crcs": True,  # as headrace does by default
            "socket.nagle.disable": True,
            **({} if spec.get("defaults") else DEEP_QUEUE),
        }
    )
    offset = OFFSET_END if from_end else OFFSET_BEGINNING
    consumer.assign([TopicPartition(spec["topic"], number, offset) for number in partitions])
    return consumer


def headrace_producer(spec: dict[str, Any]) -> Any:
    """A headrace producer with the same limits, and its default buffer."""
    from headrace import Producer

    transactional_id = spec.get("transactional_id")
    return Producer(
        spec["bootstrap"],
        acks="all" if transactional_id else spec.get("acks", "1"),
        transactional_id=transactional_id,
        linger_ms=spec.get("linger_ms", LINGER_MS),
        batch_size=spec.get("batch_bytes", BATCH_BYTES),
        compression_type=spec.get("compression", "none"),
        max_in_flight=5,
        max_block_ms=30_000,
        config=spec.get("config"),
    )


def headrace_consumer(
    spec: dict[str, Any], partitions: list[int], *, from_end: bool = False, **more: Any
) -> Any:
    """A headrace consumer with `partitions` assigned."""
    from headrace import Consumer, TopicPartition

    reset = "latest" if from_end else "earliest"
    isolation = spec.get("isolation", UNCOMMITTED)
    consumer: Any = Consumer(
        bootstrap=spec["bootstrap"],
        auto_offset_reset=reset,
        isolation_level=isolation,
        config=spec.get("config"),
        **more,
    )
    consumer.assign([TopicPartition(spec["topic"], number) for number in partitions])
    return consumer


def kafka_member(spec: dict[str, Any], **more: Any) -> Any:
    """A confluent-kafka consumer that can join the group `group` by `protocol`."""
    from confluent_kafka import Consumer

    is_classic = spec["protocol"] == "classic"
    return Consumer(
        {
            "bootstrap.servers": spec["bootstrap"],
            "group.id": spec["group"],
            "group.protocol": spec["protocol"],
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "socket.nagle.disable": True,
            **({"partition.assignment.strategy": ASSIGNOR} if is_classic else {}),
            **(
                {"heartbeat.interval.ms": spec["heartbeat_ms"]}
                if "heartbeat_ms" in spec and is_classic
                else {}
            ),
            **more,
        }
    )


def headrace_member(spec: dict[str, Any]) -> Any:
    """A headrace consumer that can join the group `group` by `protocol`."""
    from headrace import Consumer

    more: dict[str, Any] = {}
    if spec["protocol"] == "classic":
        more["assignors"] = (ASSIGNOR,)
        if "heartbeat_ms" in spec:
            more["heartbeat_interval_ms"] = spec["heartbeat_ms"]
    return Consumer(
        bootstrap=spec["bootstrap"],
        group=spec["group"],
        group_protocol=spec["protocol"],
        enable_auto_commit=False,
        **more,
    )


def retry_when_full(produce: Any, producer: Any, wait_s: float = 0.01) -> None:
    """Repeat a confluent `produce` while the queue is full; `poll` removes delivered records."""
    while True:
        producer.poll(wait_s)
        try:
            produce()
        except BufferError:
            continue
        return
