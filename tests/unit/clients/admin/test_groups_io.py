"""Groups in the admin client, on a fake cluster in virtual time."""

from typing import Any

import pytest
from fake_admin_cluster import FakeAdminCluster
from fake_cluster import Fault
from headrace.clients.admin.group_types import (
    GroupDescription,
    GroupListing,
    GroupMemberDescription,
    GroupState,
    GroupType,
    known_names,
)
from headrace.clients.group.group_metadata import OffsetAndMetadata
from headrace.protocol import errors
from headrace.protocol.consumer_protocol import Assignment, encode_assignment
from headrace.protocol.messages import groups
from headrace.protocol.messages import streams_groups as m
from headrace.protocol.model import TopicPartition
from headrace.protocol.records import streams_group_records as records

pytestmark = pytest.mark.fake_cluster(kind=FakeAdminCluster)

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
UNKNOWN = TopicPartition("typo", 0)


def stable_group(fake: FakeAdminCluster, name: str = "g", data: bytes | None = None) -> None:
    """A classic group with one static member, which has both partitions of t."""
    assignment = encode_assignment(Assignment(3, (FIRST, SECOND))) if data is None else data
    fake.group(name).join("m-1", "one", assignment)


def consumer_group(name: str = "new") -> groups.DescribedConsumerGroup:
    """One of the new protocol, in which a partition is on its way to a member."""
    one, both = (groups.NamedPartitions(bytes(16), "t", each) for each in ((0,), (0, 1)))
    member = groups.ConsumerGroupMember("m-2", None, "rack", 7, "c", "h", ("t",), None, (one,), (both,))
    return groups.DescribedConsumerGroup(0, name, "Reconciling", 8, 7, "uniform", (member,))


@pytest.mark.fake_cluster(nodes=3)
async def test_groups_of_all_nodes_are_listed(fake: FakeAdminCluster, cluster: Any) -> None:
    """By id, on any node; filtered by states and types."""
    stable_group(fake)
    fake.group("empty")
    fake.consumer_groups["new"] = consumer_group()
    fake.homes = {"empty": 1, "new": 2}
    admin = cluster.admin()
    listed = await admin.list_groups()
    assert listed == [
        GroupListing("empty", GroupType.CLASSIC, GroupState.EMPTY, "consumer"),
        GroupListing("g", GroupType.CLASSIC, GroupState.STABLE, "consumer"),
        GroupListing("new", GroupType.CONSUMER, GroupState.RECONCILING, "consumer"),
    ]
    assert [each.group_id for each in await admin.list_groups(states=["stable", "Empty"])] == [
        *("empty", "g")
    ]
    assert [each.group_id for each in await admin.list_groups(types=["consumer"])] == ["new"]
    with pytest.raises(errors.ConfigError, match="'Stabel' is none of Empty, Prep"):
        await admin.list_groups(states=["Stabel"])


@pytest.mark.fake_cluster(nodes=2)
async def test_listing_retries_until_every_node_has_responded(fake: FakeAdminCluster, cluster: Any) -> None:
    """While it loads, or after a lost response; a node that stays silent is an error."""
    fake.group("g")
    fake.homes = {"g": 1}
    loading = Fault(error=errors.CoordinatorLoadInProgressError("reading"))
    admin = cluster.admin()
    for fault in (loading, Fault(lost_reply=True)):
        fake.fail_next("ListGroups", fault)
        assert [each.group_id for each in await admin.list_groups()] == ["g"]
    fake.freeze_node(1)
    with pytest.raises(errors.ApiTimeoutError):
        await admin.list_groups(timeout=3)


@pytest.mark.fake_cluster(nodes=2)
async def test_groups_of_both_protocols_are_described_alike(fake: FakeAdminCluster, cluster: Any) -> None:
    """Assignments and targets; member data that cannot be decoded is empty; an unknown group is an error."""
    stable_group(fake)
    stable_group(fake, "odd", data=b"\x00\x00\xff")
    fake.consumer_groups["new"] = consumer_group()
    fake.homes = {"new": 1}
    found = await cluster.admin().describe_groups("g", "new", "odd", "nowhere")
    has = (FIRST, SECOND)
    assert found["g"] == GroupDescription(
        *("g", GroupType.CLASSIC, GroupState.STABLE, "consumer", "range", 0),
        (GroupMemberDescription("m-1", "one", "client", "host", has, has),),
    )
    assert found["new"] == GroupDescription(
        *("new", GroupType.CONSUMER, GroupState.RECONCILING, "consumer", "uniform", 1),
        (GroupMemberDescription("m-2", None, "c", "h", (FIRST,), has, 7, "rack"),),
        group_epoch=8,
        assignment_epoch=7,
    )
    assert found["odd"].members[0].assignment == ()
    assert list(found.errors) == ["nowhere"]
    assert isinstance(found.errors["nowhere"], errors.GroupIdNotFoundError)
    assert "no group 'nowhere'" in str(found.errors["nowhere"])


