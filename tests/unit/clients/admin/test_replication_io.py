"""Elections, reassignments, drains and states of nodes, on a fake cluster in virtual time."""

from typing import Any

import pytest
from fake_cluster import Fault
from headrace.clients.admin.admin_types import (
    DrainedNode,
    ElectionType,
    NodeState,
    PartitionDescription,
    PartitionReassignment,
)
from headrace.protocol import errors
from headrace.protocol.messages import control
from headrace.protocol.model import TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def replicated(fake: Any) -> Any:
    """Topic t: two partitions on the nodes 0, 1 and 2, led by 0 and 1, where 0 is preferred."""
    topic = fake.create("t", 2)
    for part in topic.partitions:
        part.replicas, part.isr = (0, 1, 2), (0, 1, 2)
    return topic


@pytest.mark.fake_cluster(nodes=3)
async def test_partition_descriptions(fake: Any, cluster: Any) -> None:
    """Both epochs, ELR, adding and removing replicas, offline ones."""
    part = replicated(fake).partitions[1]
    part.isr, part.elr, part.adding, part.removing = (1,), (0,), (2,), (0,)
    fake.stop_node(2)
    found = (await cluster.admin().describe_topics("t"))["t"].partitions[1]
    assert found == PartitionDescription(
        "t",
        1,
        leader=1,
        leader_epoch=0,
        partition_epoch=9,
        replicas=(0, 1, 2),
        isr=(1,),
        elr=(0,),
        adding_replicas=(2,),
        removing_replicas=(0,),
        offline_replicas=(2,),
    )


@pytest.mark.parametrize(
    ("leader", "isr", "adding", "min_isr", "expected"),
    [
        (1, (1, 2, 3), (), 2, ()),
        (1, (1, 2), (), 2, ("under_replicated", "at_min_isr")),
        (1, (1, 2), (3,), 2, ("at_min_isr",)),  # what is being added does not count yet
        (1, (1,), (), 2, ("under_replicated", "under_min_isr")),
        (1, (1, 2, 3), (), 9, ("at_min_isr",)),  # more than there are count as all of them
        (1, (1, 2), (), 9, ("under_replicated", "under_min_isr")),
        (-1, (), (), 1, ("under_replicated", "under_min_isr", "unavailable")),
        (7, (1, 2, 3), (), 1, ("under_min_isr", "unavailable")),  # the leader is down, and not fenced yet
    ],
)
def test_health_of_a_partition(
    leader: int, isr: tuple[int, ...], adding: tuple[int, ...], min_isr: int, expected: tuple[str, ...]
) -> None:
    """As in Kafka's topic command."""
    part = PartitionDescription(
        "t", 0, leader, 1, 1, (1, 2, 3), isr, adding_replicas=adding, offline_replicas=(7,)
    )
    facts = {
        "under_replicated": part.is_under_replicated,
        "at_min_isr": part.is_at_min_isr(min_isr),
        "under_min_isr": part.is_under_min_isr(min_isr),
        "unavailable": part.is_unavailable,
    }
    assert tuple(name for name, holds in facts.items() if holds) == expected


@pytest.mark.fake_cluster(nodes=3)
async def test_states_of_nodes(fake: Any, cluster: Any) -> None:
    """Fenced nodes only with `include_fenced`."""
    fake.stop_node(1)
    fake.drained.add(2)
    fake.racks[0] = "r"
    admin = cluster.admin()
    assert [node.node_id for node in (await admin.describe_cluster()).nodes] == [0, 2]
    nodes = (await admin.describe_cluster(include_fenced=True)).nodes
    assert [node.state for node in nodes] == [NodeState.ACTIVE, NodeState.FENCED, NodeState.SHUTTING_DOWN]
    assert [node.rack for node in nodes] == ["r", None, None]


