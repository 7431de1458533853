"""Rewrites of the logical graph."""

from __future__ import annotations

import pytest
from headrace import stream
from headrace.stream import Builder, KStream
from headrace.stream.dsl.optimizations import ALL, chosen
from headrace.stream.topology.built import BuiltTopology


def repartition_topics(built: BuiltTopology) -> list[str]:
    """Of all sub-topologies."""
    return [topic for each in built.sub_topology_ids for topic in built.topics_of(each).repartition_topics]


def test_the_config_names_rewrites() -> None:
    """none, all, or some of them."""
    assert chosen("none") == chosen([]) == frozenset()
    assert chosen("all") == frozenset(ALL)
    assert chosen("single.store.self.join, reuse.ktable.source.topics") == frozenset({ALL[0], ALL[2]})
    with pytest.raises(ValueError, match=r"topology\.optimization: fast is none of"):
        chosen("fast")


def two_counts(optimization: str) -> BuiltTopology:
    """Two aggregations after one operator that changes the key."""
    app = Builder(optimization=optimization)
    mapped: KStream[str, str] = app.stream("a").map(lambda k, v: (v, k))
    mapped.filter(lambda k, v: True).group_by_key().count()
    mapped.group_by_key().reduce(max)
    return app.build("app")


def test_one_repartition_topic_behind_a_changed_key() -> None:
    """merge.repartition.topics"""
    assert len(repartition_topics(two_counts("none"))) == 2
    assert repartition_topics(two_counts("merge.repartition.topics")) == [
        "app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition"
    ]


def test_aggregations_that_share_an_operator_behind_a_changed_key() -> None:
    """Java fails here: it looks for the operator where the first aggregation has left it."""
    app = Builder(optimization="all")
    filtered = app.stream("a").map(lambda k, v: (v, k)).filter(lambda k, v: True)
    filtered.group_by_key().count()
    filtered.group_by_key().reduce(max)
    built = app.build("app")
    assert len(repartition_topics(built)) == 1
    assert built.sub_topology(1).children["KSTREAM-FILTER-0000000002"] == (
        "KSTREAM-AGGREGATE-0000000004",
        "KSTREAM-REDUCE-0000000009",
    )


def test_changed_values_are_not_moved_behind_the_topic() -> None:
    """The topic would contain other values than the aggregations expect."""
    app = Builder(optimization="all")
    mapped = app.stream("a").map(lambda k, v: (v, k))
    mapped.map_values(str).group_by_key().count()
    mapped.group_by_key().count()
    assert len(repartition_topics(app.build("app"))) == 2


def test_a_self_join_has_one_store() -> None:
    """single.store.self.join"""

    def stores(optimization: str) -> list[str]:
        app = Builder(optimization=optimization)
        orders = app.stream("orders")
        orders.join(orders, max, window=stream.join_window(5)).to("pairs")
        return [store.name for store in app.build("app").sub_topology(0).stores]

    assert len(stores("none")) == 2
    assert stores("all") == ["KSTREAM-JOINTHIS-0000000003-store"]


def test_null_keys_are_repartitioned_only_for_joins_that_take_them() -> None:
    """Left joins accept records without key; aggregations drop them."""

    def passes_null_keys(optimization: str, *, is_left: bool) -> bool:
        app = Builder(optimization=optimization)
        mapped: KStream[str, str] = app.stream("a").map(lambda k, v: (v, k))
        how = "left" if is_left else "inner"
        mapped.join(app.table("b"), max, how=how)
        (node,) = (each for each in app.build("app").sub_topology(0).nodes if "filter" in each.name.lower())
        predicate = node.supplier.predicate  # type: ignore[union-attr]
        return bool(predicate(None, "v"))

    assert passes_null_keys("none", is_left=True)
    assert not passes_null_keys("none", is_left=False)
    assert passes_null_keys("all", is_left=True)
