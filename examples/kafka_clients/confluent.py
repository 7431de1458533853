"""confluent-kafka (librdkafka): a producer with delivery reports, and a consumer in a group.

Run: python examples/kafka_clients/confluent.py
"""

from __future__ import annotations

import headrace
from confluent_kafka import Consumer, KafkaError, Message, Producer

COUNT = 1_000


def report(error: KafkaError | None, message: Message) -> None:
    """The delivery report of one message."""
    if error is not None:
        print(f"{message.topic()}: {error}")


def main(bootstrap: str) -> None:
    """An ordinary confluent-kafka program, without headrace's client."""
    with Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "lz4"}) as producer:
        for number in range(COUNT):
            producer.produce("numbers", b"%d" % number, key=b"%d" % (number % 10), on_delivery=report)
            producer.poll(0)
    with Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    ) as consumer:
        consumer.subscribe(["numbers"])
        found: list[int] = []
        while len(found) < COUNT:
            messages = consumer.consume(500, timeout=1.0)
            found += [int(message.value() or b"") for message in messages if message.error() is None]
    print(f"confluent-kafka: {len(found)} messages, sum {sum(found)}")


if __name__ == "__main__":
    with headrace.local(nodes=3, listeners="PLAINTEXT://127.0.0.1:0") as cluster:
        main(cluster.kafka_bootstrap)
