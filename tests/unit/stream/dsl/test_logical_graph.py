"""The order in which nodes are written."""

from __future__ import annotations

from headrace.stream import Builder


def test_nodes_are_written_in_the_order_of_the_program() -> None:
    """A merge waits for both of its parents; a later source comes later."""
    app = Builder()
    one = app.stream("one", name="one")
    two = app.stream("two", name="two")
    one.filter(lambda k, v: True, name="after-two")
    one.merge(two, name="merge").to("out", name="sink")
    app.stream("three", name="three").to("out2", name="sink2")
    built = app.build("app")
    assert [node.name for node in built.all_tasks().nodes] == [
        "one",
        "two",
        "after-two",
        "merge",
        "sink",
        "three",
        "sink2",
    ]


def test_patterns_are_merged_by_their_text() -> None:
    """Two streams of one pattern have one source."""
    import re

    app = Builder()
    app.stream(re.compile("log-.*")).to("a")
    app.stream(re.compile("log-.*")).to("b")
    app.stream(re.compile("log-.*", re.IGNORECASE)).to("c")
    assert app.build("app").source_patterns() == ("log-.*", "log-.*")


def test_long_and_wide_graphs() -> None:
    """No recursion over thousands of operators, no time for each path through many joins."""
    app = Builder(optimization="all")
    stream = app.stream("in")
    for _ in range(3_000):
        stream = stream.filter(lambda k, v: True)
    stream.group_by(lambda k, v: v).count().to_stream().to("out")
    table = app.table("table")
    for number in range(40):
        table = table.join(table, max, store=f"joined-{number}")
    text = app.describe()
    assert text.count("KSTREAM-FILTER") > 3_000
    assert text.count("KTABLE-JOINTHIS") > 40
