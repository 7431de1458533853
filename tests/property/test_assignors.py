"""Laws of all assignors: each partition is assigned once, to a subscriber, and assignments are balanced.
Sticky assignors also move no partition without need."""

from collections.abc import Iterator
from typing import Any

import pytest
from headrace.clients.group.assignors import MemberSubscription, RangeAssignor, RoundRobinAssignor, Topic
from headrace.clients.group.joining_io import checked_assignors
from headrace.clients.group.sticky import CooperativeStickyAssignor, StickyAssignor
from headrace.protocol.consumer_protocol import Assignment, encode_claims
from headrace.protocol.errors import ConfigError
from headrace.protocol.model import TopicPartition
from hypothesis import given, note
from hypothesis import strategies as st

ASSIGNORS = [RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor]
STICKY = [StickyAssignor, CooperativeStickyAssignor]
NAMES = ["t", "u", "v"]
RACKS = ["r1", "r2", "r3"]


@st.composite
def groups(draw: Any, *, same: bool = False, racks: bool = False) -> Any:
    """(topics, members); with `same` all members read all topics."""
    topics = {}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True)):
        count = draw(st.integers(1, 9))
        places = [frozenset(draw(st.sets(st.sampled_from(RACKS), max_size=2))) for _ in range(count * racks)]
        topics[name] = Topic(count, tuple(places))
    members = {}
    for number in range(draw(st.integers(1, 6))):
        wanted = NAMES if same else draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
        rack = draw(st.sampled_from([*RACKS, None])) if racks else None
        instance = draw(st.sampled_from([None, f"i{9 - number}"]))
        members[f"m{number}"] = MemberSubscription(tuple(wanted), (), -1, instance, rack)
    return topics, members


def noted(kinds: list[Any]) -> Iterator[Any]:
    """The kinds, one after the other for the same group, which takes longer to draw than to assign; a failure
    tells which."""
    for kind in kinds:
        note(kind.__name__)
        yield kind


def check(topics: Any, members: Any, shares: Any) -> None:
    """Each subscribed partition is assigned once, to a subscriber."""
    given_to = [(tp, member) for member, share in shares.items() for tp in share]
    assert all(tp.topic in members[member].topics for tp, member in given_to)
    wanted = {name for member in members.values() for name in member.topics} & topics.keys()
    everything = [
        TopicPartition(name, each) for name in sorted(wanted) for each in range(topics[name].partitions)
    ]
    assert sorted(tp for tp, _ in given_to) == everything


def remembering(kind: Any, members: Any, shares: Any, generation: int = 5) -> Any:
    """The members with their assignments, as in the next rebalance."""
    found = {}
    for name, member in members.items():
        had = tuple(shares.get(name, ()))
        if kind is StickyAssignor:
            found[name] = member._replace(user_data=encode_claims(had, generation) if had else None)
        else:
            found[name] = member._replace(owned=had, generation_id=generation)
    return found


@given(group=groups(racks=True))
def test_each_partition_is_assigned_to_one_subscriber(group: Any) -> None:
    """For any subscriptions and racks."""
    topics, members = group
    for kind in noted(ASSIGNORS):
        check(topics, members, kind().assign(topics, members))


@given(group=groups(racks=True))
def test_range_divides_each_topic_evenly(group: Any) -> None:
    """Counts of a topic differ by one at most among its subscribers; racks do not change that."""
    topics, members = group
    shares = RangeAssignor().assign(topics, members)
    for name in topics:
        readers = [member for member, each in members.items() if name in each.topics]
        sizes = [sum(tp.topic == name for tp in shares[member]) for member in readers]
        assert not sizes or max(sizes) - min(sizes) <= 1


@given(group=groups(same=True))
def test_range_assigns_equal_runs_of_equal_topics(group: Any) -> None:
    """In the order of the members; equal topics are co-partitioned."""
    topics, members = group
    for share in RangeAssignor().assign(topics, members).values():
        by_topic: dict[str, list[int]] = {}
        for tp in share:
            by_topic.setdefault(tp.topic, []).append(tp.partition)
        for partitions in by_topic.values():
            assert partitions == list(range(partitions[0], partitions[0] + len(partitions)))
        for one, some in by_topic.items():
            for other, more in by_topic.items():
                assert some == more or topics[one].partitions != topics[other].partitions


