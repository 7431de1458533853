"""Aggregations: what counts and reductions compute, and their repartition topics."""

from __future__ import annotations

from headrace import stream
from headrace.clients.serdes import int64, utf8
from headrace.stream import Builder
from headrace.stream.dsl.aggregations import counting, reducing


def test_counting() -> None:
    """Sessions add their counts; the result is a long, as Java's."""
    count = counting()
    assert count.aggregator("k", "v", count.aggregator("k", "v", count.initializer())) == 2
    assert count.merge is not None
    assert count.merge("k", 2, 3) == 5
    assert count.value is int64


def test_reducing_starts_with_the_first_value() -> None:
    """Sessions are reduced in their order, and an empty one is the other."""
    reduce = reducing(lambda one, other: f"{one},{other}", utf8)
    assert reduce.initializer() is None
    assert reduce.aggregator("k", "a", None) == "a"
    assert reduce.aggregator("k", "b", "a") == "a,b"
    assert reduce.merge is not None
    assert reduce.merge("k", "a", "b") == "a,b"
    assert reduce.merge("k", None, "b") == "b"


def test_a_named_grouping_has_one_repartition_topic() -> None:
    """Without a name each aggregation has its own."""

    def topics(name: str | None) -> int:
        app = Builder()
        grouped = app.stream("a").group_by(lambda k, v: v, name=name)
        grouped.count()
        grouped.windowed_by(stream.tumbling(5)).count()
        built = app.build("app")
        return sum(len(built.topics_of(each).repartition_topics) for each in built.sub_topology_ids)

    assert topics("by-value") == 1
    assert topics(None) == 2
