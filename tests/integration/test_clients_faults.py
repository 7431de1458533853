"""Clients on a real cluster whose nodes are killed and restarted, and whose controller is down."""

import threading
from typing import Any

import headrace
from headrace import NewTopic, errors
from waiting import wait_for


def test_killed_nodes_lose_no_acknowledged_record() -> None:
    """Two nodes are killed and restarted in turn under acks=1 load: acknowledged records are read in order
    per partition, by a consumer during the faults and by one afterwards."""
    with headrace.local(nodes=2) as cluster, headrace.connect(cluster.bootstrap) as clients:
        clients.admin().create_topics(NewTopic("t", partitions=4)).raise_for_errors()
        producer = clients.producer(acks=1, linger_ms=1)
        consumer = clients.consumer("t", auto_offset_reset="earliest")
        acked: dict[tuple[int, int], bytes] = {}
        read: dict[tuple[int, int], bytes] = {}
        stop, has_read = threading.Event(), threading.Event()

        def produce() -> None:
            number = 0
            while not stop.is_set():
                futures = [producer.send("t", b"%06d" % (number + index)) for index in range(100)]
                for future in futures:
                    metadata = future.result(60)
                    acked[metadata.partition, metadata.offset] = b"%06d" % number
                    number += 1

        def consume() -> None:
            while not has_read.is_set():
                for record in consumer.poll(0.2):
                    read[record.partition, record.offset] = record.value

        threads = [threading.Thread(target=produce), threading.Thread(target=consume)]
        for thread in threads:
            thread.start()
        for index in (0, 1, 0):
            before = len(acked)
            wait_for(lambda before=before: len(acked) > before + 200, "more is acknowledged")
            cluster.kill_node(index)
            cluster.restart_node(index)
        before = len(acked)
        wait_for(lambda: len(acked) > before + 200, "more is acknowledged")
        stop.set()
        threads[0].join(60)
        afterwards = read_to_the_end(clients.consumer("t", auto_offset_reset="earliest"))
        assert {where: afterwards.get(where) for where in acked} == acked
        wait_for(lambda: len(read) >= len(afterwards), "the reader has read all")
        has_read.set()
        threads[1].join(60)
        assert read == afterwards


def test_producing_continues_without_a_controller() -> None:
    """Admin requests wait until the controller is back."""
    with headrace.local(nodes=1) as cluster, headrace.connect(cluster.bootstrap) as clients:
        admin = clients.admin()
        admin.create_topics(NewTopic("t")).raise_for_errors()
        producer = clients.producer()
        assert producer.send("t", b"1").result(60).offset == 0
        cluster.restart_controller()
        assert producer.send("t", b"2").result(60).offset == 1
        admin.create_topics(NewTopic("u")).raise_for_errors()
        assert producer.send("u", b"1").result(60).offset == 0


def test_topic_recreated_during_produce_and_consume() -> None:
    """The consumer reads the new topic from its start, and the producer continues with it."""
    with headrace.local(nodes=1) as cluster, headrace.connect(cluster.bootstrap) as clients:
        admin = clients.admin()
        admin.create_topics(NewTopic("t")).raise_for_errors()
        producer, consumer = clients.producer(), clients.consumer("t", auto_offset_reset="earliest")
        for number in range(3):
            producer.send("t", b"old %d" % number).result(60)
        assert len(take(consumer, 3)) == 3
        admin.delete_topics("t").raise_for_errors()
        admin.create_topics(NewTopic("t")).raise_for_errors()
        assert producer.send("t", b"new").result(60).offset == 0
        assert take(consumer, 1) == [b"new"]


def test_producer_without_a_cluster_fails_in_time() -> None:
    """Delivery fails with the reason, and close does not hang."""
    with headrace.local(nodes=1) as cluster:
        producer = headrace.Producer(
            cluster.bootstrap, linger_ms=0, request_timeout_ms=4000, delivery_timeout_ms=5000
        )
        cluster.admin().create_topics(NewTopic("t")).raise_for_errors()
        producer.send("t", b"x").result(60)
        cluster.kill_node(0)
        future = producer.send("t", b"y")
        assert isinstance(future.exception(60), errors.DeliveryTimeoutError)
        producer.close(1)
        cluster.restart_node(0)


def read_to_the_end(consumer: Any) -> dict[tuple[int, int], bytes]:
    """All records up to the present end offsets, by partition and offset; waits for leaders."""
    ends, found = consumer.end_offsets(), {}
    for _ in range(600):
        if all(consumer.position(tp) >= end for tp, end in ends.items()):
            return found
        found.update({(record.partition, record.offset): record.value for record in consumer.poll(0.1)})
    raise AssertionError(f"only {len(found)} records up to {ends} were read")


def take(consumer: Any, count: int) -> list[bytes]:
    """At least `count` values; fails after a time limit."""
    values: list[bytes] = []
    for _ in range(100):
        values += [record.value for record in consumer.poll(0.5)]
        if len(values) >= count:
            return values
    raise AssertionError(f"only {len(values)} of {count} records were read")
