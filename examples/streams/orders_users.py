"""Orders joined with the table of users; the amounts are summed up by country.

Run: python examples/streams/orders_users.py
"""

from __future__ import annotations

from typing import Any

import common
from headrace import json, stream, utf8

USERS = {"ann": "Norway", "bob": "Peru", "cem": "Turkey"}
ORDERS = [("o1", "ann", 20.0), ("o2", "bob", 5.5), ("o3", "ann", 4.5), ("o4", "dee", 9.0), ("o5", "cem", 7.0)]


def with_country(order: dict[str, Any], country: str | None) -> dict[str, Any]:
    """The order with the country of its user."""
    return {**order, "country": country or "unknown"}


def app() -> stream.App:
    """The application."""
    made = stream.App("orders-users", key=utf8, value=json, commit_interval_ms=100)
    # A table keeps the last value of each key, here in a store on disk.
    users = made.table("users", value=utf8, store="users")
    orders = (
        made.stream("orders")
        # The join is by key. An order has the key of the order: give it that of its user. headrace then sends
        # the orders through a topic of its own, so that an order and its user meet in the same task.
        .select_key(lambda _, order: order["user"])
        # An order of an unknown user stays in a left join; `join` would leave it out.
        .left_join(users, with_country)
    )
    orders.to("orders-with-country")
    spent = orders.group_by(lambda _, order: order["country"]).aggregate(
        lambda: 0.0,
        lambda _country, order, total: total + order["amount"],
        store="spent",
    )
    spent.to_stream().to("spent-by-country")
    return made


def main() -> None:
    """Users, then orders, and what comes out."""
    with common.cluster("users", "orders", "orders-with-country", "spent-by-country") as cluster:
        with cluster.producer(key=utf8, value=utf8) as producer:
            for user, country in USERS.items():
                producer.send("users", country, key=user)
        with cluster.producer(key=utf8, value=json) as producer:
            for order, user, amount in ORDERS:
                producer.send("orders", {"order": order, "user": user, "amount": amount}, key=order)

        with common.run(app(), cluster) as running:
            found = common.read(
                running, "orders-with-country", lambda all_: len(all_) == len(ORDERS), value=json
            )
            total = sum(amount for _, _, amount in ORDERS)
            spent: dict[str, float] = {}

            def is_complete(records: list[Any]) -> bool:
                spent.update({record.key: record.value for record in records})
                return sum(spent.values()) == total

            common.read(running, "spent-by-country", is_complete, key=utf8, value=json)
    for order in sorted((record.value for record in found), key=lambda order: order["order"]):
        print(f"{order['order']} {order['user']} {order['country']:8} {order['amount']:6.2f}")
    for country, amount in sorted(spent.items()):
        print(f"{country:8} {amount:6.2f}")


if __name__ == "__main__":
    main()