@pytest.mark.fake_cluster(nodes=3)
async def test_elections_of_partitions_and_of_all(fake: Any, cluster: Any) -> None:
    """Each partition has its own outcome, without retries of errors that a producer would retry."""
    topic, admin = replicated(fake), cluster.admin()
    results = await admin.elect_leaders(ElectionType.PREFERRED, [FIRST, SECOND, TopicPartition("typo", 0)])
    assert isinstance(results.errors[FIRST], errors.ElectionNotNeededError)
    assert results[SECOND] is None
    assert topic.partitions[1].leader == 0
    assert isinstance(results.errors[TopicPartition("typo", 0)], errors.UnknownTopicOrPartitionError)
    topic.partitions[1].leader, topic.partitions[1].isr = 1, (1,)
    results = await admin.elect_leaders(ElectionType.PREFERRED)
    assert list(results) == [SECOND]
    assert isinstance(results.errors[SECOND], errors.PreferredLeaderNotAvailableError)
    topic.partitions[0].leader = -1
    results = await admin.elect_leaders(ElectionType.UNCLEAN)
    assert (list(results), results.errors) == ([FIRST], {})
    assert len(fake.requests("ElectLeaders")) == 3
    with pytest.raises(ValueError, match="7"):
        await admin.elect_leaders(7)


@pytest.mark.fake_cluster(nodes=3)
async def test_retry_after_a_lost_response_succeeds(fake: Any, cluster: Any) -> None:
    """The retry finds the result of the first attempt: an election, a cancellation, an unregistration."""
    topic, admin = replicated(fake), cluster.admin()
    fake.fail_next("ElectLeaders", Fault(lost_reply=True))
    assert (await admin.elect_leaders(ElectionType.PREFERRED, [SECOND]))[SECOND] is None
    topic.partitions[0].adding = (2,)
    fake.fail_next("AlterPartitionReassignments", Fault(lost_reply=True))
    assert (await admin.alter_partition_reassignments({FIRST: None}))[FIRST] is None
    fake.stop_node(2)
    fake.fail_next("UnregisterBroker", Fault(lost_reply=True))
    await admin.unregister_broker(2)
    assert fake.unregistered == {2}


@pytest.mark.fake_cluster(nodes=3)
async def test_reassignments_begin_are_listed_and_cancelled(fake: Any, cluster: Any) -> None:
    """Per partition; a change of the replication factor may be forbidden."""
    fake.create("t", 2)
    admin = cluster.admin()
    results = await admin.alter_partition_reassignments(
        {FIRST: [2, 1], SECOND: (9,)}, allow_replication_factor_change=False
    )
    assert (results[FIRST], type(results.errors[SECOND])) == (None, errors.InvalidReplicaAssignmentError)
    assert not fake.requests("AlterPartitionReassignments")[0].allow_replication_factor_change
    ongoing = await admin.list_partition_reassignments()
    assert ongoing == {FIRST: PartitionReassignment((2, 1, 0), (2, 1), (0,), (0,))}
    assert ongoing[FIRST].target == (2, 1)
    assert await admin.list_partition_reassignments([SECOND]) == {}
    results = await admin.alter_partition_reassignments({FIRST: None, SECOND: None})
    assert isinstance(results.errors[SECOND], errors.NoReassignmentInProgressError)
    assert await admin.list_partition_reassignments() == {}


@pytest.mark.fake_cluster(nodes=3)
async def test_nodes_are_drained_and_unregistered(fake: Any, cluster: Any) -> None:
    """The result has partitions without another replica in sync; an unknown or live node is an error."""
    replicated(fake).partitions[1].isr = (1,)
    admin = cluster.admin()
    assert await admin.drain_node(1) == DrainedNode(1, leaders_left=1)
    assert await admin.drain_node(1, drained=False) == DrainedNode(1, 0)
    assert fake.drained == set()
    fake.below_min_isr = ("orders",)
    assert await admin.drain_node(2) == DrainedNode(2, 0, 1, ("orders",))
    with pytest.raises(errors.BrokerIdNotRegisteredError):
        await admin.drain_node(9)
    with pytest.raises(errors.InvalidRequestError):
        await admin.unregister_broker(1)


@pytest.mark.fake_cluster(nodes=3)
async def test_an_error_of_the_whole_request_is_that_of_each_partition(fake: Any, cluster: Any) -> None:
    """Also of a call without items; a missing controller is retried."""
    codes = iter([41, 42, 41, 42])
    fake._do_ElectLeaders = lambda body: control.ElectLeadersResponse(next(codes), "why")
    admin = cluster.admin()
    results = await admin.elect_leaders(ElectionType.PREFERRED, [FIRST, SECOND])
    assert [type(error) for error in results.errors.values()] == [errors.InvalidRequestError] * 2
    with pytest.raises(errors.InvalidRequestError, match="why"):
        await admin.elect_leaders(ElectionType.PREFERRED)
    with pytest.raises(ValueError, match="twice"):
        await admin.elect_leaders(ElectionType.PREFERRED, [FIRST, FIRST])
