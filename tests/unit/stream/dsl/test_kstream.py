"""Operators of streams: nodes, names and arguments."""

from __future__ import annotations

from typing import Any

import pytest
from headrace import stream
from headrace.clients.serdes import int64, json, utf8
from headrace.stream import Builder, KStream
from headrace.stream.topology.specs import SinkSpec, SourceSpec


def nodes(app: Builder) -> list[str]:
    """Names of all nodes, in order."""
    built = app.build("app")
    return [node.name for each in built.sub_topology_ids for node in built.sub_topology(each).nodes]


def test_names_of_operators() -> None:
    """Each operator uses up a number, with or without a name, except process."""
    app = Builder()
    orders: KStream[Any, Any] = app.stream("orders")
    orders.filter(lambda k, v: v, name="big").filter_not(lambda k, v: v).peek(print)
    orders.map(lambda k, v: (v, k)).flat_map(lambda k, v: [(k, v)]).select_key(lambda k, v: v)
    orders.map_values(str).flat_map_values(str)
    orders.process(dict, name="processed")
    orders.process_values(dict)
    orders.foreach(print)
    orders.print()
    assert nodes(app) == [
        "KSTREAM-SOURCE-0000000000",
        "big",
        "KSTREAM-FILTER-0000000002",
        "KSTREAM-PEEK-0000000003",
        "KSTREAM-MAP-0000000004",
        "KSTREAM-FLATMAP-0000000005",
        "KSTREAM-KEY-SELECT-0000000006",
        "KSTREAM-MAPVALUES-0000000007",
        "KSTREAM-FLATMAPVALUES-0000000008",
        "processed",
        "KSTREAM-PROCESSVALUES-0000000009",
        "KSTREAM-FOREACH-0000000010",
        "KSTREAM-PRINTER-0000000011",
    ]


def test_serdes_follow_unchanged_keys_and_values() -> None:
    """A new value forgets the serde of values, a new key that of keys."""
    app = Builder()
    orders = app.stream("orders", key=utf8, value=json)
    orders.filter(lambda k, v: True).to("same")
    orders.map_values(str).to("values")
    orders.select_key(lambda k, v: 1).to("keys")
    orders.map(lambda k, v: (k, v)).to("both", value=int64)
    sinks = [node for node in app.build("app").sub_topology(0).nodes if isinstance(node, SinkSpec)]
    assert [(sink.topic, sink.key, sink.value) for sink in sinks] == [
        ("same", utf8, json),
        ("values", utf8, None),
        ("keys", None, json),
        ("both", None, int64),
    ]


def test_branches_have_the_name_of_the_split() -> None:
    """A number for branches without a name, 0 for the default; a consumed branch is not returned."""
    app = Builder()
    kept: list[KStream[Any, Any]] = []
    branches = (
        app.stream("a")
        .split(name="split-")
        .branch(lambda k, v: v == 1)
        .branch(lambda k, v: v == 2, name="two", chain=lambda branch: branch.map_values(str))
        .branch(lambda k, v: v == 3, chain=lambda branch: kept.append(branch))  # type: ignore[func-returns-value]
        .default_branch()
    )
    assert list(branches) == ["split-1", "split-two", "split-0"]
    assert len(kept) == 1
    assert nodes(app) == [
        "KSTREAM-SOURCE-0000000000",
        "split-",
        "split-1",
        "split-two",
        "KSTREAM-MAPVALUES-0000000004",
        "split-3",
        "split-0",
    ]


def test_a_changed_key_is_repartitioned_once_it_matters() -> None:
    """Not by map alone; by an aggregation, a join or to_table after it."""
    app = Builder()
    mapped = app.stream("a").map(lambda k, v: (v, k))
    mapped.to("b")
    assert app.build("app").sub_topology_ids == (0,)
    app = Builder()
    app.stream("a").map(lambda k, v: (v, k)).map_values(str).to_table(name="t", store="s")
    built = app.build("app")
    assert built.sub_topology_ids == (0, 1)
    assert built.topics_of(1).repartition_topics["app-t-repartition"].partitions is None
    app = Builder()
    app.stream("a").repartition(partitions=3, key=utf8, name="again").group_by_key().count()
    built = app.build("app")
    assert built.topics_of(1).repartition_topics["app-again-repartition"].partitions == 3
    assert [topic for topic, source in built.sub_topology(1).sources.items() if source.key is utf8] == [
        "app-again-repartition"
    ]


def test_options_of_sources() -> None:
    """Timestamps by a function, offset resets, serdes."""
    app = Builder()
    app.stream("a", key=utf8, timestamp=lambda record: record.offset, offset_reset="latest", name="mine").to(
        "b"
    )
    (source,) = (node for node in app.build("app").sub_topology(0).nodes if isinstance(node, SourceSpec))
    assert (source.name, source.key, source.offset_reset) == ("mine", utf8, "latest")
    assert source.timestamp is not None
    record = type("Record", (), {"offset": 7})()
    assert source.timestamp.extract(record, -1, 0) == 7


def test_windowed_keys_are_partitioned_by_their_key() -> None:
    """All windows of a key go to one partition, as from Java."""
    app = Builder()
    counts = app.stream("a", key=utf8).group_by_key().windowed_by(stream.tumbling(10)).count()
    counts.to_stream().to("b")
    counts.to_stream().to("c", partitioner=lambda *_: 0)
    sinks = [node for node in app.build("app").sub_topology(0).nodes if isinstance(node, SinkSpec)]
    assert getattr(sinks[0].partitioner, "inner", None) is utf8
    assert callable(sinks[1].partitioner)


@pytest.mark.parametrize(
    ("wrong", "error", "problem"),
    [
        (lambda s, t: s.join(t, max, how="cross"), ValueError, "how must be"),
        (lambda s, t: s.join(t, max, how="outer"), ValueError, "have no outer join"),
        (lambda s, t: s.join("table", max), TypeError, "a stream joins a KStream, KTable or GlobalKTable"),
        (lambda s, t: s.join(s, max), TypeError, "window"),
        (lambda s, t: s.map_values(str, with_key=True, with_record=True), ValueError, "exclude each other"),
        (lambda s, t: t.join(t, max, how="cross"), ValueError, "how must be"),
        (lambda s, t: t.join(t, max, foreign_key=str, how="outer"), ValueError, "has no outer form"),
        (
            lambda s, t: s.group_by_key().windowed_by(stream.unlimited()).emit("close"),
            ValueError,
            "never close",
        ),
        (lambda s, t: s.group_by_key().windowed_by(stream.tumbling(1)).emit("now"), ValueError, "emitted on"),
    ],
)
def test_wrong_arguments(wrong: Any, error: type[Exception], problem: str) -> None:
    """They are refused when the operator is added."""
    app = Builder()
    with pytest.raises(error, match=problem):
        wrong(app.stream("a"), app.table("b"))


def test_lines_of_print_are_those_of_java() -> None:
    """[label]: key, value"""
    app = Builder()
    lines: list[str] = []
    app.stream("a", key=utf8, value=int64).print(label="orders", write=lines.append)
    app.stream("b", key=utf8, value=int64).print(write=lines.append, mapper=lambda k, v: f"{k}!")
    with stream.TestDriver(app) as driver:
        driver.input_topic("a", key=utf8, value=int64).pipe_input("k", 1)
        driver.input_topic("b", key=utf8, value=int64).pipe_input("k", 1)
    assert lines == ["[orders]: k, 1\n", "[KSTREAM-SOURCE-0000000002]: k!\n"]
