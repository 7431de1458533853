"""The replication part of the admin client: elections, reassignments, drains, states of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import (
    BrokerIdNotRegisteredError,
    ElectionNotNeededError,
    KafkaError,
    NoReassignmentInProgressError,
)
from ...protocol.messages import control, data
from ...protocol.messages import registry as apis
from ...protocol.model import TopicPartition
from ..cluster.network import Address
from .admin_types import (
    ClusterDescription,
    DrainedNode,
    ElectionType,
    NodeInfo,
    NodeState,
    PartitionReassignment,
    Results,
)
from .requester_io import error_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .requester_io import AdminRequester, Call

Outcomes = dict[TopicPartition, KafkaError | None]


class ReplicationEngine:
    """Runs on the loop of the client. Timeouts are in seconds; None takes default.api.timeout.ms.

    What is asked is a state to be reached: a retry, after an answer that was lost, which finds it reached has
    succeeded.
    """

    def __init__(self, requester: AdminRequester) -> None:
        self._requester = requester

    async def describe_cluster(self, *, include_fenced: bool, timeout: float | None) -> ClusterDescription:
        """The cluster, by the metadata of one node."""
        request = data.DescribeClusterRequest(include_fenced)
        response = await self._requester.ask(apis.DESCRIBE_CLUSTER, request, self._requester.call(timeout))
        nodes = sorted(response.nodes, key=lambda node: node.node_id)
        return ClusterDescription(response.cluster_id, response.controller_id, tuple(map(_node, nodes)))

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None,
        *,
        node_id: int | None = None,
        timeout: float | None,
    ) -> Results[TopicPartition, None]:
        """None for each partition, or the error. With None as partitions: all that needed an election."""
        call = self._requester.call(timeout)
        if partitions is not None:

            async def ask(wanted: list[TopicPartition]) -> Outcomes:
                return await self._elect(election_type, wanted, node_id, call)

            return await self._requester.retried(list(partitions), ask, call)

        async def ask_all() -> Outcomes | KafkaError:
            return await self._elect_all(election_type, call)

        return Results(await self._requester.one("the elections", ask_all, call))

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool,
        timeout: float | None,
    ) -> Results[TopicPartition, None]:
        """None for each partition whose reassignment has begun (or was cancelled), or the error."""
        call = self._requester.call(timeout)
        targets = {place: None if nodes is None else tuple(nodes) for place, nodes in reassignments.items()}

        async def ask(wanted: list[TopicPartition]) -> Outcomes:
            request = control.AlterPartitionReassignmentsRequest(
                tuple(
                    control.ReassignableTopic(
                        topic,
                        tuple(
                            control.ReassignablePartition(number, targets[TopicPartition(topic, number)])
                            for number in numbers
                        ),
                    )
                    for topic, numbers in _by_topic(wanted).items()
                ),
                self._requester.left_ms(call),
                allow_replication_factor_change,
            )
            response = await self._requester.ask(apis.ALTER_PARTITION_REASSIGNMENTS, request, call)
            return _outcomes(response, wanted, call, NoReassignmentInProgressError)

        return await self._requester.retried(list(targets), ask, call)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None, *, timeout: float | None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The reassignments that go on, by topic and partition."""
        call = self._requester.call(timeout)
        wanted = None if partitions is None else _named(list(partitions))

        async def ask() -> dict[TopicPartition, PartitionReassignment] | KafkaError:
            request = control.ListPartitionReassignmentsRequest(wanted, self._requester.left_ms(call))
            response = await self._requester.ask(apis.LIST_PARTITION_REASSIGNMENTS, request, call)
            return error_of(response) or {
                TopicPartition(each.topic, each.partition): PartitionReassignment(
                    each.replicas, each.adding_replicas, each.removing_replicas, each.isr
                )
                for each in response.ongoing
            }

        return await self._requester.one("the reassignments", ask, call)

    async def drain_node(self, node_id: int, *, drained: bool, timeout: float | None) -> DrainedNode:
        """The partitions that the node still leads, and the topics that reject acks=all."""
        call = self._requester.call(timeout)

        async def ask() -> DrainedNode | KafkaError:
            request = control.DrainNodeRequest(node_id, drained)
            response = await self._requester.ask(apis.DRAIN_NODE, request, call)
            return error_of(response) or DrainedNode(
                node_id, response.leaders_left, response.below_min_isr, response.topics_below_min_isr
            )

        return await self._requester.one(f"node {node_id}", ask, call)

    async def unregister_broker(self, node_id: int, *, timeout: float | None) -> None:
        """Errors: of the controller."""
        call = self._requester.call(timeout)

        async def ask() -> KafkaError | None:
            request = control.UnregisterBrokerRequest(node_id)
            error = error_of(await self._requester.ask(apis.UNREGISTER_BROKER, request, call))
            is_done = call.may_have_run and isinstance(error, BrokerIdNotRegisteredError)
            return None if is_done else error

        await self._requester.one(f"node {node_id}", ask, call)

    async def _elect(
        self, election_type: ElectionType, wanted: list[TopicPartition], node_id: int | None, call: Call
    ) -> Outcomes:
        request = control.ElectLeadersRequest(
            ElectionType(election_type),
            _named(wanted),
            self._requester.left_ms(call),
            -1 if node_id is None else node_id,
        )
        response = await self._requester.ask(apis.ELECT_LEADERS, request, call)
        return _outcomes(response, wanted, call, ElectionNotNeededError)

    async def _elect_all(self, election_type: ElectionType, call: Call) -> Outcomes | KafkaError:
        request = control.ElectLeadersRequest(
            ElectionType(election_type), None, self._requester.left_ms(call)
        )
        response = await self._requester.ask(apis.ELECT_LEADERS, request, call)
        return error_of(response) or {
            TopicPartition(each.topic, each.partition): error_of(each) for each in response.results
        }


def _outcomes(
    response: control.ElectLeadersResponse | control.AlterPartitionReassignmentsResponse,
    wanted: list[TopicPartition],
    call: Call,
    done_before: type[KafkaError],
) -> Outcomes:
    """The outcome of each partition; `done_before` is the error that a retry gets after its own success."""
    whole = error_of(response)
    if whole is not None:
        return dict.fromkeys(wanted, whole)
    found = {TopicPartition(each.topic, each.partition): error_of(each) for each in response.results}
    if call.may_have_run:
        return {place: None if isinstance(e, done_before) else e for place, e in found.items()}
    return found


def _by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place in places:
        found.setdefault(place.topic, []).append(place.partition)
    return found


def _named(places: list[TopicPartition]) -> tuple[control.TopicPartitions, ...]:
    return tuple(
        control.TopicPartitions(topic, tuple(numbers)) for topic, numbers in _by_topic(places).items()
    )


def _node(node: data.ClusterNode) -> NodeInfo:
    state = NodeState.ACTIVE
    if node.is_fenced:
        state = NodeState.FENCED
    elif node.in_controlled_shutdown:
        state = NodeState.SHUTTING_DOWN
    return NodeInfo(node.node_id, Address(node.host, node.port), node.rack, state, node.broker_epoch)
