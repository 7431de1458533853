"""Named aggregates and late records in instances over a running cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import headrace
from headrace import NewTopic, json, stream, utf8
from headrace.services.local_io import local
from waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.services.local_io import LocalCluster
    from headrace.stream.worker.instance_io import AppInstance

PATIENCE_S = 30.0
USERS = ("ann", "bob", "eve")


def instance(cluster: LocalCluster, folder: Path) -> AppInstance:
    """Totals of users over a repartition topic, and counts by minute whose late records have a topic."""
    app = stream.App(
        "totals",
        key=utf8,
        value=json,
        guarantee="exactly_once_v2",
        commit_interval_ms=50,
        state_dir=str(folder),
    )
    orders = app.stream("orders")
    by_user = orders.group_by(lambda key, order: order["user"])
    totals = by_user.aggregate(
        n=stream.Count(),
        total=stream.Sum(lambda order: order["amount"]),
        numbers=stream.Collect(lambda order: order["number"], limit=10**6),
        store="totals",
    )
    totals.to_stream().to("totals", value=stream.rows)
    orders.group_by_key().windowed_by(stream.tumbling(60_000), late="late").count()
    return app.instance(cluster.bootstrap)


def send(cluster: LocalCluster, numbers: range) -> None:
    with headrace.Producer(cluster.bootstrap, key=utf8, value=json) as producer:
        for number in numbers:
            order = {"user": USERS[number % 3], "amount": number, "number": number}
            is_late = number % 10 == 9
            producer.send("orders", order, key="k", timestamp=1_000 if is_late else 1_000_000 + number)


def committed(cluster: LocalCluster, topic: str, value: Any) -> list[Any]:
    """The values of a topic, as readers of committed records see them."""
    with headrace.Consumer(
        topic,
        bootstrap=cluster.bootstrap,
        key=utf8,
        value=value,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        found = []
        while records := consumer.poll(timeout=1):
            found += [(record.key, record.value) for record in records]
        return found


def test_rows_and_late_records_are_exact_over_restarts(tmp_path: Path) -> None:
    """The second instance restores the states from the changelog; no order is counted twice, and each late
    one is in its topic once."""
    with local(offsets_topic_num_partitions=1) as cluster:
        with headrace.Admin(cluster.bootstrap) as admin:
            admin.create_topics(
                NewTopic("orders", 1), NewTopic("totals", 1), NewTopic("late", 1)
            ).raise_for_errors()
        for process, numbers in enumerate((range(300), range(300, 600))):
            send(cluster, numbers)
            with instance(cluster, tmp_path / str(process)):
                wait_for(
                    lambda end=numbers.stop: (
                        sum(row.n for row in dict(committed(cluster, "totals", stream.rows)).values()) == end
                    ),
                    "all orders are in the totals",
                    PATIENCE_S,
                )
        totals = dict(committed(cluster, "totals", stream.rows))
        late = [order["number"] for _, order in committed(cluster, "late", json)]
    assert late == [number for number in range(600) if number % 10 == 9]
    for place, user in enumerate(USERS):
        own = list(range(place, 600, 3))
        assert totals[user] == {"n": len(own), "total": sum(own), "numbers": own}
