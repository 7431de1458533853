"""The Processor API's topology: sub-topologies, stores, topics, and errors with the line that made them."""

from __future__ import annotations

import re

import pytest
from headrace.stream.topology.errors import TopologyError
from headrace.stream.topology.topology import Topology

from tests.fakes.stream_stores import AnyProcessor, AnyStore


def word_count() -> Topology:
    """A source, a processor with a store, and a sink."""
    return (
        Topology()
        .add_source("source", "words")
        .add_processor("count", AnyProcessor, "source")
        .add_state_store(AnyStore("counts"), "count")
        .add_sink("sink", "totals", "count")
    )


def test_nodes_of_a_sub_topology_come_before_their_children() -> None:
    """A task wires nodes in this order; names of topics are full names."""
    built = word_count().build("app").sub_topology(0)
    assert [node.name for node in built.nodes] == ["source", "count", "sink"]
    assert built.children == {"source": ("count",), "count": ("sink",), "sink": ()}
    assert built.sources["words"].name == "source"
    assert [store.name for store in built.stores] == ["counts"]
    assert built.changelogs == {"counts": "app-counts-changelog"}


def test_a_shared_store_joins_two_sub_topologies() -> None:
    """Processors that share a store run in one task."""
    topology = (
        Topology()
        .add_source("a", "ta")
        .add_source("b", "tb")
        .add_processor("pa", AnyProcessor, "a")
        .add_processor("pb", AnyProcessor, "b")
    )
    assert topology.build("app").sub_topology_ids == (0, 1)
    topology.add_state_store(AnyStore("shared"), "pa", "pb")
    assert topology.build("app").sub_topology_ids == (0,)


def test_ids_of_global_stores_are_missing_among_tasks() -> None:
    """A global store takes a number, and runs no task."""
    topology = Topology().add_global_store(AnyStore("g"), "gs", "gt", "gp", AnyProcessor)
    topology.add_source("s", "t").add_sink("k", "out", "s")
    built = topology.build("app")
    assert built.sub_topology_ids == (1,)
    everything = built.global_topology()
    assert everything is not None
    assert [node.name for node in everything.nodes] == ["gs", "gp"]
    assert everything.changelogs == {"g": "gt"}
    assert [store.is_logged for store in everything.global_stores] == [False]
    assert set(everything.reprocess) == {"g"}


def test_a_read_only_store_has_its_source_topic_as_changelog() -> None:
    """No changelog topic is created for it."""
    topology = Topology().add_read_only_state_store(AnyStore("ro"), "s", "t", "p", AnyProcessor)
    built = topology.build("app")
    assert built.sub_topology(0).changelogs == {"ro": "t"}
    assert built.topics_of(0).created_changelogs == ()
    assert built.offset_reset("t") == "earliest"


def test_patterns_match_whole_names_of_topics() -> None:
    """The topics of a pattern are those that exist."""
    topology = Topology().add_source("s", re.compile("log-.*")).add_sink("k", "out", "s")
    built = topology.build("app", matched=["log-a", "old-log-a", "log-b"])
    assert built.source_topics() == ("log-a", "log-b")
    assert built.source_patterns() == ("log-.*",)
    source = built.sub_topology(0).source_of("log-c")
    assert source is not None
    assert source.name == "s"


def test_a_topic_of_two_patterns_is_refused() -> None:
    """Its records would have two sources."""
    topology = Topology().add_source("s", re.compile("log-.*")).add_source("r", re.compile(".*-a"))
    with pytest.raises(TopologyError, match="log-a matches the patterns of two sources, s and r"):
        topology.build("app", matched=["log-a"])


def test_caches_are_disabled_without_cache_memory() -> None:
    """statestore.cache.max.bytes=0."""
    topology = word_count().add_state_store(AnyStore("cached", is_cached=True), "count")
    assert any(store.is_cached for store in topology.build("a").sub_topology(0).stores)
    assert not any(store.is_cached for store in topology.build("a", caching=False).sub_topology(0).stores)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (lambda t: t.add_source("source", "x"), "another node with the name source exists"),
        (lambda t: t.add_source("s"), "source s has no topics"),
        (lambda t: t.add_source("s", "words"), "topic words has another source"),
        (
            lambda t: t.add_source("s", re.compile("wo.*")),
            "pattern wo.* matches topic words of another source",
        ),
        (lambda t: t.add_sink("k", "x", "absent"), "parent absent of node k does not exist"),
        (lambda t: t.add_sink("k", "x", "k"), "node k is its own parent"),
        (lambda t: t.add_sink("k", "x"), "node k has no parents"),
        (lambda t: t.add_sink("k", "x", "sink"), "sink sink cannot be a parent of node k"),
        (lambda t: t.add_state_store(AnyStore("counts")), "another store with the name counts exists"),
        (lambda t: t.add_state_store(AnyStore("s"), "x"), "processor x of store s has not been added"),
        (
            lambda t: t.add_state_store(AnyStore("s"), "source"),
            "source is a source or sink: it cannot use store s",
        ),
        (
            lambda t: t.connect_processor_and_state_stores("count", "s"),
            "store s of processor count has not been added",
        ),
        (lambda t: t.connect_processor_and_state_stores("count"), "processor count: no stores to connect"),
    ],
)
def test_wrong_parts_fail_where_they_are_added(wrong: object, problem: str) -> None:
    """The error ends with file and line of this test."""
    assert callable(wrong)
    with pytest.raises(TopologyError, match=re.escape(problem)) as caught:
        wrong(word_count())
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__
    assert str(caught.value).endswith(f"({__file__}:{caught.value.origin.line})")


def test_global_stores_are_not_connected() -> None:
    """Every processor can read them."""
    topology = word_count().add_global_store(AnyStore("g"), "gs", "gt", "gp", AnyProcessor)
    with pytest.raises(TopologyError, match="do not connect it to count"):
        topology.connect_processor_and_state_stores("count", "g")
    with pytest.raises(TopologyError, match="another store with the name g exists"):
        topology.add_global_store(AnyStore("g"), "s2", "t2", "p2", AnyProcessor)
    with pytest.raises(TopologyError, match="have the same name"):
        topology.add_global_store(AnyStore("h"), "s2", "t2", "s2", AnyProcessor)
