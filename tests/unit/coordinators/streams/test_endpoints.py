"""Endpoint information of streams groups: which instance has which source partitions."""

from __future__ import annotations

import pytest
from headrace.protocol.messages.streams_groups import EndpointToPartitions, TopicPartitions
from headrace.protocol.records.streams_group_records import Endpoint, TaskIds

from tests.fakes.consumer_group_rig import with_config
from tests.fakes.streams_group_rig import (
    COUNTING,
    JOINING,
    KEYING,
    StreamsGroupRig,
    StreamsMember,
    run_app,
    topology,
)

HERE, THERE = Endpoint("here", 8080), Endpoint("there", 8081)


@pytest.fixture
def rig() -> StreamsGroupRig:
    rig = StreamsGroupRig()
    rig.set_topics(events=4, **{"app-counts-changelog": 4})
    return rig


def numbers(member: StreamsMember) -> tuple[int, ...]:
    return tuple(sorted(partition for _, partition in member.tasks()))


def test_members_hear_of_each_other(rig: StreamsGroupRig) -> None:
    """In the order of member ids, also members without an endpoint; once for each epoch."""
    first, second = StreamsMember(rig, "a", endpoint=HERE), StreamsMember(rig, "b", endpoint=THERE)
    third = StreamsMember(rig, "c")
    run_app(first, second, third)
    expected = tuple(
        EndpointToPartitions(endpoint, (TopicPartitions("events", numbers(member)),), ())
        for endpoint, member in ((HERE, first), (THERE, second))
    )
    for member in (first, second, third):
        assert member.beat().partitions_by_user_endpoint is None, "it has this epoch"
        answer = member.beat(endpoint_information_epoch=-1)
        assert answer.partitions_by_user_endpoint == expected
        assert answer.endpoint_information_epoch == member.endpoint_epoch


def test_information_follows_tasks(rig: StreamsGroupRig) -> None:
    """A new epoch when tasks of a member with an endpoint change, or when it leaves; no other member."""
    first, second = StreamsMember(rig, "a", endpoint=HERE), StreamsMember(rig, "b")
    run_app(first)
    (before,) = first.beat(endpoint_information_epoch=-1).partitions_by_user_endpoint
    assert before.active_partitions == (TopicPartitions("events", (0, 1, 2, 3)),)
    epoch = first.endpoint_epoch
    run_app(first, second)
    assert first.endpoint_epoch != epoch
    (after,) = second.beat(endpoint_information_epoch=-1).partitions_by_user_endpoint
    assert after.active_partitions == (TopicPartitions("events", numbers(first)),)
    epoch = second.endpoint_epoch
    first.leave()
    answer = second.beat()
    assert (answer.partitions_by_user_endpoint, answer.endpoint_information_epoch != epoch) == ((), True)
    epoch = second.endpoint_epoch
    run_app(second)
    assert second.endpoint_epoch == epoch, "it has no endpoint"


def test_standby_partitions_are_apart(rig: StreamsGroupRig) -> None:
    with_config(rig, group_streams_num_standby_replicas=1)
    first, second = StreamsMember(rig, "a", endpoint=HERE), StreamsMember(rig, "b")
    run_app(first, second)
    (found,) = second.beat(endpoint_information_epoch=-1).partitions_by_user_endpoint
    others = tuple(number for number in range(4) if number not in numbers(first))
    assert found.active_partitions == (TopicPartitions("events", numbers(first)),)
    assert found.standby_partitions == (TopicPartitions("events", others),)


def test_all_source_topics_of_a_task(rig: StreamsGroupRig) -> None:
    """Repartition topics too, and only partitions that exist; regular expressions are resolved."""
    rig.set_topics(events=4, users=4)
    member = StreamsMember(rig, "a", endpoint=HERE, topology=topology(KEYING, JOINING))
    member.beat()
    rig.create_topics()
    run_app(member)
    (found,) = member.beat(endpoint_information_epoch=-1).partitions_by_user_endpoint
    assert [each.topic for each in found.active_partitions] == ["app-keyed-repartition", "events", "users"]

    wide = StreamsGroupRig()
    wide.set_topics(**{"in-a": 2, "in-b": 1})
    pattern = COUNTING._replace(source_topics=(), source_topic_regex=("in-.*",))
    member = StreamsMember(wide, "a", endpoint=HERE, topology=topology(pattern))
    member.beat()
    wide.create_topics()
    run_app(member)
    (found,) = member.beat(endpoint_information_epoch=-1).partitions_by_user_endpoint
    assert found.active_partitions == (TopicPartitions("in-a", (0, 1)), TopicPartitions("in-b", (0,)))


def test_epoch_of_another_coordinator_is_another(rig: StreamsGroupRig) -> None:
    """A member that comes from another coordinator gets the information again."""
    member = StreamsMember(rig, "a", endpoint=HERE)
    run_app(member)
    answer = member.beat(endpoint_information_epoch=member.endpoint_epoch + 1)
    assert answer.partitions_by_user_endpoint
    assert answer.active is None or answer.active == (TaskIds("0", (0, 1, 2, 3)),)
