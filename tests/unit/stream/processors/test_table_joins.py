"""Joins of two tables by key."""

from __future__ import annotations

import pytest
from headrace.clients.serdes import json, utf8
from headrace.stream import Builder
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.stream_run import Run


def joined(how: str, store: str | None = None) -> Run:
    """The values of both tables as a pair, as a stream of changes."""
    builder = Builder()
    left, right = builder.table("left", key=utf8, value=json), builder.table("right", key=utf8, value=json)
    join = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[how]
    join(right, lambda a, b: [a, b], store=store).to_stream().to("out")
    return Run(builder)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", [["a", "x"], ["b", "x"], None]),
        ("left", [["a", None], ["a", "x"], ["b", "x"], ["b", None]]),
        ("outer", [["a", None], ["a", "x"], ["b", "x"], ["b", None]]),
    ],
)
def test_a_change_of_either_side_changes_the_row(how: str, expected: list[object]) -> None:
    """A deletion of the right row deletes an inner row."""
    run = joined(how).send("left", ("k", "a", 0)).send("right", ("k", "x", 5)).send("left", ("k", "b", 3))
    run.send("right", ("k", None, 7))
    found = run.read()
    assert [value for _, value, _ in found] == expected
    assert [timestamp for *_, timestamp in found][-3:] == [5, 5, 7], "the higher one of both rows"


def test_rows_without_partner() -> None:
    """Only an outer join has rows of the right table alone."""
    for how, expected in (("inner", []), ("left", []), ("outer", [[None, "x"]])):
        assert [value for _, value, _ in joined(how).send("right", ("k", "x", 0)).read()] == expected


def test_null_keys_are_dropped() -> None:
    """At the source of the table."""
    run = joined("outer").send("left", (None, "a", 0))
    assert (run.read(), run.driver.dropped_records) == ([], {"null key": 1})


@given(
    st.sampled_from(["inner", "left", "outer"]),
    st.lists(st.tuples(st.booleans(), st.sampled_from("jk"), st.none() | st.integers(0, 3)), max_size=15),
)
def test_the_stored_join_equals_a_join_of_dictionaries(
    how: str, records: list[tuple[bool, str, int | None]]
) -> None:
    """After any changes."""
    run = joined(how, store="joined")
    tables: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for number, (is_left, key, value) in enumerate(records):
        run.send("left" if is_left else "right", (key, value, number))
        table = tables[0 if is_left else 1]
        table.pop(key, None)
        if value is not None:
            table[key] = value
    left, right = tables
    keys = {"inner": left.keys() & right.keys(), "left": left.keys(), "outer": left.keys() | right.keys()}[
        how
    ]
    with run.driver.store("joined").all() as rows:
        assert {key: row.value for key, row in rows} == {key: [left.get(key), right.get(key)] for key in keys}
    run.close()
