"""The builder: sources, tables, stores, and errors with the line that made them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from headrace import stream
from headrace.clients.serdes import Serde, int64, json, utf8
from headrace.stream import Builder, KStream, Store, TopologyError


def test_sources_of_the_same_topic_are_merged() -> None:
    """One source node feeds both streams."""
    app = Builder()
    app.stream("orders").filter(lambda _key, _value: True).to("a")
    app.stream("orders").to("b")
    built = app.build("app")
    assert built.sub_topology_ids == (0,)
    assert built.sub_topology(0).children["KSTREAM-SOURCE-0000000000"] == (
        "KSTREAM-FILTER-0000000001",
        "KSTREAM-SINK-0000000004",
    )


def test_sources_with_some_topics_in_common_are_refused() -> None:
    """The error names the line of the second stream."""
    app = Builder()
    app.stream("orders").to("a")
    app.stream("orders", "users").to("b")
    with pytest.raises(TopologyError, match="have topic orders in common, but not all") as caught:
        app.topology()
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__


def test_sources_of_the_same_topic_reset_their_offsets_alike() -> None:
    """A consumer has one start for a partition."""
    app = Builder()
    app.stream("orders", offset_reset="earliest").to("a")
    app.stream("orders").to("b")
    with pytest.raises(TopologyError, match="reset their offsets differently: earliest and None"):
        app.topology()


def test_a_table_is_stored_once_it_is_read() -> None:
    """A table that nothing reads, and whose store has no name, needs no store."""
    alone = Builder()
    alone.table("users").to_stream().to("out")
    assert alone.build("app").sub_topology(0).stores == ()
    joined = Builder()
    joined.stream("orders").join(joined.table("users"), lambda order, user: (order, user)).to("out")
    (store,) = joined.build("app").sub_topology(0).stores
    assert store.name == "users-STATE-STORE-0000000001"


def test_the_source_topic_is_the_changelog_of_an_optimized_table() -> None:
    """reuse.ktable.source.topics"""
    app = Builder(optimization="reuse.ktable.source.topics")
    app.table("users", store="users").to_stream().to("out")
    built = app.build("app")
    assert built.sub_topology(0).changelogs == {"users": "users"}
    assert built.topics_of(0).created_changelogs == ()


def test_nothing_is_added_to_a_complete_topology() -> None:
    """describe() completes it. What is added to a stream afterwards would never run."""
    app = Builder()
    records = app.stream("a")
    records.to("b")
    app.describe()
    for add in (lambda: app.stream("c"), lambda: records.to("c"), lambda: records.group_by_key().count()):
        with pytest.raises(TopologyError, match="is complete"):
            add()


def test_streams_of_two_applications_are_not_combined() -> None:
    """The parts of the other one would be missing."""
    left, right = Builder().stream("a"), Builder().stream("b")
    for combine in (
        lambda: left.merge(right),
        lambda: left.join(right, lambda a, b: a, window=stream.join_window(5)),
        lambda: left.join(right.to_table(), lambda a, b: a),
    ):
        with pytest.raises(TopologyError, match="of different applications cannot be combined"):
            combine()


def test_a_topic_that_is_read_twice_has_one_format() -> None:
    """Its records are read once. A default counts where it is known."""
    for key, value in ((None, json), (int64, None), (int64, utf8)):
        app = stream.App("twice", key=utf8, value=utf8)
        app.stream("a")
        app.stream("a", key=key, value=value)
        with pytest.raises(
            TopologyError, match=r"of the same topics have different (key|value) serdes: utf8"
        ):
            app.topology()
    for same in (Builder(), stream.App("twice", key=utf8, value=utf8)):
        same.stream("a")
        same.stream("a", key=utf8, value=Serde("utf8", str.encode, bytes.decode))
        assert same.topology()


def test_required_names() -> None:
    """ensure.explicit.internal.resource.naming lists what has a generated name."""
    app = Builder(require_names=True)
    app.stream("a").group_by(lambda _key, value: value).count()
    with pytest.raises(
        TopologyError, match=r"store KSTREAM-AGGREGATE-STATE-STORE-0000000002, repartition topic"
    ):
        app.topology()
    named = Builder(require_names=True)
    named.stream("a").group_by(lambda _key, value: value, name="by-value").count(store="counts")
    named.topology()


def test_defaults_of_stores() -> None:
    """Operators cache their stores; those of processors are not cached."""
    app = Builder(persistent=False)
    app.stream("a").group_by_key().count(store=Store("counts", key=utf8, config={"segment.ms": "1"}))
    app.add_store(Store("mine"))
    app.stream("b").process(lambda: Nothing(), "mine")
    stores = {store.name: store for each in (0, 1) for store in app.build("x").sub_topology(each).stores}
    counts: Any = stores["counts"]
    assert (counts.persistent, counts.is_cached, counts.is_logged) == (False, True, True)
    assert (counts.key_serde, counts.changelog_config) == (utf8, {"segment.ms": "1"})
    assert (stores["mine"].is_cached, stores["mine"].is_logged) == (False, True)


class Nothing:
    """A processor that does nothing."""

    def process(self, record: Any) -> None:
        """The record is dropped."""


def _windowless(app: Builder) -> None:
    app.table("a").suppress(stream.until_window_closes())


def _versioned_suppression(app: Builder) -> None:
    app.table("a", store=Store("s", history=10)).suppress(stream.until_time_limit(1))


def _unversioned_grace(app: Builder) -> None:
    app.stream("a").join(app.table("b", store="s"), lambda a, b: a, grace=5)


def _too_long_grace(app: Builder) -> None:
    table = app.table("b", store=Store("s", history=4))
    app.stream("a").join(table, lambda a, b: a, grace=5)
    app.topology()


def _missing_store(app: Builder) -> None:
    app.stream("a").process(lambda: Nothing(), "none")
    app.topology()


def _different_partitions(app: Builder) -> None:
    one = app.stream("a").repartition(partitions=2, name="one")
    other = app.stream("b").repartition(partitions=3, name="two")
    one.join(other, lambda a, b: a, window=stream.join_window(5))
    app.topology()


def _same_name(app: Builder) -> None:
    app.stream("a", name="x").to("b", name="x")
    app.topology()


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (_windowless, "there is none in KTABLE-SOURCE"),
        (_versioned_suppression, "cannot be suppressed"),
        (_unversioned_grace, "a join with grace or as of a time needs a versioned table"),
        (_too_long_grace, "the grace of the join, 5 ms, is longer than the history of s, 4 ms"),
        (_missing_store, "store none of processor KSTREAM-PROCESSOR-0000000001 has not been added"),
        (_different_partitions, "one-repartition has 2, two-repartition has 3"),
        (_same_name, "another node with the name x exists"),
        (lambda app: app.stream("a").filter(lambda _k, _v: True, name="a b"), "name 'a b' has"),
        (lambda app: app.stream(), "a stream has one or more topics, or one pattern"),
        (lambda app: app.stream(5), "topics are names, or one compiled pattern, not (5,)"),
        (lambda app: app.stream("a").repartition(partitions=0), "has at least one partition, not 0"),
        (lambda app: (app.stream("a").to("b c"), app.topology()), "a topic name may have only ASCII letters"),
        (lambda app: (app.stream("a/b"), app.topology()), "a topic name may have only ASCII letters"),
        (lambda app: (app.stream("a").to(5), app.topology()), "is a name or a function, not 5"),
    ],
)
def test_wrong_applications_fail_with_the_line_that_built_them(wrong: Any, problem: str) -> None:
    """Not when they run."""
    with pytest.raises(TopologyError, match=re.escape(problem)) as caught:
        wrong(Builder())
    origin = caught.value.origin
    assert origin is not None
    assert origin.file == __file__
    line = Path(__file__).read_text().splitlines()[origin.line - 1]
    assert "app." in line or "join(" in line


def test_streams_can_be_added() -> None:
    """`+` is merge."""
    app = Builder()
    merged = app.stream("a") + app.stream("b")
    assert isinstance(merged, KStream)
    merged.to("c")
    assert "KSTREAM-MERGE-0000000002" in app.describe()
