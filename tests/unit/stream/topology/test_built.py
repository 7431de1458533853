"""Topics and groups of a complete topology."""

from __future__ import annotations

import re

import pytest
from headrace import stream
from headrace.stream import Builder, Topology
from headrace.stream.topology.internal_topics import TopicKind

from tests.fakes.stream_stores import AnyProcessor, AnyStore


def joined() -> Builder:
    """A stream whose key was changed, and a table."""
    app = Builder()
    orders = app.stream("orders", offset_reset="latest").select_key(lambda k, v: v)
    orders.join(app.table("users"), lambda order, user: order).to("out")
    return app


def test_topics_of_sub_topologies() -> None:
    """Sources and sinks under full names; internal topics with their kinds."""
    built = joined().build("app")
    first, second = (built.topics_of(each) for each in built.sub_topology_ids)
    repartition = "app-KSTREAM-KEY-SELECT-0000000001-repartition"
    assert first.source_topics == {"orders"}
    assert first.sink_topics == {repartition}
    assert second.source_topics == {repartition, "users"}
    assert second.sink_topics == {"out"}
    assert second.repartition_topics[repartition].kind is TopicKind.REPARTITION
    (changelog,) = second.created_changelogs
    assert (changelog.name, changelog.kind) == (
        "app-users-STATE-STORE-0000000002-changelog",
        TopicKind.CHANGELOG,
    )
    assert built.sub_topology(1).repartition_topics == {repartition}


def test_topics_that_meet_in_a_task_are_co_partitioned() -> None:
    """Groups that have a topic in common are one."""
    built = joined().build("app")
    assert built.copartition_groups() == (
        frozenset({"app-KSTREAM-KEY-SELECT-0000000001-repartition", "users"}),
    )
    app = Builder()
    a, b, c = (app.stream(topic) for topic in "abc")
    window = stream.join_window(5)
    a.join(b, max, window=window)
    b.join(c, max, window=window)
    assert app.build("app").copartition_groups() == (frozenset("abc"),)


def test_offset_resets_and_sources_of_stores() -> None:
    """By topic; a store is filled from all sources above it."""
    built = joined().build("app")
    assert built.offset_reset("orders") == "latest"
    assert built.offset_reset("users") is None
    assert built.source_topics_of_store("users-STATE-STORE-0000000002") == ("users",)
    assert built.source_topics_of_store("nothing") == ()


def test_patterns_take_topics_as_they_appear() -> None:
    """A store below a pattern is filled from the matching topics."""
    topology = Topology().add_source("s", re.compile("log-.*")).add_processor("p", AnyProcessor, "s")
    built = topology.add_state_store(AnyStore("store"), "p").build("app")
    assert built.sub_topology(0).sources == {}
    built.use_matched(["log-a", "other"])
    assert list(built.sub_topology(0).sources) == ["log-a"]
    assert built.source_topics_of_store("store") == ("log-a",)


def test_unknown_nodes_and_sub_topologies() -> None:
    """KeyError"""
    built = joined().build("app")
    with pytest.raises(KeyError):
        built.sub_topology(7)
    with pytest.raises(KeyError):
        built.sub_topology(0).node("nothing")
    assert built.sub_topology(0).node("KSTREAM-SOURCE-0000000000").name == "KSTREAM-SOURCE-0000000000"
    assert built.sub_topology(0).source_of("nothing") is None
    assert built.global_topology() is None
