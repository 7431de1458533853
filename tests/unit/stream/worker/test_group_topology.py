"""The topology that members of a streams group send."""

from __future__ import annotations

import re
from typing import Any

import pytest
from headrace.clients.serdes import utf8
from headrace.coordinators.streams.source_patterns import check_expressions
from headrace.coordinators.streams.topology import check_topology
from headrace.protocol.records.streams_group_records import CopartitionGroup, StreamsGroupTopologyValue
from headrace.stream import App
from headrace.stream.topology.errors import TopologyError
from headrace.stream.worker.group_topology import group_topology


def app(**options: Any) -> App:
    return App("app", key=utf8, value=utf8, **options)


def sent(application: App, *, matched: tuple[str, ...] = (), **defaults: str) -> StreamsGroupTopologyValue:
    """What the coordinator accepts."""
    built = application.build("app", matched=matched)
    found = group_topology(
        built, application.config, {key.replace("_", "."): v for key, v in defaults.items()}
    )
    check_topology(found)
    check_expressions(found)
    return found


def test_repartitioned_count() -> None:
    """The first subtopology writes the repartition topic, the second reads it and has the changelog."""
    counting = app(replication_factor=3)
    counting.stream("words").group_by(lambda key, value: value).count(store="store")
    found = sent(counting, segment_bytes="7")
    first, second = found.subtopologies
    assert (found.epoch, first.subtopology_id, first.source_topics) == (0, "0", ("words",))
    assert first.repartition_sink_topics == ("app-store-repartition",)
    assert (second.source_topics, second.repartition_sink_topics) == ((), ())
    (repartition,), (changelog,) = second.repartition_source_topics, second.state_changelog_topics
    assert (repartition.name, repartition.partitions) == ("app-store-repartition", 0)
    assert (changelog.name, changelog.replication_factor) == ("app-store-changelog", 3)
    assert dict(changelog.topic_configs)["cleanup.policy"] == "compact"
    assert dict(repartition.topic_configs)["segment.bytes"] == "7"


def test_joined_topics_are_copartitioned() -> None:
    """By index in each kind; a repartition topic with a fixed number of partitions has it."""
    joining = app()
    users = joining.table("users")
    keyed = joining.stream("events").repartition(partitions=4, name="keyed")
    keyed.join(users, lambda left, right: left + right).to("out")
    found = sent(joining)
    (reader,) = [each for each in found.subtopologies if "users" in each.source_topics]
    assert reader.source_topics == ("users",)
    assert [topic.partitions for topic in reader.repartition_source_topics] == [4]
    assert reader.copartition_groups == (CopartitionGroup((0,), (), (0,)),)
    (writer,) = [each for each in found.subtopologies if "events" in each.source_topics]
    assert writer.copartition_groups == ()


def test_source_that_is_a_changelog_is_both() -> None:
    """topology.optimization."""
    reading = app(optimization="all")
    reading.table("users", store="store")
    (found,) = sent(reading).subtopologies
    assert found.source_topics == ("users",)
    assert [topic.name for topic in found.state_changelog_topics] == ["users"]


def test_patterns_are_expressions() -> None:
    """Topics that match are not named, so that all members send the same topology at any time."""
    reading = app()
    reading.stream(re.compile("in-.*", re.IGNORECASE)).merge(reading.stream("named")).to("out")
    (found,) = sent(reading, matched=("in-a",)).subtopologies
    assert (found.source_topics, found.source_topic_regex) == (("named",), ("(?i)in-.*",))
    assert sent(reading) == sent(reading, matched=("in-a", "in-b"))


def test_copartitioned_pattern_is_an_index() -> None:
    joining = app()
    joining.stream(re.compile("in-.*")).join(joining.table("users"), lambda left, right: left + right).to(
        "out"
    )
    (found,) = sent(joining, matched=("in-a",)).subtopologies
    assert found.copartition_groups == (CopartitionGroup((0,), (0,), ()),)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (re.compile("in-(?!x).*"), "RE2"),
        (re.compile("in-.* # all", re.VERBOSE), "flags besides re.IGNORECASE"),
    ],
)
def test_pattern_that_the_coordinator_cannot_match_is_refused(pattern: Any, said: str) -> None:
    """At the start, with the line of the program."""
    reading = app()
    reading.stream(pattern).to("out")
    with pytest.raises(TopologyError, match=said) as error:
        sent(reading)
    assert "test_group_topology.py" in str(error.value)
