"""Tests of stream/worker/topic_plan.py."""

from __future__ import annotations

import pytest
from headrace.stream.errors import InternalTopicError, MissingSourceTopicError
from headrace.stream.topology.internal_topics import InternalTopic, TopicKind
from headrace.stream.topology.sub_topology import TopicsInfo
from headrace.stream.worker.topic_plan import plan_topics


def info(
    sources: str, sinks: str = "", *, repartition: dict[str, int | None] | None = None, stores: str = ""
) -> TopicsInfo:
    made = {
        name: InternalTopic(name, TopicKind.REPARTITION, count) for name, count in (repartition or {}).items()
    }
    changelogs = {name: InternalTopic(name, TopicKind.CHANGELOG) for name in stores.split()}
    return TopicsInfo(frozenset(sources.split()), frozenset(sinks.split()), made, changelogs)


def counts(infos: list[TopicsInfo], existing: dict[str, int], *groups: str) -> dict[str, int]:
    planned = plan_topics(dict(enumerate(infos)), [frozenset(group.split()) for group in groups], existing)
    return {topic.name: partitions for topic, partitions in planned}


def test_a_repartition_topic_is_as_wide_as_the_widest_source_before_it() -> None:
    """The number flows through two repartition topics; a changelog has a partition for each task."""
    infos = [
        info("r2", repartition={"r2": None}, stores="c2"),
        info("r1", "r2", repartition={"r1": None}, stores="c1"),
        info("a b", "r1", stores="c0"),
    ]
    found = counts(infos, {"a": 2, "b": 5})
    assert found == {"r1": 5, "r2": 5, "c0": 5, "c1": 5, "c2": 5}


def test_a_number_that_the_topology_sets_stays() -> None:
    """`repartition(partitions=3)` decides the tasks behind it."""
    infos = [info("a", "r"), info("r", repartition={"r": 3}, stores="c")]
    assert counts(infos, {"a": 8}) == {"r": 3, "c": 3}


def test_a_repartition_topic_takes_the_number_of_the_topic_that_it_is_joined_with() -> None:
    """Also where its own source is wider."""
    infos = [info("a", "r"), info("r t", repartition={"r": None})]
    assert counts(infos, {"a": 8, "t": 3}, "r t") == {"r": 3}


def test_two_repartition_topics_of_a_join_are_equally_wide() -> None:
    """The wider one decides, unless the topology sets a number for one of them."""
    free = [info("a", "r"), info("b", "s"), info("r s", repartition={"r": None, "s": None})]
    assert counts(free, {"a": 2, "b": 4}, "r s") == {"r": 4, "s": 4}
    fixed = [info("a", "r"), info("b", "s"), info("r s", repartition={"r": 3, "s": None})]
    assert counts(fixed, {"a": 2, "b": 4}, "r s") == {"r": 3, "s": 3}


def test_both_topics_of_a_foreign_key_join_get_a_number() -> None:
    """Each is written by the sub-topology that reads the other, and is as wide as the table that it meets."""
    infos = [info("left response", "registration", repartition={"response": None}, stores="c0")]
    infos += [info("right registration", "response", repartition={"registration": None}, stores="c1")]
    found = counts(infos, {"left": 2, "right": 3}, "left response", "right registration")
    assert found == {"response": 2, "registration": 3, "c0": 2, "c1": 3}


def test_a_source_topic_that_is_its_own_changelog_is_not_created() -> None:
    """As with reuse.ktable.source.topics."""
    assert counts([info("a", stores="a")], {"a": 2}) == {}


def test_a_pattern_without_topics_has_no_changelogs_yet() -> None:
    """They are created when the first topic matches."""
    assert counts([info("", stores="c")], {"a": 2}) == {}
    assert counts([info("a", stores="c")], {"a": 2}) == {"c": 2}


@pytest.mark.parametrize(
    ("infos", "existing", "group", "text"),
    [
        ([info("a b")], {}, "", "source topics a, b do not exist"),
        ([info("a b")], {"a": 1}, "", "source topic b does not exist"),
        ([info("a b")], {"a": 2, "b": 3}, "a b", "a has 2 partitions, b has 3 partitions"),
        ([info("r", "r", repartition={"r": None})], {}, "", "decides the number of partitions of r"),
        (
            [info("a", "r"), info("r t", repartition={"r": 4})],
            {"a": 2, "t": 3},
            "r t",
            "repartition topic r has 4 partitions, but t, .* has 3",
        ),
        (
            [info("r s", repartition={"r": 4, "s": 5}), info("a", "r s")],
            {"a": 1},
            "r s",
            "r has 4 partitions, s has 5 partitions",
        ),
        ([info("a", stores="c")], {"a": 4, "c": 3}, "", "c exists with 3 partitions, the topology needs 4"),
    ],
)
def test_topics_that_do_not_fit_are_named(
    infos: list[TopicsInfo], existing: dict[str, int], group: str, text: str
) -> None:
    """Each error names the topics and their numbers of partitions."""
    with pytest.raises(InternalTopicError, match=text) as caught:
        counts(infos, existing, *([group] if group else []))
    assert isinstance(caught.value, MissingSourceTopicError) == text.endswith("exist")
