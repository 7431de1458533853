"""ListGroups, DescribeGroups and DeleteGroups; what the shard refuses; what is counted."""

import pytest
from group_rig import GroupRig
from headrace.protocol import errors
from headrace.protocol.messages import groups as m
from headrace.protocol.messages import registry


def several() -> GroupRig:
    """A stable, a rebalancing, an empty and a simple group."""
    rig = GroupRig()
    rig.stable_group(2, "stable")
    ids = rig.stable_group(2, "preparing")
    rig.join(ids[0], "preparing")
    (gone,) = rig.stable_group(1, "empty")
    rig.leave(m.LeavingMember(gone), group="empty")
    rig.commit_offset(5, group="simple")
    return rig


@pytest.fixture
def rig() -> GroupRig:
    return several()


def listed(rig: GroupRig, *args: tuple[str, ...]) -> list[tuple[str, ...]]:
    answer = rig.request(registry.LIST_GROUPS, m.ListGroupsRequest(*args)).answer
    return [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in answer.groups]


def test_groups_are_listed_with_type_and_state() -> None:
    """In the order in which they came."""
    assert listed(several()) == [
        ("stable", "consumer", "Stable", "classic"),
        ("preparing", "consumer", "PreparingRebalance", "classic"),
        ("empty", "consumer", "Empty", "classic"),
        ("simple", "", "Empty", "classic"),
    ]


def test_groups_are_listed_by_state_and_type_ignoring_case(rig: GroupRig) -> None:
    assert [each[0] for each in listed(rig, ("STABLE", "preparingrebalance"))] == ["stable", "preparing"]
    assert [each[0] for each in listed(rig, ("empty",), ("Classic",))] == ["empty", "simple"]
    assert listed(rig, (), ("consumer",)) == []
    assert listed(rig, ("nonsense",)) == []


def test_describe_groups_shows_members_and_assignments(rig: GroupRig) -> None:
    """Stable groups show metadata and assignments; unknown groups are Dead."""
    asked = m.DescribeGroupsRequest(("stable", "preparing", "simple", "x"))
    stable, preparing, simple, missing = rig.request(registry.DESCRIBE_GROUPS, asked).answer.groups
    assert (stable.group_state, stable.protocol_type, stable.protocol) == ("Stable", "consumer", "range")
    assert [(each.metadata, each.assignment) for each in stable.members] == [(b"r", b"a0"), (b"r", b"a1")]
    assert {(each.client_id, each.client_host) for each in stable.members} == {("client", "/10.0.0.1")}
    assert (preparing.group_state, preparing.protocol, len(preparing.members)) == (
        "PreparingRebalance",
        "",
        2,
    )
    assert {(each.metadata, each.assignment) for each in preparing.members} == {(b"", b"")}
    assert (simple.group_state, simple.members) == ("Empty", ())
    assert (missing.error_code, missing.group_state) == (errors.GroupIdNotFoundError.code, "Dead")


def test_empty_groups_are_deleted_with_their_offsets(rig: GroupRig) -> None:
    """Results are in the order of the request."""
    rig.commit_offset(5, group="empty")
    names = ("simple", "stable", "empty", "x", "preparing", "empty")
    answer = rig.request(registry.DELETE_GROUPS, m.DeleteGroupsRequest(names)).answer
    not_empty, missing = errors.NonEmptyGroupError.code, errors.GroupIdNotFoundError.code
    assert [each.error_code for each in answer.results] == [0, not_empty, 0, missing, not_empty, 0]
    for _ in range(2):
        assert set(rig.shard.groups) == {"stable", "preparing"}
        assert rig.shard.store.count == 0
        rig.reload()


def test_group_that_cannot_be_deleted_keeps_all_offsets(rig: GroupRig) -> None:
    rig.refuses = errors.NotEnoughReplicasError()
    asked = rig.request(registry.DELETE_GROUPS, m.DeleteGroupsRequest(("simple",)))
    assert asked.code == errors.CoordinatorNotAvailableError.code
    rig.refuses = None
    assert rig.offsets("simple") == {("t", 0): 5}


def test_requests_of_other_coordinators_are_refused(rig: GroupRig) -> None:
    assert rig.request(registry.CREATE_TOPICS, None).code == errors.UnsupportedVersionError.code


def test_group_metrics_have_kafkas_names(rig: GroupRig) -> None:
    """Groups by type and state, and offsets, are counted as they are now."""
    assert rig.shard.counters.by_name() == {
        "offset-commit-count": 1,
        "offset-expiration-count": 0,
        "offset-deletion-count": 0,
        "group-completed-rebalance-count": 3,
        "consumer-group-rebalance-count": 0,
        "streams-group-rebalance-count": 0,
    }
    assert rig.shard.metrics().gauges == {
        "NumOffsets": 1,
        "NumGroups": 4,
        "NumGroupsEmpty": 2,
        "NumGroupsPreparingRebalance": 1,
        "NumGroupsCompletingRebalance": 0,
        "NumGroupsStable": 1,
        "NumGroupsDead": 0,
        "NumMembers": 4,
        "group-count/classic": 4,
        "group-count/consumer": 0,
        "group-count/streams": 0,
        "consumer-group-count/empty": 0,
        "consumer-group-count/assigning": 0,
        "consumer-group-count/reconciling": 0,
        "consumer-group-count/stable": 0,
        "consumer-group-count/dead": 0,
        "streams-group-count/empty": 0,
        "streams-group-count/not_ready": 0,
        "streams-group-count/assigning": 0,
        "streams-group-count/reconciling": 0,
        "streams-group-count/stable": 0,
        "streams-group-count/dead": 0,
    }