def test_a_state_of_a_later_version_is_unknown() -> None:
    """A filter cannot name it."""
    assert (GroupState("Sleeping"), GroupType("share")) == (GroupState.UNKNOWN, GroupType.UNKNOWN)
    with pytest.raises(errors.ConfigError):
        known_names(GroupState, ["Unknown"])


@pytest.mark.parametrize(
    "error", [errors.NotCoordinatorError, errors.CoordinatorNotAvailableError, errors.NetworkError]
)
@pytest.mark.fake_cluster(nodes=2)
async def test_a_coordinator_that_moves_is_found_again(
    fake: FakeAdminCluster, cluster: Any, error: type[errors.KafkaError]
) -> None:
    """The group moved to another node after FindCoordinator."""
    fake.create("t", 2)
    fake.fail_next("OffsetCommit", Fault(error=error("gone")))
    assert (await cluster.admin().alter_group_offsets("g", {FIRST: 3}, create=True))[FIRST] is None
    assert len(fake.requests("FindCoordinator")) == 2
    fake.homes["g"] = 1
    assert await cluster.admin().list_group_offsets("g") == {FIRST: OffsetAndMetadata(3)}


async def test_offsets_are_committed_for_groups_without_members_only(
    fake: FakeAdminCluster, cluster: Any
) -> None:
    """With `create` the group may be new; each partition has an outcome; members commit for themselves."""
    fake.create("t", 2)
    admin = cluster.admin()
    noted = OffsetAndMetadata(5, "note", 2)
    results = await admin.alter_group_offsets("g", {FIRST: 4, SECOND: noted, UNKNOWN: 1}, create=True)
    assert (results[FIRST], results[SECOND]) == (None, None)
    assert isinstance(results.errors[UNKNOWN], errors.UnknownTopicOrPartitionError)
    found = await admin.list_group_offsets("g", [FIRST, TopicPartition("t", 7)])
    assert found == {FIRST: OffsetAndMetadata(4), TopicPartition("t", 7): None}
    assert (await admin.list_group_offsets("g"))[SECOND] == noted
    with pytest.raises(ValueError, match="negative"):
        await admin.alter_group_offsets("g", {FIRST: -2})
    stable_group(fake)
    with pytest.raises(errors.UnknownMemberIdError):
        await admin.alter_group_offsets("g", {FIRST: 0})


async def test_many_offsets_take_several_requests(fake: FakeAdminCluster, cluster: Any) -> None:
    """All of one request become one batch, which has its bounds."""
    fake.create("t", 1)
    wanted = {TopicPartition("t", number): number for number in range(2_500)}
    results = await cluster.admin().alter_group_offsets("g", wanted, create=True)
    assert (len(results), results.errors) == (2_500, {})
    assert [len(each.offsets) for each in fake.requests("OffsetCommit")] == [1_000, 1_000, 500]


async def test_require_stable_waits_for_transactions(fake: FakeAdminCluster, cluster: Any) -> None:
    """Until the transaction that changes the offsets has ended."""
    fake.commit("g", "t", 0, 3)
    fake.unstable = {("t", 0)}
    admin = cluster.admin()
    assert await admin.list_group_offsets("g") == {FIRST: OffsetAndMetadata(3)}
    with pytest.raises(errors.ApiTimeoutError):
        await admin.list_group_offsets("g", require_stable=True, timeout=1)
    fake.unstable = set()
    assert await admin.list_group_offsets("g", require_stable=True) == {FIRST: OffsetAndMetadata(3)}


