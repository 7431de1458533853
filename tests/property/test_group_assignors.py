"""Assignors of the new protocol: complete, without duplicates, balanced, and sticky."""

from collections import Counter

from headrace.coordinators.group.assignors import ASSIGNORS
from headrace.coordinators.group.assignors.model import MemberSpec, Partitions
from hypothesis import given
from hypothesis import strategies as st

TOPICS = [bytes([number]) * 16 for number in range(6)]
MEMBERS = [f"member-{number}" for number in range(7)]

_counts = st.lists(st.integers(1, 12), min_size=1, max_size=6).map(
    lambda each: dict(zip(TOPICS, each, strict=False))
)


@st.composite
def _groups(draw: st.DrawFn, *, are_alike: bool) -> tuple[dict[str, MemberSpec], dict[bytes, int]]:
    """Members with any previous targets: of deleted topics, unsubscribed topics, missing partitions, or of
    partitions with two claims."""
    topics = draw(_counts)
    ids = draw(st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True))
    some_topics = st.frozensets(st.sampled_from(sorted(topics)))
    shared = draw(some_topics)
    partitions = st.frozensets(st.integers(0, 13), min_size=1).map(lambda each: tuple(sorted(each)))
    targets = st.dictionaries(st.sampled_from(TOPICS), partitions, max_size=4)
    members = {}
    for member_id in ids:
        subscribed = shared if are_alike else draw(some_topics)
        instance_id = draw(st.none() | st.just(f"instance of {member_id}"))
        members[member_id] = MemberSpec(subscribed, draw(targets), instance_id)
    return members, topics


def _check(members: dict[str, MemberSpec], topics: dict[bytes, int], found: dict[str, Partitions]) -> None:
    """Each partition with a subscriber is assigned to one member that reads its topic; all is sorted."""
    assert found.keys() == members.keys()
    given = Counter((topic, each) for held in found.values() for topic in held for each in held[topic])
    read = frozenset().union(*(member.subscribed for member in members.values()))
    assert given == Counter((topic, each) for topic in read for each in range(topics[topic]))
    for member_id, held in found.items():
        assert held.keys() <= members[member_id].subscribed
        assert all(each and list(each) == sorted(each) for each in held.values())


def _loads(found: dict[str, Partitions]) -> dict[str, int]:
    return {member_id: sum(map(len, held.values())) for member_id, held in found.items()}


def _kept(member: MemberSpec, held: Partitions) -> int:
    return sum(len(set(each) & set(member.target.get(topic, ()))) for topic, each in held.items())


@given(_groups(are_alike=False) | _groups(are_alike=True))
def test_all_assignors_assign_each_partition_once(
    group: tuple[dict[str, MemberSpec], dict[bytes, int]],
) -> None:
    """Also twice in a row, and from any previous target."""
    members, topics = group
    for assign in ASSIGNORS.values():
        found = assign(members, topics)
        _check(members, topics, found)
        again = {each: member._replace(target=found[each]) for each, member in members.items()}
        assert assign(again, topics) == found, "a balanced assignment is stable"
        assert assign(dict(reversed(members.items())), topics) == found, (
            "the order of members does not matter"
        )


@given(_groups(are_alike=True))
def test_uniform_assignor_is_balanced_and_moves_the_minimum(
    group: tuple[dict[str, MemberSpec], dict[bytes, int]],
) -> None:
    """Counts differ by one at most. Each member keeps up to the rounded-down share, and as many of them
    one more as there is a remainder."""
    members, topics = group
    found = ASSIGNORS["uniform"](members, topics)
    loads = _loads(found)
    assert max(loads.values()) - min(loads.values()) <= 1
    had = _had(members, topics)
    whole, rest = divmod(sum(loads.values()), len(members))
    counts = [len(each) for each in had.values()]
    most = sum(min(each, whole) for each in counts) + min(rest, sum(each > whole for each in counts))
    has = {name: {(topic, each) for topic in held for each in held[topic]} for name, held in found.items()}
    assert sum(len(had[each] & has[each]) for each in members) == most


def _had(members: dict[str, MemberSpec], topics: dict[bytes, int]) -> dict[str, set[tuple[bytes, int]]]:
    """The valid part of previous targets: of subscribed topics; of two claims the first one counts."""
    had: dict[str, set[tuple[bytes, int]]] = {}
    for member_id, member in sorted(members.items()):
        claims = {(topic, each) for topic in member.target for each in member.target[topic]}
        mine = {
            (topic, each) for topic, each in claims if topic in member.subscribed and each < topics[topic]
        }
        had[member_id] = mine.difference(*had.values())
    return had


@given(_groups(are_alike=False))
def test_uniform_leaves_no_partition_that_could_better_be_elsewhere(
    group: tuple[dict[str, MemberSpec], dict[bytes, int]],
) -> None:
    """Kafka's meaning of balanced where members read different topics."""
    members, topics = group
    found = ASSIGNORS["uniform"](members, topics)
    loads = _loads(found)
    for owner, held in found.items():
        for topic in held:
            for other, member in members.items():
                assert topic not in member.subscribed or loads[other] + 1 >= loads[owner]


@given(_groups(are_alike=False), st.data())
def test_uniform_is_sticky_under_small_changes(
    group: tuple[dict[str, MemberSpec], dict[bytes, int]], data: st.DataObject
) -> None:
    """When a member of a stable group leaves, members with equal subscriptions keep their partitions; when
    one joins, no partition moves between the other members. In both cases members with equal subscriptions
    end with balanced assignments."""
    members, topics = group
    members = {each: member._replace(target={}) for each, member in members.items()}
    shared = members[min(members)].subscribed
    alike = {each: member._replace(subscribed=shared) for each, member in members.items()}
    assign = ASSIGNORS["uniform"]
    before = assign(alike, topics)
    settled = {each: member._replace(target=before[each]) for each, member in alike.items()}
    joined = assign(settled | {"new": MemberSpec(shared, {})}, topics)
    for member_id in settled:
        assert _kept(settled[member_id], joined[member_id]) == sum(map(len, joined[member_id].values()))
    if len(settled) > 1:
        gone = data.draw(st.sampled_from(sorted(settled)))
        left = {each: member for each, member in settled.items() if each != gone}
        after = assign(left, topics)
        for member_id, member in left.items():
            assert _kept(member, after[member_id]) == sum(map(len, before[member_id].values()))


@given(_groups(are_alike=False))
def test_range_assigns_contiguous_partitions(group: tuple[dict[str, MemberSpec], dict[bytes, int]]) -> None:
    """Contiguous ranges of every topic; topics with equal counts and subscribers are divided equally."""
    members, topics = group
    found = ASSIGNORS["range"](members, topics)
    for held in found.values():
        assert all(list(each) == list(range(each[0], each[-1] + 1)) for each in held.values())
    readers = {
        topic: frozenset(each for each in members if topic in members[each].subscribed) for topic in topics
    }
    for left in topics:
        for right in topics:
            if readers[left] == readers[right] and topics[left] == topics[right]:
                assert all(held.get(left) == held.get(right) for held in found.values())


@given(_groups(are_alike=True))
def test_range_keeps_the_position_of_a_static_member(
    group: tuple[dict[str, MemberSpec], dict[bytes, int]],
) -> None:
    """A static member rejoins with another member id."""
    members, topics = group
    static = [each for each, member in members.items() if member.instance_id is not None]
    found = ASSIGNORS["range"](members, topics)
    for old_id in static:
        renamed = {("z" if each == old_id else each): member for each, member in members.items()}
        assert ASSIGNORS["range"](renamed, topics)["z"] == found[old_id]
