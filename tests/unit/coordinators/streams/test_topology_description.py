"""The processing graph that joining members send (KIP-1331): when it is stored, and what is refused."""

from __future__ import annotations

import pytest
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import DeleteGroupsRequest
from headrace.protocol.messages.streams_groups import StreamsGroupDescribeRequest
from headrace.protocol.records.streams_group_records import (
    SubtopologyGraph,
    TopologyDescription,
    TopologyNode,
)
from headrace.protocol.records.topology_limits import MAX_DESCRIPTION_BYTES

from tests.fakes.streams_group_rig import APP, StreamsGroupRig, StreamsMember, topology

READ = TopologyNode("read", 1, ("events",), successors=("write",))
WRITE = TopologyNode("write", 3, chosen_by="route", predecessors=("read",))


def graph(*nodes: TopologyNode) -> TopologyDescription:
    return TopologyDescription((SubtopologyGraph("0", False, nodes or (READ, WRITE)),))


OTHER = graph(READ._replace(name="read-too", successors=()))


@pytest.fixture
def rig() -> StreamsGroupRig:
    rig = StreamsGroupRig()
    rig.set_topics(events=6, **{"app-counts-changelog": 6})
    return rig


def shown(rig: StreamsGroupRig) -> TopologyDescription | None:
    body = StreamsGroupDescribeRequest((APP,), include_topology_description=True)
    found: TopologyDescription | None = (
        rig.request(registry.STREAMS_GROUP_DESCRIBE, body).answer.groups[0].topology_description
    )
    return found


def test_description_is_stored_with_the_group_and_returned_on_request(rig: StreamsGroupRig) -> None:
    """It outlives the coordinator and the members, and ends with the group."""
    first = StreamsMember(rig, "a")
    first.beat(topology_description=graph())
    assert shown(rig) == graph()
    assert rig.described().topology_description is None, "not asked for"
    rig.reload()
    assert shown(rig) == graph()
    first.beat()
    first.leave()
    assert (rig.app.is_empty, shown(rig)) == (True, graph())
    rig.request(registry.DELETE_GROUPS, DeleteGroupsRequest((APP,)))
    rig.reload()
    assert APP not in rig.shard.groups


def test_that_of_the_last_member_that_joined_counts(rig: StreamsGroupRig) -> None:
    """As in a rolling upgrade. Members without one (Kafka's) leave it; no task moves for it."""
    StreamsMember(rig, "a").beat(topology_description=graph())
    StreamsMember(rig, "b").beat()
    assert shown(rig) == graph()
    epoch = rig.app.epoch
    StreamsMember(rig, "a").beat(topology_description=OTHER)  # joins again
    assert (shown(rig), rig.app.epoch) == (OTHER, epoch)


def test_that_of_another_topology_is_dropped(rig: StreamsGroupRig) -> None:
    """The next topology without one, and an application that is restarted without one."""
    first = StreamsMember(rig, "a")
    first.beat(topology_description=graph())
    StreamsMember(rig, "b", topology=topology(epoch=1)).beat()
    assert shown(rig) is None
    rig.reload()
    assert shown(rig) is None
    StreamsMember(rig, "c", topology=topology(epoch=1)).beat(topology_description=graph())
    for member_id in "abc":
        StreamsMember(rig, member_id).leave()
    assert shown(rig) == graph()
    StreamsMember(rig, "d", topology=topology(epoch=1)).beat()
    assert shown(rig) is None


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (graph(READ), "'write', which is no node"),
        (graph(READ, WRITE._replace(predecessors=("else",))), "'else', which is no node"),
        (graph(READ, WRITE, WRITE), "two nodes"),
        (graph(READ, WRITE._replace(kind=4)), "unknown kind 4"),
        (graph(READ._replace(chosen_by="x" * MAX_DESCRIPTION_BYTES), WRITE), "more than"),
    ],
)
def test_a_graph_that_cannot_be_is_refused(
    rig: StreamsGroupRig, sent: TopologyDescription, said: str
) -> None:
    with pytest.raises(errors.InvalidRequestError, match=said):
        StreamsMember(rig, "a").beat(topology_description=sent)
    assert APP not in rig.shard.groups


def test_only_joining_member_may_send_the_description(rig: StreamsGroupRig) -> None:
    first = StreamsMember(rig, "a")
    first.beat()
    with pytest.raises(errors.InvalidRequestError, match="joining"):
        rig.send(first.request(topology_description=graph()))
