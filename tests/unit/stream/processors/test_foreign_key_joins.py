"""Joins of a table with another by a foreign key."""

from __future__ import annotations

from headrace.clients.serdes import json, utf8
from headrace.stream import Builder
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.stream_run import Run


def joined(how: str = "inner") -> Run:
    """Orders name their user in the first letter of the value."""
    builder = Builder()
    orders, users = (
        builder.table("orders", key=utf8, value=json),
        builder.table("users", key=utf8, value=json),
    )
    join = orders.join if how == "inner" else orders.left_join
    joined = join(
        users, lambda order, user: [order, user], foreign_key=lambda v: v[0] or None, store="joined"
    )
    joined.to_stream().to("out")
    return Run(builder)


def test_changes_of_both_sides_reach_the_row() -> None:
    """Of every order of a user."""
    run = joined().send("users", ("u", "Ada", 0)).send("orders", ("o1", ["u", 1], 1), ("o2", ["u", 2], 2))
    assert run.read() == [("o1", [["u", 1], "Ada"], 1), ("o2", [["u", 2], "Ada"], 2)]
    run.send("users", ("u", "Ida", 3))
    assert run.read() == [("o1", [["u", 1], "Ida"], 3), ("o2", [["u", 2], "Ida"], 3)]


def test_an_order_can_move_to_another_user() -> None:
    """Later changes of the first user do not reach it."""
    run = joined().send("users", ("u", "Ada", 0), ("v", "Bob", 0)).send("orders", ("o", ["u", 1], 1))
    run.send("orders", ("o", ["v", 1], 2)).send("users", ("u", "Ida", 3))
    assert [value for _, value, _ in run.read()] == [[["u", 1], "Ada"], [["v", 1], "Bob"]]


def test_rows_disappear_with_the_order_or_the_user() -> None:
    """In a left join, only with the order."""
    for how, without_user in (("inner", None), ("left", [["u", 1], None])):
        run = joined(how).send("users", ("u", "Ada", 0)).send("orders", ("o", ["u", 1], 1))
        run.send("users", ("u", None, 2)).send("orders", ("o", None, 3))
        values = [value for _, value, _ in run.read()]
        assert values[:2] == [[["u", 1], "Ada"], without_user]
        assert values[-1] is None


def test_an_order_without_user() -> None:
    """Is dropped by an inner join, and joins None in a left join."""
    run = joined().send("orders", ("o", [None, 1], 1))
    assert (run.read(), run.driver.dropped_records) == ([], {"null foreign key": 1})
    assert joined("left").send("orders", ("o", [None, 1], 1)).read() == [("o", [[None, 1], None], 1)]


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("orders"), st.sampled_from("op"), st.sampled_from(["u", "v", "", None])),
        st.tuples(st.just("users"), st.sampled_from("uv"), st.sampled_from(["Ada", "Bob", None])),
    ),
    max_size=15,
)


@given(st.sampled_from(["inner", "left"]), CHANGES)
def test_the_stored_join_equals_a_join_of_dictionaries(
    how: str, changes: list[tuple[str, str, str | None]]
) -> None:
    """After any changes; an order with "" has no foreign key."""
    run = joined(how)
    tables: dict[str, dict[str, str]] = {"orders": {}, "users": {}}
    for number, (topic, key, value) in enumerate(changes):
        sent = [value, number] if topic == "orders" and value is not None else value
        run.send(topic, (key, sent, number))
        tables[topic].pop(key, None)
        if value is not None:
            tables[topic][key] = value
    users = tables["users"]
    expected = {
        key: users.get(user)
        for key, user in tables["orders"].items()
        if how == "left" or (user and user in users)
    }
    with run.driver.store("joined").all() as rows:
        assert {key: row.value[1] for key, row in rows} == expected
    run.close()
