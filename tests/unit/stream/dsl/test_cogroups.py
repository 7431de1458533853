"""Named aggregates of cogrouped streams, beside those of one stream, and what they refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from headrace.stream import (
    Builder,
    Collect,
    Count,
    First,
    Last,
    Max,
    Mean,
    Sum,
    TopN,
    count_windows,
    rows,
    session,
    tumbling,
)
from headrace.stream.testing.strategies import out_of_order
from headrace.stream.topology.errors import TopologyError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.stream_run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = out_of_order(
    st.sampled_from("ab"), st.integers(-5, 5), max_size=20, max_step_ms=6, max_lateness_ms=12
)
WINDOWS = [None, tumbling(10, grace=50), session(5, grace=50), count_windows(3)]


def of(topic: str) -> Callable[[Any], Any]:
    """The number of a value (topic, number) of this topic; None of others."""
    return lambda value: value[1] if value[0] == topic else None


def number(value: Any) -> Any:
    return value[1]


def run(builder: Builder, table: Any, records: list[Any]) -> Any:
    """The output for records that are (topic, (key, value, timestamp))."""
    table.to_stream(lambda key, _: str(key)).to("out", value=rows)
    subject = Run(builder, cache_bytes=0)
    for topic, record in records:
        subject.send(topic, record)
    found = subject.read()
    subject.close()
    return found


@pytest.mark.parametrize("windows", WINDOWS)
@given(records=RECORDS, topics=st.lists(st.sampled_from(["one", "two"]), min_size=20, max_size=20))
@settings(max_examples=15)
def test_a_cogroup_equals_one_stream_with_all_records(
    windows: Any, records: list[tuple[str, Any, int]], topics: list[str]
) -> None:
    """Where each aggregate takes the values of its own stream."""
    tagged = [
        (topic, (key, [topic, value], timestamp))
        for topic, (key, value, timestamp) in zip(topics, records, strict=False)
    ]
    together = Builder()
    single = together.stream("all").group_by_key()
    expected = run(
        together,
        (single if windows is None else single.windowed_by(windows)).aggregate(
            low=First(of("one")),
            total=Sum(number),
            seen=Collect(of("two")),
            best=TopN(2, of("two")),
            n=Count(),
            high=Max(number),
        ),
        [("all", record) for _, record in tagged],
    )
    builder = Builder()
    one, two = (builder.stream(topic).group_by_key() for topic in ("one", "two"))
    both = one.cogroup(low=First(number), total=Sum(number)).cogroup(
        two, total=Sum(number), seen=Collect(number), best=TopN(2, number)
    )
    last = {"n": Count(), "high": Max(number)}
    table = (both if windows is None else both.windowed_by(windows)).aggregate(**last)
    assert run(builder, table, tagged) == expected


def test_names_of_nodes_are_those_of_aggregators() -> None:
    """The topology is Java's."""
    texts = []
    for named in (False, True):
        builder = Builder()
        one, two = (builder.stream(topic).group_by_key() for topic in ("one", "two"))
        if named:
            one.cogroup(n=Count()).cogroup(two, total=Sum()).aggregate(store="both").to_stream().to("out")
        else:
            functions = one.cogroup(lambda k, v, a: a).cogroup(two, lambda k, v, a: a)
            functions.aggregate(int, store="both").to_stream().to("out")
        texts.append(builder.describe())
    assert texts[0] == texts[1]


def adds(_key: Any, _value: Any, total: int) -> int:
    return total + 1


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda one, _: one.cogroup(adds, n=Count()), "an aggregator for each stream, or named aggregates"),
        (lambda one, two: one.cogroup(n=Count()).cogroup(two, adds), "an aggregator for each stream"),
        (lambda one, two: one.cogroup(adds).cogroup(two, n=Count()), "this stream needs an aggregator"),
        (lambda one, _: one.cogroup(n=1), "n= must be an aggregate"),
        (lambda one, _: one.cogroup(adds).aggregate(n=Count()), "n= is a named aggregate, but"),
        (lambda one, _: one.cogroup(adds).aggregate(int, value=rows), "value= is for named aggregates"),
        (lambda one, _: one.cogroup(n=Count()).aggregate(int), "named aggregates exclude initializer"),
        (lambda one, _: one.cogroup().aggregate(), "needs named aggregates"),
        (
            lambda one, _: one.cogroup(n=Count()).aggregate(n=Count()),
            "n= is over all streams",
        ),
        (
            lambda one, two: one.cogroup(n=Count()).cogroup(two, n=Mean()).aggregate(),
            "n= stands for two aggregates of this cogroup, Count and Mean",
        ),
        (
            lambda one, two: one.cogroup(n=TopN(2)).cogroup(two, n=TopN(2, by=abs)).aggregate(),
            "TopN and TopN, which differ in more than of=",
        ),
        (lambda one, _: one.cogroup(n=Count()).aggregate(store=Last()), "store= is an option"),
    ],
)
def test_invalid_cogroups_are_rejected_with_their_line(build: Callable[[Any, Any], Any], text: str) -> None:
    """When the topology is built, with the line."""
    builder = Builder()
    one, two = (builder.stream(topic).group_by_key() for topic in ("one", "two"))
    with pytest.raises(TopologyError, match=text) as caught:
        build(one, two)
    assert "test_cogroups.py" in str(caught.value)
