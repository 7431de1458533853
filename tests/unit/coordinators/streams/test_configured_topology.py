"""Numbers of partitions of internal topics, and what keeps a topology from being assigned."""

from collections.abc import Mapping

import pytest
from headrace.coordinators.streams.configured_topology import ConfiguredTopology, SubtopologyTasks, configure
from headrace.protocol.errors import StreamsInvalidTopologyError
from headrace.protocol.messages.streams_groups import StatusCode
from headrace.protocol.records.streams_group_records import CopartitionGroup, Subtopology

from tests.fakes.streams_group_rig import COUNTING, JOINING, KEYING, topic, topology


def configured(*subtopologies: Subtopology, **counts: int) -> ConfiguredTopology:
    """The topology in a cluster with these topics; underscores for hyphens."""
    known = {name.replace("_", "-"): count for name, count in counts.items()}
    return configure(topology(*subtopologies), known.get)


def missing(found: ConfiguredTopology) -> Mapping[str, int]:
    return {each.name: each.partitions for each in found.missing}


def test_changelogs_have_a_partition_per_task() -> None:
    """That of the largest source."""
    two_sources = COUNTING._replace(source_topics=("events", "users"))
    found = configured(two_sources, events=4, users=7)
    assert found.tasks == {"0": SubtopologyTasks(7, is_stateful=True)}
    assert missing(found) == {"app-counts-changelog": 7}


def test_existing_topics_are_not_missing() -> None:
    found = configured(COUNTING, events=4, app_counts_changelog=4)
    assert (found.is_ready, found.missing) == (True, ())


def test_source_topic_as_changelog_is_not_created() -> None:
    """The optimization of table sources."""
    table = COUNTING._replace(state_changelog_topics=(topic("events"),))
    found = configured(table, events=4)
    assert found.is_ready
    assert found.tasks == {"0": SubtopologyTasks(4, is_stateful=True)}


def test_repartition_topics_have_the_partitions_of_their_writers() -> None:
    """Of the largest one, through several subtopologies, in any order."""
    first = KEYING._replace(source_topics=("events", "users"))
    second = Subtopology(
        "1", repartition_source_topics=(topic("app-keyed-repartition"),), repartition_sink_topics=("app-b",)
    )
    third = Subtopology("2", repartition_source_topics=(topic("app-b"),))
    for order in ((first, second, third), (third, second, first)):
        found = configured(*order, events=4, users=6)
        assert missing(found) == {"app-keyed-repartition": 6, "app-b": 6}
        assert found.tasks is not None
        assert {name: each.task_count for name, each in found.tasks.items()} == {"0": 6, "1": 6, "2": 6}


def test_fixed_number_of_partitions() -> None:
    fixed = Subtopology("1", repartition_source_topics=(topic("app-keyed-repartition", 3),))
    assert missing(configured(KEYING, fixed, events=8)) == {"app-keyed-repartition": 3}


def test_loop_of_repartition_topics() -> None:
    """Sources from outside of the loop count; without any, there is no number."""
    loop = Subtopology(
        "1",
        ("users",),
        repartition_source_topics=(topic("app-loop"),),
        repartition_sink_topics=("app-loop",),
    )
    assert missing(configured(loop, users=5)) == {"app-loop": 5}
    with pytest.raises(StreamsInvalidTopologyError, match="app-loop"):
        configured(loop._replace(source_topics=()))
    with pytest.raises(StreamsInvalidTopologyError, match="no subtopology writes"):
        configured(Subtopology("1", repartition_source_topics=(topic("app-loop"),)))


def test_copartitioned_topics_follow_external_ones() -> None:
    assert missing(configured(KEYING, JOINING, events=2, users=5)) == {
        "app-keyed-repartition": 5,
        "app-joined-changelog": 5,
    }


def test_copartitioned_repartition_topics_are_equal() -> None:
    """The fixed number, else the largest."""
    both = (CopartitionGroup((), (), (0, 1)),)

    def joined(*topics: str, **fixed: int) -> Subtopology:
        infos = tuple(topic(name, fixed.get(name.replace("-", "_"), 0)) for name in topics)
        return Subtopology("2", repartition_source_topics=infos, copartition_groups=both)

    writers = (
        Subtopology("0", ("events",), repartition_sink_topics=("app-a",)),
        Subtopology("1", ("users",), repartition_sink_topics=("app-b",)),
    )
    assert missing(configured(*writers, joined("app-a", "app-b"), events=2, users=5)) == {
        "app-a": 5,
        "app-b": 5,
    }
    found = configured(*writers, joined("app-a", "app-b", app_a=3), events=2, users=5)
    assert missing(found) == {"app-a": 3, "app-b": 3}
    found = configured(*writers, joined("app-a", "app-b", app_a=3, app_b=4), events=2, users=5)
    assert found.problem is not None
    assert found.problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert "[{app-a=3, app-b=4}]" in found.problem.detail


@pytest.mark.parametrize(
    ("subtopologies", "counts", "said"),
    [
        (
            (
                COUNTING._replace(
                    source_topics=("events", "users"), copartition_groups=(CopartitionGroup((0, 1)),)
                ),
            ),
            {"events": 2, "users": 3},
            "do not have the same number of partitions: [{events=2, users=3}]",
        ),
        (
            (KEYING, JOINING._replace(repartition_source_topics=(topic("app-keyed-repartition", 3),))),
            {"events": 2, "users": 4},
            "Number of partitions [3] of repartition topic [app-keyed-repartition] doesn't match number of"
            " partitions [4]",
        ),
        ((COUNTING,), {"events": 2, "app_counts_changelog": 1}, "expected 2, found 1"),
    ],
)
def test_incorrectly_partitioned_topics(
    subtopologies: tuple[Subtopology, ...], counts: dict[str, int], said: str
) -> None:
    found = configured(*subtopologies, **counts)
    assert found.problem is not None
    assert found.problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert said in found.problem.detail
    assert (found.tasks, found.missing) == (None, ())


def test_missing_sources_are_named() -> None:
    """Ten of them; repartition topics are no external sources."""
    many = Subtopology("0", tuple(f"in-{number:02}" for number in range(12)))
    found = configured(many)
    assert found.problem is not None
    assert found.problem.code is StatusCode.MISSING_SOURCE_TOPICS
    assert "in-09 and 2 more are missing." in found.problem.detail
