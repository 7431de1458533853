"""Tests of stream/worker/assignor.py."""

from __future__ import annotations

from typing import Any

from headrace.clients.group.assignors import MemberSubscription, Topic
from headrace.protocol.consumer_protocol import Assignment
from headrace.protocol.model import TopicPartition
from headrace.stream.records import TaskId
from headrace.stream.worker.assignor import GroupNews, TaskAssignor, tasks_of
from hypothesis import given
from hypothesis import strategies as st


def assignor(
    sources: dict[int, Any], process_id: str = "p", stored: tuple[TaskId, ...] = (), *, stateful: Any = ()
) -> TaskAssignor:
    return TaskAssignor(sources, frozenset(stateful), process_id, lambda: stored)


def member(owned: Any = (), user_data: bytes | None = None, generation: int = 1) -> MemberSubscription:
    return MemberSubscription(("t",), tuple(owned), generation, user_data=user_data)


def topics(**partitions: int) -> dict[str, Topic]:
    return {name: Topic(count) for name, count in partitions.items()}


def test_a_task_has_the_partitions_of_all_source_topics() -> None:
    """As many tasks as the widest source topic has partitions."""
    tasks = tasks_of({0: ["b", "a"], 1: ["r"]}, {"a": 2, "b": 1, "r": 1})
    assert tasks == {
        TaskId(0, 0): [TopicPartition("a", 0), TopicPartition("b", 0)],
        TaskId(0, 1): [TopicPartition("a", 1)],
        TaskId(1, 0): [TopicPartition("r", 0)],
    }


def test_a_source_topic_that_does_not_exist_has_no_tasks() -> None:
    """The group waits for the topic."""
    assert tasks_of({0: ["absent"]}, {}) == {}


def test_a_process_with_the_state_on_disk_gets_the_task_back() -> None:
    """User data name the stored tasks of a process."""
    mine = TaskId(0, 1)
    cold, warm = assignor({0: ["t"]}, "cold"), assignor({0: ["t"]}, "warm", (mine,), stateful=[0])
    members = {
        "a": member(user_data=cold.user_data(["t"])),
        "b": member(user_data=warm.user_data(["t"])),
    }
    assert warm.assign(topics(t=2), members)["b"] == [TopicPartition("t", 1)]


def test_unreadable_user_data_counts_as_no_state() -> None:
    """The assignment goes on."""
    members = {"a": member(user_data=b"\xc1"), "b": member(user_data=None)}
    assigned = assignor({0: ["t"]}, stateful=[0]).assign(topics(t=2), members)
    assert sorted(len(partitions) for partitions in assigned.values()) == [1, 1]


def test_the_newest_generation_owns_a_partition_that_two_members_claim() -> None:
    """A member that missed a rebalance claims what it had before."""
    claimed = [TopicPartition("t", 0)]
    members = {"a": member(claimed, generation=4), "b": member(claimed, generation=5), "c": member()}
    assert assignor({0: ["t"]}).assign(topics(t=1), members)["b"] == claimed


shapes = st.dictionaries(st.integers(0, 3), st.integers(1, 7), min_size=1, max_size=4)


@given(shapes, st.integers(1, 5), st.integers(1, 5), st.sets(st.integers(0, 3)))
def test_tasks_are_balanced_and_move_no_more_than_the_balance_asks(
    shape: dict[int, int], before: int, after: int, stateful: set[int]
) -> None:
    """Equal shares up to one; the same members get the same tasks again."""
    subject = assignor({number: [f"t{number}"] for number in shape}, stateful=stateful)
    names = topics(**{f"t{number}": count for number, count in shape.items()})
    first = subject.assign(names, {f"m{i}": member() for i in range(before)})
    second = subject.assign(names, {f"m{i}": member(first.get(f"m{i}", ())) for i in range(after)})
    for assigned in (first, second):
        everything = sorted(partition for partitions in assigned.values() for partition in partitions)
        assert everything == sorted(
            TopicPartition(f"t{number}", index) for number, count in shape.items() for index in range(count)
        )
        sizes = [len(partitions) for partitions in assigned.values()]
        assert max(sizes) - min(sizes) <= 1
    if before == after:
        assert first == second


def test_a_request_to_shut_down_reaches_all_members() -> None:
    """SHUTDOWN_APPLICATION: the assignment of the next rebalance carries it; the one after that does not."""
    ended: list[tuple[str, GroupNews]] = []
    asking, leader = (
        TaskAssignor({0: ["t"]}, frozenset(), name, tuple, lambda news, name=name: ended.append((name, news)))
        for name in ("asking", "leader")
    )
    for requests in (False, True, False):
        asking.requests_shutdown = requests
        members = {"a": member(user_data=asking.user_data(["t"])), "b": member(user_data=None)}
        leader.assign(topics(t=2), members)
        for each in (asking, leader):
            each.on_assigned(Assignment(3, (), leader.assignment_data()), 1)
        assert ended == [(name, GroupNews(requests, [], ["t"])) for name in ("asking", "leader")]
        ended.clear()


def test_all_members_hear_of_a_source_topic_that_was_deleted() -> None:
    """One that has not existed yet is not deleted: the group waits for it. Members know what they owned."""
    heard: list[GroupNews] = []
    for owned in ((), (TopicPartition("b", 0),)):
        leader = TaskAssignor({0: ["a", "b", "c"]}, frozenset(), "p", tuple, heard.append)
        members = {"m": member(owned, leader.user_data(["a"]))}
        for existing in (topics(a=1), topics(c=1)):
            leader.assign(existing, members)
            leader.on_assigned(Assignment(3, (), leader.assignment_data()), 1)
    assert [news.deleted for news in heard] == [[], ["a"], ["b"], ["a", "b"]]
    leader.on_assigned(Assignment(3, (), b"\xc1"), 1)
    assert len(heard) == 4


def test_a_topic_that_only_a_pattern_names_may_disappear() -> None:
    """Members hear which topics there are, and no error."""
    heard: list[GroupNews] = []
    leader = TaskAssignor({0: ["a", "b"]}, frozenset(), "p", tuple, heard.append, frozenset(["b"]))
    for existing in (topics(a=1, b=1), topics(a=1)):
        leader.assign(existing, {"m": member()})
        leader.on_assigned(Assignment(3, (), leader.assignment_data()), 1)
    assert heard == [GroupNews(False, [], ["a", "b"]), GroupNews(False, [], ["a"])]


def test_a_task_stays_with_its_owner_when_a_topic_begins_to_match() -> None:
    """Its new partition has no owner yet."""
    subject = assignor({0: ["a", "b"]})
    owned = {"m1": [TopicPartition("a", 1)], "m2": [TopicPartition("a", 0)]}
    members = {name: member(partitions) for name, partitions in owned.items()}
    assert subject.assign(topics(a=2, b=2), members) == {
        "m1": [TopicPartition("a", 1), TopicPartition("b", 1)],
        "m2": [TopicPartition("a", 0), TopicPartition("b", 0)],
    }
