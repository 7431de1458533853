"""Both systems' clients, made with the same settings."""

from __future__ import annotations

from typing import Any

BATCH_BYTES = 64 * 1024
LINGER_MS = 5
QUEUE_RECORDS = 1_000_000
QUEUE_KIB = 1 << 20
# With its defaults the consumer pauses fetching for up to a second when its queue is full.
DEEP_QUEUE = {
    "queued.min.messages": QUEUE_RECORDS,
    "queued.max.messages.kbytes": 256 * 1024,
    "fetch.queue.backoff.ms": 1,
}


def kafka_producer(spec: dict[str, Any]) -> Any:
    """A confluent-kafka producer whose queue never holds the loop up before a million records."""
    from confluent_kafka import Producer

    return Producer(
        {
            "bootstrap.servers": spec["bootstrap"],
            "acks": spec.get("acks", "1"),
            "linger.ms": spec.get("linger_ms", LINGER_MS),
            "batch.size": spec.get("batch_bytes", BATCH_BYTES),
            "batch.num.messages": 1_000_000,  # only the bytes bound a batch
            "message.max.bytes": 10_000_000,
            "compression.type": spec.get("compression", "none"),
            "enable.idempotence": False,
            "max.in.flight.requests.per.connection": 5,
            "queue.buffering.max.messages": QUEUE_RECORDS,
            "queue.buffering.max.kbytes": QUEUE_KIB,
            "socket.nagle.disable": True,
        }
    )


def kafka_consumer(spec: dict[str, Any], partitions: list[int], *, from_end: bool = False) -> Any:
    """A confluent-kafka consumer with these partitions assigned; no group is joined."""
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": spec["bootstrap"],
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "check.crcs": True,  # as headrace does by default
            "socket.nagle.disable": True,
            **({} if spec.get("defaults") else DEEP_QUEUE),
        }
    )
    offset = OFFSET_END if from_end else OFFSET_BEGINNING
    consumer.assign([TopicPartition(spec["topic"], number, offset) for number in partitions])
    return consumer


def headrace_producer(spec: dict[str, Any]) -> Any:
    """A headrace producer with the same limits; its buffer is the default one."""
    from headrace import Producer

    return Producer(
        spec["bootstrap"],
        acks=spec.get("acks", "1"),
        linger_ms=spec.get("linger_ms", LINGER_MS),
        batch_size=spec.get("batch_bytes", BATCH_BYTES),
        compression_type=spec.get("compression", "none"),
        max_in_flight=5,
        max_block_ms=30_000,
    )


def headrace_consumer(
    spec: dict[str, Any], partitions: list[int], *, from_end: bool = False, **more: Any
) -> Any:
    """A headrace consumer with these partitions assigned."""
    from headrace import Consumer, TopicPartition

    reset = "latest" if from_end else "earliest"
    consumer: Any = Consumer(bootstrap=spec["bootstrap"], auto_offset_reset=reset, **more)
    consumer.assign([TopicPartition(spec["topic"], number) for number in partitions])
    return consumer


def settle(produce: Any, producer: Any, wait_s: float = 0.01) -> None:
    """Repeat a confluent `produce` that found the queue full until it fits; `poll` makes the room."""
    while True:
        producer.poll(wait_s)
        try:
            produce()
        except BufferError:
            continue
        return
