"""Regular expressions for the source topics of streams groups."""

from dataclasses import dataclass
from typing import Any

import pytest
from headrace.coordinators.streams.source_patterns import resolved, subtopology_of
from headrace.protocol import errors
from headrace.protocol.messages.streams_groups import StatusCode, StreamsGroupHeartbeatRequest
from headrace.protocol.records.streams_group_records import CopartitionGroup, Subtopology
from headrace.protocol.security.acls import AclOperation, Resource, ResourceType
from headrace.protocol.security.identity import Identity

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


class Rules:
    """An Authorizer: a user may describe topics that begin with the user's name, and what is `shared`."""

    def __init__(self) -> None:
        self.is_ready = True
        self.shared: set[str] = set()

    def allows(self, identity: Identity, operation: AclOperation, resource: Resource) -> bool:
        if operation is AclOperation.CREATE:
            return True
        assert (operation, resource.type) == (AclOperation.DESCRIBE, ResourceType.TOPIC)
        return resource.name in self.shared or resource.name.startswith(identity.principal.name)

    def allows_some(self, identity: Identity, operation: AclOperation, resource_type: ResourceType) -> bool:
        raise AssertionError


READING = Subtopology("0", source_topic_regex=(".*-.*",))


@dataclass(eq=False)
class UsersMember(StreamsMember):
    """The thread of the user with the name of the member."""

    def request(self, *, is_full: bool = False, **changes: Any) -> StreamsGroupHeartbeatRequest:
        return super().request(is_full=is_full, client=(f"User:{self.member_id}", "10.0.0.1"), **changes)


def _sources(rig: StreamsGroupRig) -> tuple[str, ...]:
    (found,) = rig.described().topology.subtopologies
    return tuple(found.source_topics)


def _two_users() -> tuple[StreamsGroupRig, Rules, UsersMember, UsersMember]:
    rig = StreamsGroupRig()
    rules = rig.authorizer = Rules()
    rig.set_topics(**{"alice-in": 4, "bob-in": 3, "all-in": 2})
    rules.shared = {"all-in"}
    alice, bob = (UsersMember(rig, name, topology=topology(READING)) for name in ("alice", "bob"))
    return rig, rules, alice, bob


def test_an_expression_matches_what_its_members_may_describe() -> None:
    """A hidden topic has no tasks, and does not add partitions to the tasks of other topics. Any member may
    get any task: with a second member only what both may describe is left, until it leaves."""
    rig, _, alice, bob = _two_users()
    run_app(alice)
    assert (_sources(rig), alice.tasks()) == (("alice-in", "all-in"), tasks_of("0", range(4)))
    run_app(bob, alice)
    assert _sources(rig) == ("all-in",)
    assert alice.tasks() | bob.tasks() == tasks_of("0", range(2))
    epoch = rig.app.epoch
    run_app(alice, bob)
    assert rig.app.epoch == epoch, "heartbeats of different users do not change the group in turns"
    bob.leave()
    run_app(alice)
    assert (_sources(rig), alice.tasks()) == (("alice-in", "all-in"), tasks_of("0", range(4)))


def test_changed_rules_change_the_matching_topics() -> None:
    """With the next version of the metadata, which has the rule."""
    rig, rules, alice, _ = _two_users()
    run_app(alice)
    rules.shared = {"all-in", "bob-in"}
    rig.set_topics(**rig.topic_counts())
    run_app(alice)
    assert _sources(rig) == ("alice-in", "all-in", "bob-in")
    rules.shared = set()
    rig.set_topics(**rig.topic_counts())
    run_app(alice)
    assert _sources(rig) == ("alice-in",)


def test_no_expression_is_resolved_without_the_present_rules() -> None:
    """A first heartbeat is refused with a retriable error; known matches stay until the rules are known."""
    rig, rules, alice, bob = _two_users()
    run_app(alice)
    rules.is_ready = False
    size = len(rig.log)
    with pytest.raises(errors.CoordinatorNotAvailableError):
        bob.beat()
    rig.set_topics(**rig.topic_counts(), **{"alice-too": 5})
    alice.beat()
    assert (len(rig.log), _sources(rig)) == (size, ("alice-in", "all-in"))
    rules.is_ready = True
    run_app(alice)
    assert alice.tasks() == tasks_of("0", range(5))


def test_clients_of_members_that_left_are_forgotten() -> None:
    """Also of static members that were replaced, and of deleted groups."""
    rig, _, alice, _ = _two_users()
    run_app(alice)
    for number in range(3):
        bob = UsersMember(rig, f"bob{number}", topology=topology(READING))
        bob.beat(instance_id="b")
        bob.beat(instance_id="b")
        bob.leave(instance_id="b") if number == 2 else rig.send(
            StreamsGroupHeartbeatRequest(APP, bob.member_id, -2, instance_id="b")
        )
    run_app(alice)
    assert _sources(rig) == ("alice-in", "all-in")
