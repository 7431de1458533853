"""kafka-python: a producer with futures, and a consumer in a group.

Run: python examples/kafka_clients/kafka_python.py
"""

from __future__ import annotations

import headrace
from kafka import KafkaConsumer, KafkaProducer

COUNT = 1_000


def main(bootstrap: str) -> None:
    """An ordinary kafka-python program, without headrace's client."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
    sent = [producer.send("numbers", b"%d" % number, key=b"%d" % (number % 10)) for number in range(COUNT)]
    last = [future.get(timeout=120) for future in sent][-1]
    print(f"kafka-python: the last record is at {last.topic}-{last.partition} offset {last.offset}")
    producer.close()
    consumer = KafkaConsumer(
        "numbers", bootstrap_servers=bootstrap, group_id="readers", auto_offset_reset="earliest"
    )
    found: list[int] = []
    while len(found) < COUNT:
        for records in consumer.poll(timeout_ms=1_000).values():
            found += [int(record.value) for record in records]
    consumer.close()
    print(f"kafka-python: {len(found)} messages, sum {sum(found)}")


if __name__ == "__main__":
    with headrace.local(nodes=3, listeners="PLAINTEXT://127.0.0.1:0") as cluster:
        main(cluster.kafka_bootstrap)
