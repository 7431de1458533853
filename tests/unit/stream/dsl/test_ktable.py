"""Operators of tables and of grouped streams: nodes, names and stores."""

from __future__ import annotations

from typing import Any

import pytest
from headrace import stream
from headrace.clients.serdes import int64, utf8
from headrace.stream import Builder, Store


def stores(app: Builder) -> dict[str, Any]:
    """All stores by name."""
    built = app.build("app")
    return {store.name: store for each in built.sub_topology_ids for store in built.sub_topology(each).stores}


def test_derived_tables_are_stored_where_the_user_names_a_store() -> None:
    """filter and map_values alone are computed when they are read."""
    app = Builder()
    users = app.table("users", key=utf8, value=utf8, store="users")
    users.filter(lambda k, v: True)
    assert users.filter(lambda k, v: True, store=Store(value=int64)).queryable_store_name is None
    lengths = users.map_values(len, store=Store("lengths", value=int64))
    assert lengths.queryable_store_name == "lengths"
    found = stores(app)
    assert set(found) == {"users", "lengths"}
    assert (found["lengths"].key_serde, found["lengths"].value_serde) == (utf8, int64)


def test_a_store_without_name_uses_up_a_number() -> None:
    """As Java's Materialized without a name does, in the same places."""
    app = Builder()
    grouped = app.stream("a", key=utf8).group_by_key()
    grouped.count(store=Store(cached=False))  # 1 unused, 2 the store, 3 the node
    grouped.windowed_by(stream.sliding(5)).count(store=Store(cached=False))  # 4, 5
    grouped.aggregate(str, lambda k, v, a: a, store=Store(cached=False))  # 6, 7
    assert list(stores(app)) == [
        "KSTREAM-AGGREGATE-STATE-STORE-0000000002",
        "KSTREAM-AGGREGATE-STATE-STORE-0000000004",
        "KSTREAM-AGGREGATE-STATE-STORE-0000000006",
    ]


def test_grouped_tables_share_a_named_repartition_topic() -> None:
    """Two aggregations of one grouping, one topic."""
    app = Builder()
    grouped = app.table("a").group_by(lambda k, v: (v, k), name="by-value")
    grouped.count()
    grouped.reduce(lambda a, b: a, lambda a, b: a)
    built = app.build("app")
    topics = [topic for each in built.sub_topology_ids for topic in built.topics_of(each).repartition_topics]
    assert topics == ["app-by-value-repartition"]


def test_cogrouped_streams_share_a_store() -> None:
    """Grouped streams of other topics must have as many partitions."""
    app = Builder()
    orders = app.stream("orders", key=utf8).group_by_key()
    clicks = app.stream("clicks", key=utf8).group_by(lambda k, v: v, key=utf8)
    both = orders.cogroup(lambda k, v, a: a).cogroup(clicks, lambda k, v, a: a)
    both.aggregate(int, store="both", name="merged")
    both.windowed_by(stream.tumbling(5)).aggregate(int)
    built = app.build("app")
    assert built.copartition_groups() == (frozenset({"clicks", "orders"}),)
    assert stores(app)["both"].key_serde is utf8
    with pytest.raises(ValueError, match="sessions need merge="):
        both.windowed_by(stream.session(5)).aggregate(int)


def test_foreign_keys_lead_through_two_topics() -> None:
    """Subscriptions are partitioned like the right table, responses like the left one."""
    app = Builder()
    orders = app.table("orders", key=utf8, value=utf8)
    users = app.table("users", key=utf8, value=utf8)
    orders.join(users, lambda order, user: order, foreign_key=lambda order: order, name="fk")
    built = app.build("app")
    assert built.copartition_groups() == (
        frozenset({"app-fk-subscription-registration-topic", "users"}),
        frozenset({"app-fk-subscription-response-topic", "orders"}),
    )
    assert "fk-subscription-store" in stores(app)
