"""Regular expressions for the source topics of streams groups."""

import pytest
from headrace.coordinators.streams.source_patterns import resolved, subtopology_of
from headrace.protocol import errors
from headrace.protocol.messages.streams_groups import StatusCode
from headrace.protocol.records.streams_group_records import CopartitionGroup, Subtopology

from tests.fakes.streams_group_rig import (
    APP,
    COUNTING,
    StreamsGroupRig,
    StreamsMember,
    run_app,
    tasks_of,
    topic,
    topology,
)

MATCHING = COUNTING._replace(source_topics=(), source_topic_regex=("in-.*",))
NAMES = ("in-b", "in-a", "app-in-changelog", "__consumer_offsets", "other", "events")


def test_matching_topics_are_sources() -> None:
    """Whole names, in sorted order, behind the named ones; not the topics of Kafka and of the application."""
    found = resolved(topology(MATCHING._replace(source_topics=("events",))), APP, NAMES)
    assert found.subtopologies[0].source_topics == ("events", "in-a", "in-b")
    assert found.subtopologies[0].source_topic_regex == ()
    everything = resolved(topology(MATCHING._replace(source_topic_regex=(".*",))), APP, NAMES)
    assert everything.subtopologies[0].source_topics == ("events", "in-a", "in-b", "other")
    plain = topology(COUNTING)
    assert resolved(plain, APP, NAMES) is plain


def test_topic_belongs_to_one_subtopology() -> None:
    """To the one that names it, else to the first that matches it."""
    first, second = MATCHING, Subtopology("1", ("in-b",), (".*",))
    both = topology(first, second)
    found = resolved(both, APP, NAMES)
    assert [each.source_topics for each in found.subtopologies] == [("in-a",), ("in-b", "events", "other")]
    for name, subtopology in (("in-a", "0"), ("in-b", "1"), ("other", "1"), ("app-x-changelog", None)):
        assert subtopology_of(both, APP, name) == subtopology


def test_copartition_groups_have_the_matching_topics() -> None:
    group = CopartitionGroup((0,), (0,), ())
    joined = MATCHING._replace(source_topics=("events", "x"), copartition_groups=(group,))
    (found,) = resolved(topology(joined), APP, NAMES).subtopologies
    assert found.source_topics == ("events", "x", "in-a", "in-b")
    assert found.copartition_groups == (CopartitionGroup((0, 2, 3), (), ()),)


def test_invalid_expression_is_refused() -> None:
    rig = StreamsGroupRig()
    with pytest.raises(errors.InvalidRegularExpressionError):
        StreamsMember(rig, "a", topology=topology(MATCHING._replace(source_topic_regex=("(x",)))).beat()
    assert APP not in rig.shard.groups


def test_created_and_deleted_topics_change_the_tasks() -> None:
    """Without topics the group is ready, without tasks. The first topic brings the changelog and tasks.
    Another changes the group epoch only. A wider one does not fit the changelog. Without any topic no task is
    left."""
    rig = StreamsGroupRig()
    rig.set_topics(other=3)
    member = StreamsMember(rig, "a", topology=topology(MATCHING))
    run_app(member)
    assert (member.tasks(), member.statuses, rig.sent) == (set(), (), [])
    rig.set_topics(**{"other": 3, "in-a": 2})
    member.beat()
    assert member.statuses == (StatusCode.MISSING_INTERNAL_TOPICS,)
    assert rig.create_topics() == {"app-counts-changelog": 2}
    run_app(member)
    assert member.tasks() == tasks_of("0", range(2))
    epoch = member.epoch
    assert rig.described().topology.subtopologies[0].source_topics == ("in-a",)
    counts = {name: count for name, count in rig.topic_counts().items() if name != "in-a"}
    rig.set_topics(**counts, **{"in-a": 2, "in-b": 1})
    run_app(member)
    assert member.epoch > epoch
    assert member.tasks() == tasks_of("0", range(2))
    assert rig.app.is_subscribed_to("in-b")
    rig.set_topics(**counts, **{"in-a": 3})
    member.beat()
    assert member.statuses == (StatusCode.INCORRECTLY_PARTITIONED_TOPICS,)
    rig.set_topics(**counts)
    run_app(member)
    assert (member.tasks(), member.statuses) == (set(), ())


def test_expression_of_a_changelog_name_does_not_match() -> None:
    """The application would read its own changelog."""
    rig = StreamsGroupRig()
    rig.set_topics(**{"events": 1, "app-counts-changelog": 1})
    counting = MATCHING._replace(
        source_topic_regex=(".*",), state_changelog_topics=(topic("app-counts-changelog"),)
    )
    member = StreamsMember(rig, "a", topology=topology(counting))
    run_app(member)
    assert rig.described().topology.subtopologies[0].source_topics == ("events",)