async def test_offsets_and_groups_are_deleted(fake: FakeAdminCluster, cluster: Any) -> None:
    """Not while members read them; after a lost response the retry succeeds."""
    lost: list[Any] = []

    def lose_first_delete_of_g(ask: Any) -> Fault | None:
        if ask.api == "DeleteGroups" and ask.body.group_ids == ("g",) and not lost:
            lost.append(ask)
            return Fault(lost_reply=True)
        return None

    stable_group(fake)
    admin = cluster.admin()
    fake.commit("g", "t", 0, 3)
    results = await admin.delete_group_offsets("g", [FIRST])
    assert isinstance(results.errors[FIRST], errors.GroupSubscribedToTopicError)
    assert isinstance((await admin.delete_groups("g")).errors["g"], errors.NonEmptyGroupError)
    assert (await admin.remove_members("g", ["one", "two"])).errors.keys() == {"two"}
    assert (await admin.delete_group_offsets("g", [FIRST, SECOND])).errors == {}
    assert await admin.list_group_offsets("g") == {}
    fake.rules.append(lose_first_delete_of_g)
    assert (await admin.delete_groups("g", "nowhere")).errors.keys() == {"nowhere"}
    assert (len(fake.requests("DeleteGroups")), fake.classic_groups) == (4, {})
    with pytest.raises(errors.GroupIdNotFoundError):
        await admin.delete_group_offsets("g", [FIRST])


async def test_all_members_are_removed(fake: FakeAdminCluster, cluster: Any) -> None:
    """By member id, also those without an instance id; an empty group has none."""
    stable_group(fake)
    admin = cluster.admin()
    assert dict(await admin.remove_members("g", reason="spring")) == {"m-1": None}
    (asked,) = fake.requests("LeaveGroup")
    assert asked.members == (groups.LeavingMember("m-1", "one", "spring"),)
    assert dict(await admin.remove_members("g")) == {}
    with pytest.raises(errors.GroupIdNotFoundError):
        await admin.remove_members("nowhere")


def streams_group(name: str = "app") -> m.DescribedStreamsGroup:
    """One with a repartition topic, in which an active task is on its way to a member."""
    repartitioned = records.TopicInfo("app-r-repartition", 2, 0)
    changelog = records.TopicInfo("app-s-changelog", 2, 0)
    subtopologies = (
        m.DescribedSubtopology("0", ("t",), ("app-r-repartition",), (), ()),
        m.DescribedSubtopology("1", (), (), (changelog,), (repartitioned,)),
    )
    now = m.TaskAssignment((records.TaskIds("0", (0,)),), (records.TaskIds("1", (1,)),), ())
    later = m.TaskAssignment((records.TaskIds("0", (0,)), records.TaskIds("1", (0, 1))))
    facts = ("rack", "c", "h", 3, "process", records.Endpoint("host", 80), (records.KeyValue("zone", "a"),))
    member = m.StreamsGroupMember("m-3", 7, None, *facts, now, later)
    topology = m.DescribedTopology(3, subtopologies)
    return m.DescribedStreamsGroup(0, name, "Reconciling", 8, 7, topology, (member,))


async def test_streams_groups_are_described(fake: FakeAdminCluster, cluster: Any) -> None:
    """With their topology and tasks, and like other groups: then with the source partitions of active
    tasks."""
    fake.streams_groups["app"] = streams_group()
    admin = cluster.admin()
    found = (await admin.describe_streams_groups("app"))["app"]
    assert (found.state, found.topology_epoch, found.coordinator) == (GroupState.RECONCILING, 3, 0)
    assert found.subtopologies is not None
    assert found.subtopologies[1].state_changelog_topics == {"app-s-changelog": 2}
    (member,) = found.members
    assert (member.endpoint, member.client_tags, member.process_id) == (
        ("host", 80),
        {"zone": "a"},
        "process",
    )
    assert [str(task) for task in (*member.tasks.active, *member.tasks.standby)] == ["0_0", "1_1"]
    assert [str(task) for task in member.target.active] == ["0_0", "1_0", "1_1"]
    described = (await admin.describe_groups("app"))["app"]
    assert (described.group_type, described.protocol_type) == (GroupType.STREAMS, "streams")
    (shown,) = described.members
    assert shown.assignment == (TopicPartition("t", 0),)
    moved = [TopicPartition("app-r-repartition", number) for number in (0, 1)]
    assert shown.target == (*moved, TopicPartition("t", 0))
    missing = await admin.describe_streams_groups("typo")
    assert isinstance(missing.errors["typo"], errors.GroupIdNotFoundError)
