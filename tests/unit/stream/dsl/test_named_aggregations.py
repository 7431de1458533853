"""The forms of `aggregate`, and what is refused when the topology is built."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import json, utf8
from headrace.stream import Builder, Count, Last, Min, Store, Sum, TopologyError, rows, session, tumbling

AMOUNT: Sum[Any] = Sum(lambda order: order["amount"])


def test_names_are_those_of_an_aggregation() -> None:
    """The numbers are used up as by `aggregate` with functions."""

    def described(named: bool) -> str:
        builder = Builder()
        grouped = builder.stream("in").group_by(lambda key, value: value)
        if named:
            table: Any = grouped.aggregate(n=Count())
            windowed: Any = grouped.windowed_by(tumbling(5)).aggregate(n=Count())
            sessions: Any = grouped.windowed_by(session(5)).aggregate(n=Count(), name="sessions", store="s")
        else:
            table = grouped.aggregate(int, lambda k, v, n: n + 1)
            windowed = grouped.windowed_by(tumbling(5)).aggregate(int, lambda k, v, n: n + 1)
            sessions = grouped.windowed_by(session(5)).aggregate(
                int, lambda k, v, n: n + 1, lambda k, a, b: a + b, name="sessions", store="s"
            )
        for each in (table, windowed, sessions):
            each.to_stream().to("out")
        return builder.describe()

    assert described(named=True) == described(named=False)


def test_topics_get_rows_with_the_serde_of_value() -> None:
    """The store keeps its own."""
    builder = Builder()
    grouped = builder.stream("in", key=utf8).group_by_key()
    assert grouped.aggregate(n=Count()).handle.value is rows
    assert grouped.aggregate(n=Count(), value=json).handle.value is json
    table = builder.table("t", key=utf8).group_by(lambda key, value: (key, value))
    assert table.aggregate(n=Count()).handle.value is rows
    assert table.aggregate(n=Count(), value=json).handle.value is json


@pytest.mark.parametrize(
    ("arguments", "options", "problem"),
    [
        ((), {}, "aggregate needs initializer, aggregator; or aggregates with names"),
        ((int,), {}, "aggregate needs initializer, aggregator"),
        ((int, max), {"value": json}, "value= is for named aggregates"),
        ((int, max), {"n": Count()}, "named aggregates exclude initializer, aggregator"),
        ((), {"n": Count}, r"n= must be an aggregate.* call it, n=Count\(\)"),
        ((), {"name": Count()}, "name= is an option of the operator: give the aggregate another name"),
        ((), {"n": len}, "n= must be an aggregate, such as Sum"),
        ((), {"n": Count(), "store": Store("s", value=json)}, "the store of named aggregates has a format"),
    ],
)
def test_a_wrong_form_fails_where_it_is_written(
    arguments: tuple[Any, ...], options: dict[str, Any], problem: str
) -> None:
    """With the line of the program."""
    grouped = Builder().stream("in").group_by_key()
    with pytest.raises(TopologyError, match=problem) as failed:
        grouped.aggregate(*arguments, **options)
    assert "test_named_aggregations.py:" in str(failed.value)


@pytest.mark.parametrize("aggregate", [Min(), Last()])
def test_grouped_table_needs_aggregates_that_subtract(aggregate: Any) -> None:
    """The old value of a changed row has to leave its group."""
    grouped = Builder().table("in").group_by(lambda key, value: (key, value))
    with pytest.raises(
        TopologyError, match=r"x=(Min|Last) cannot take a value away.*test_named_aggregations"
    ):
        grouped.aggregate(n=Count(), total=AMOUNT, x=aggregate)
    with pytest.raises(TopologyError, match="store= is an option of the operator"):
        grouped.aggregate(n=Count(), store=Count())  # type: ignore[arg-type,call-overload]
    with pytest.raises(TopologyError, match="aggregate needs initializer, add, subtract"):
        grouped.aggregate(int)  # type: ignore[call-overload]


def test_sessions_of_functions_need_a_merger() -> None:
    """A record may join two of them."""
    windowed = Builder().stream("in").group_by_key().windowed_by(session(5))
    with pytest.raises(TopologyError, match="aggregate needs initializer, aggregator, merge"):
        windowed.aggregate(int, max)  # type: ignore[call-overload]