def test_range_prefers_racks_where_shares_stay_equal() -> None:
    """KIP-881: each member gets the partitions that lie in its rack."""
    topics = {"t": Topic(4, tuple(frozenset({rack}) for rack in ("r2", "r1", "r2", "r1")))}
    members = {name: MemberSubscription(("t",), rack_id=rack) for name, rack in (("a", "r1"), ("b", "r2"))}
    shares = RangeAssignor().assign(topics, members)
    assert [tp.partition for tp in shares["a"]] == [1, 3]
    assert [tp.partition for tp in shares["b"]] == [0, 2]


@given(group=groups(same=True))
def test_equal_subscriptions_give_equal_shares(group: Any) -> None:
    """Counted over all topics together."""
    for kind in noted([RoundRobinAssignor, *STICKY]):
        sizes = [len(share) for share in kind().assign(*group).values()]
        assert max(sizes) - min(sizes) <= 1


@given(group=groups())
def test_sticky_is_as_even_as_subscriptions_allow(group: Any) -> None:
    """No partition could move from a member to one that has two fewer."""
    topics, members = group
    for kind in noted(STICKY):
        shares = kind().assign(topics, members)
        for share in shares.values():
            for tp in share:
                able = [member for member, each in members.items() if tp.topic in each.topics]
                assert len(share) - min(len(shares[member]) for member in able) <= 1


@given(group=groups())
def test_nothing_moves_when_nothing_changes(group: Any) -> None:
    """The next rebalance gives the same."""
    topics, members = group
    for kind in noted(STICKY):
        before = kind().assign(topics, members)
        assert kind().assign(topics, remembering(kind, members, before)) == before


@given(group=groups(same=True), gone=st.integers(0, 5))
def test_remaining_members_keep_their_partitions(group: Any, gone: int) -> None:
    """One member leaves: only its partitions move."""
    topics, members = group
    for kind in noted(STICKY):
        before = kind().assign(topics, members)
        left = {name: member for name, member in members.items() if name != f"m{gone}"}
        if not left:
            return
        after = kind().assign(topics, remembering(kind, left, before))
        check(topics, left, after)
        for name in left:
            assert set(before[name]) <= set(after[name])


@given(group=groups(same=True))
def test_a_new_member_takes_only_its_share(group: Any) -> None:
    """No partition moves between old members, and the new one gets no more than its share."""
    topics, members = group
    for kind in noted(STICKY):
        before = kind().assign(topics, members)
        grown = {**remembering(kind, members, before), "new": MemberSubscription(tuple(NAMES))}
        after = kind().assign(topics, grown)
        check(topics, grown, after)
        for name in members:
            assert set(after[name]) <= set(before[name])
        total = sum(topic.partitions for topic in topics.values())
        assert len(after["new"]) in (total // len(grown), -(-total // len(grown)))


def test_newer_of_two_claims_is_used_and_equal_claims_are_ignored() -> None:
    """A member that missed a generation claims partitions of another member."""
    topics = {"t": Topic(2)}
    tps = (TopicPartition("t", 0), TopicPartition("t", 1))
    members = {
        "late": MemberSubscription(("t",), (tps[0],), 3),
        "current": MemberSubscription(("t",), (tps[0],), 4),
    }
    assert CooperativeStickyAssignor().assign(topics, members) == {"current": [tps[0]], "late": [tps[1]]}


def test_eager_sticky_member_keeps_its_assignment_in_the_subscription() -> None:
    """Invalid user data of other members is no claim."""
    assignor = StickyAssignor()
    assert assignor.user_data(("t",)) is None
    assignor.on_assigned(Assignment(3, (TopicPartition("t", 1),)), 7)
    response = assignor.user_data(("t",))
    assert response == encode_claims([TopicPartition("t", 1)], 7)
    members = {
        "a": MemberSubscription(("t",), user_data=b"\xff"),
        "b": MemberSubscription(("t",), user_data=encode_claims([TopicPartition("t", 0)], 7)),
        "c": MemberSubscription(("t",), user_data=response),
    }
    shares = assignor.assign({"t": Topic(2)}, members)
    assert shares == {"a": [], "b": [TopicPartition("t", 0)], "c": [TopicPartition("t", 1)]}


def test_assignors_are_checked() -> None:
    """Unknown names, an empty list, a repeated name, and objects that are no assignors."""
    for bad in (["nope"], [], ["range", "range"], [5]):
        with pytest.raises(ConfigError):
            checked_assignors(bad)  # type: ignore[arg-type]
    assert [each.name for each in checked_assignors(["range", StickyAssignor()])] == ["range", "sticky"]
