"""A Kafka client sends a record and reads it."""

import headrace
from kafka import KafkaConsumer, KafkaProducer

with headrace.local(listeners="PLAINTEXT://127.0.0.1:0") as cluster:
    cluster.admin().create_topics(headrace.NewTopic("t")).raise_for_errors()
    producer = KafkaProducer(bootstrap_servers=cluster.kafka_bootstrap)
    producer.send("t", b"of a Kafka client").get(60)
    producer.close()
    consumer = KafkaConsumer("t", bootstrap_servers=cluster.kafka_bootstrap, auto_offset_reset="earliest")
    assert next(consumer).value == b"of a Kafka client"
    consumer.close()
