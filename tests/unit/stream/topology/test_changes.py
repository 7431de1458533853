"""What differs between two topologies under one application id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from headrace import utf8
from headrace.stream import App
from headrace.stream.topology.changes import Effect, SubTopologyTopics, compare, topics_of_topology
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.stream.topology.changes import TopologyChanges

    Program = Callable[[App], object]


def changes(before: Program, after: Program) -> TopologyChanges:
    """From one program to another."""
    found = []
    for program in (before, after):
        app = App("app", key=utf8, value=utf8)
        program(app)
        found.append(topics_of_topology(app.build("app")))
    return compare("app", *found)


def counting(app: App) -> None:
    app.stream("words").group_by_key().count()


def filtered(app: App) -> None:
    app.stream("words").filter(lambda key, value: bool(value)).group_by_key().count()


def named(app: App) -> None:
    app.stream("words").filter(lambda key, value: bool(value)).group_by_key().count(store="counts")


def named_before(app: App) -> None:
    app.stream("words").group_by_key().count(store="counts")


def more_stores(app: App) -> None:
    grouped = app.stream("words").group_by_key()
    grouped.count(store="counts")
    grouped.reduce(lambda one, other: other, store="last")


def other_source(app: App) -> None:
    app.stream("words", "more").group_by_key().count(store="counts")


def by_value(app: App) -> None:
    app.stream("words").group_by(lambda key, value: value, name="grouped").count(store="counts")


def by_value_unnamed(app: App) -> None:
    app.stream("words").group_by(lambda key, value: value).count(store="counts")


def filtered_by_value(app: App) -> None:
    app.stream("words").filter(lambda key, value: True).group_by(lambda key, value: value).count(
        store="counts"
    )


def copying_too(app: App) -> None:
    named_before(app)
    app.stream("others").to("copies")


@pytest.mark.parametrize(
    ("before", "after", "effect", "said"),
    [
        (counting, counting, Effect.SAME, ""),
        (named_before, named, Effect.SAME, ""),
        (named_before, more_stores, Effect.ROLLING, "store last is new"),
        (more_stores, named_before, Effect.ROLLING, "store last is gone"),
        (named_before, other_source, Effect.STOP, "sub-topology 0 also reads more"),
        (other_source, named_before, Effect.STOP, "does not read more any more"),
        (named_before, copying_too, Effect.STOP, "sub-topology 1 is new: it reads others"),
        (copying_too, named_before, Effect.STOP, "sub-topology 1 is gone"),
        (named_before, by_value, Effect.STOP, "repartition topic app-grouped-repartition is new"),
        (by_value, named_before, Effect.LOSS, "app-grouped-repartition is gone"),
        (by_value_unnamed, by_value, Effect.LOSS, "is gone"),
    ],
)
def test_effects(before: Program, after: Program, effect: int, said: str) -> None:
    """The change that does the most harm decides."""
    found = changes(before, after)
    assert found.effect == effect
    assert any(said in line for line in found.lines()) or not said


def test_generated_names_that_have_another_number() -> None:
    """The message has both names of the store, and what to do."""
    found = changes(counting, filtered)
    assert found.effect is Effect.LOSS
    (line,) = found.lines()
    assert (
        "store KSTREAM-AGGREGATE-STATE-STORE-0000000001 is now KSTREAM-AGGREGATE-STATE-STORE-0000000002"
        in line
    )
    assert "store=, name=" in line


def test_a_repartition_topic_with_a_generated_name() -> None:
    """Its number changes with an operator before it; that of a named store is harmless."""
    lines = changes(by_value_unnamed, filtered_by_value).lines(Effect.LOSS)
    assert len(lines) <= 1
    topics = {
        "0": SubTopologyTopics(frozenset("a"), {"app-KSTREAM-X-0000000003-repartition": 2}, frozenset(), {})
    }
    after = {
        "0": SubTopologyTopics(frozenset("a"), {"app-KSTREAM-X-0000000005-repartition": 2}, frozenset(), {})
    }
    found = compare("app", topics, after)
    assert "app-KSTREAM-X-0000000005-repartition: its records that are not processed yet" in found.lines()[0]


def test_numbers_of_partitions() -> None:
    """Only where the program says one."""

    def topics(count: int | None) -> dict[str, SubTopologyTopics]:
        return {"0": SubTopologyTopics(frozenset("a"), {"app-r-repartition": count}, frozenset(), {})}

    assert compare("app", topics(4), topics(None)).effect is Effect.SAME
    assert compare("app", topics(4), topics(4)).effect is Effect.SAME
    assert "has 4 partitions, and 5 in the program" in compare("app", topics(4), topics(5)).lines()[0]


def test_sub_topologies_that_change_places() -> None:
    """The same inputs under another number."""
    one, other = (SubTopologyTopics(frozenset({name}), {}, frozenset(), {}) for name in "ab")
    found = compare("app", {"0": one, "1": other}, {"0": other, "1": one})
    assert found.effect is Effect.STOP
    assert sorted(found.lines()) == [
        "stop: sub-topology 0 is now sub-topology 1: its tasks have other ids",
        "stop: sub-topology 1 is now sub-topology 0: its tasks have other ids",
    ]


names = st.sampled_from(
    [*"abc", "KSTREAM-AGGREGATE-STATE-STORE-0000000003", "KSTREAM-AGGREGATE-STATE-STORE-0000000005"]
)
sub_topologies = st.builds(
    lambda sources, stores, repartition: SubTopologyTopics(
        frozenset(sources),
        {f"app-{name}-repartition": None for name in repartition},
        frozenset(),
        {f"app-{name}-changelog": None for name in stores},
    ),
    st.sets(st.sampled_from("wxyz"), max_size=3),
    st.sets(names),
    st.sets(names, max_size=2),
)


def distinct(some: list[SubTopologyTopics]) -> bool:
    """A topic is an input of one sub-topology, and a sub-topology has inputs."""
    inputs = [topic for each in some for topic in each.sources.union(each.repartition)]
    return len(inputs) == len(set(inputs)) and all(each.sources or each.repartition for each in some)


topologies = (
    st.lists(sub_topologies, max_size=3)
    .filter(distinct)
    .map(lambda some: {str(number): each for number, each in enumerate(some)})
)


@given(topologies, topologies)
def test_differences_are_found_in_both_directions(
    one: dict[str, SubTopologyTopics], other: dict[str, SubTopologyTopics]
) -> None:
    """No difference means the same tasks and stores; a rolling one the same tasks."""
    assert compare("app", one, one).effect is Effect.SAME
    forth, back = compare("app", one, other), compare("app", other, one)
    assert (forth.effect is Effect.SAME) == (back.effect is Effect.SAME)
    if forth.effect <= Effect.ROLLING:
        inputs = [
            {n: each.sources | each.repartition.keys() for n, each in some.items()} for some in (one, other)
        ]
        assert inputs[0] == inputs[1]
    stores = [{name for each in some.values() for name in each.changelogs} for some in (one, other)]
    if forth.effect is Effect.SAME:
        assert stores[0] == stores[1]
