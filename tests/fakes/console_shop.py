"""A cluster with the topics, records and groups of a shop, for the pictures of the console."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headrace import NewTopic, utf8
from headrace.stream import App
from waiting import wait_for

if TYPE_CHECKING:
    from headrace import LocalCluster
    from headrace.stream import AppInstance

TOPICS = (
    NewTopic("orders", 6, 3, {"retention.ms": 604_800_000}),
    NewTopic("payments", 6, 3, {"min.insync.replicas": 2, "retention.ms": 2_592_000_000}),
    NewTopic("customers", 3, 3, {"cleanup.policy": "compact"}),
    NewTopic("clicks", 12, 2, {"retention.bytes": 1_073_741_824}),
    NewTopic("invoices", 3, 3),
    NewTopic("shipments", 3, 3),
)
COUNTRIES = ("de", "fr", "pl", "es")


def order(number: int) -> bytes:
    """An order as JSON."""
    value = {
        "order": 48_210 + number,
        "customer": f"c-{number * 37 % 997:03}",
        "country": COUNTRIES[number % 4],
        "amount": round(9.9 + number * 7.31 % 240, 2),
        "card": {"number": "4111111111111111", "kind": "credit"},
    }
    return json.dumps(value).encode()


def fill(cluster: LocalCluster, records: int = 4_000) -> None:
    """Create the topics, append records, and commit offsets of some groups."""
    cluster.admin().create_topics(*TOPICS).raise_for_errors()
    with cluster.producer() as producer:
        append(cluster, records)
        for number in range(records // 4):
            producer.send("payments", order(number), key=b"c-%03d" % (number * 37 % 997))
            producer.send(
                "clicks", b"\x82\xa4page\xa6/offer\xa2ms" + bytes([number % 100]), key=b"s%d" % (number % 50)
            )
        producer.flush()
    for group, topics, share in (
        ("billing", ("orders", "payments"), 0.5),
        ("warehouse", ("orders",), 0.9),
        ("fraud-detection", ("payments",), 1.0),
        ("analytics", ("clicks", "orders"), 0.2),
    ):
        with cluster.consumer(
            *topics, group=group, auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer:
            wait_for(lambda consumer=consumer: consumer.poll(0.5), "records")  # type: ignore[misc]
            ends = consumer.end_offsets()
            for tp in consumer.assignment():
                consumer.seek(tp, int(ends[tp] * share))
            consumer.commit({tp: int(end * share) for tp, end in ends.items()})


def append(cluster: LocalCluster, records: int) -> None:
    """Append orders."""
    with cluster.producer() as producer:
        for number in range(records):
            key = f"c-{number * 37 % 997:03}".encode()
            producer.send(
                "orders", order(number), key=key, headers={"source": "web", "trace": f"{number:08x}"}
            )
        producer.flush()


def counting(cluster: LocalCluster, folder: str) -> AppInstance:
    """An instance, not started, of an application that counts the orders of each customer."""
    app = App("order-counts", key=utf8, value=utf8, commit_interval_ms=100, replication_factor=1)
    app.stream("orders").group_by(lambda key, _order: key).count(store="counts")
    config = {"state.dir": folder, "application.server": "127.0.0.1:0"}
    return app.instance(cluster.bootstrap, config=config)
