"""A cluster in this process: send orders, read them back by key, from the beginning and from a timestamp.

Run: python examples/orders.py
"""

from __future__ import annotations

from collections import Counter

import headrace

ORDERS = [("alice", 12.5), ("bob", 3.0), ("alice", 7.25), ("carol", 1.0)]


def main() -> None:
    """Produce, then consume everything twice."""
    with headrace.local() as cluster:
        cluster.admin().create_topics(headrace.NewTopic("orders", 3)).raise_for_errors()

        with cluster.producer(key=headrace.utf8, value=headrace.json) as producer:
            sent = [producer.send("orders", {"sum": amount}, key=name) for name, amount in ORDERS]
        for (name, _), future in zip(ORDERS, sent, strict=True):
            where = future.result()
            print(f"{name:6} -> partition {where.partition}, offset {where.offset}")

        totals: Counter[str] = Counter()
        with cluster.consumer(
            "orders", key=headrace.utf8, value=headrace.json, auto_offset_reset="earliest", iter_timeout=3.0
        ) as consumer:
            for record in consumer:
                totals[record.key] += record.value["sum"]
        for name, total in totals.most_common():
            print(f"{name:6} {total:6.2f}")


if __name__ == "__main__":
    main()
