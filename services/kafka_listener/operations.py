"""Operation of a cluster: nodes, disks, reassignments, elections, the quorum. Pure."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.errors import UnknownTopicOrPartitionError
from ...protocol.messages import control as c
from ...protocol.messages import log_dirs as d
from ...protocol.messages import quorum as q
from ...protocol.messages import registry
from ...protocol.messages.data import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    EpochQuestion,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from .calls import Call, KafkaApi
from .entities import id_of, ms_of
from .operations_allowed import on_cluster
from .plain import by_topic, fields
from .records import RequestedPartitions, failed_topics
from .topics import endpoint_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_METADATA_TOPIC = "__cluster_metadata"
_BROKERS = 1  # endpoint type
_PREFERRED = 0


def _whole(_call: Call, code: int, text: str) -> dict[str, Any]:
    """The error response of apis that have one error for the whole request."""
    return {"error_code": code, "error_message": text or None}


# --- nodes ---------------------------------------------------------------------------------------------


def _describe_cluster(call: Call) -> None:
    request = DescribeClusterRequest(getattr(call.body, "include_fenced_brokers", False))
    call.ask(registry.DESCRIBE_CLUSTER, request, partial(_cluster, call))


def _cluster(call: Call, response: DescribeClusterResponse) -> None:
    brokers = []
    for node in response.nodes:
        where = endpoint_of(call.host.image.brokers[node.node_id], call.peer.listener)
        if where is not None:
            host, port = where
            brokers.append({"broker_id": node.node_id, "host": host, "port": port} | _node(node))
    call.answer(
        {
            "error_code": 0,
            "error_message": None,
            "endpoint_type": _BROKERS,
            "cluster_id": response.cluster_id,
            "controller_id": call.host.node_id,  # as in Metadata
            "brokers": brokers,
            "cluster_authorized_operations": on_cluster(
                call, is_asked=call.body.include_cluster_authorized_operations
            ),
        }
    )


def _node(node: Any) -> dict[str, Any]:
    return {"rack": node.rack, "is_fenced": node.is_fenced}


def _describe_cluster_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    return _whole(call, code, text) | {"cluster_id": "", "controller_id": -1, "brokers": ()}


def _unregister(call: Call) -> None:
    request = c.UnregisterBrokerRequest(call.body.broker_id)
    call.ask(registry.UNREGISTER_BROKER, request, lambda answer: call.answer(fields(answer)))


# --- log dirs ------------------------------------------------------------------------------------------


def _describe_log_dirs(call: Call) -> None:
    topics = call.body.topics
    requested = None
    if topics is not None:
        requested = tuple(c.TopicPartitions(topic.topic, tuple(topic.partitions)) for topic in topics)
    call.ask(registry.DESCRIBE_LOG_DIRS, d.DescribeLogDirsRequest(requested), partial(_log_dirs, call))


def _log_dirs(call: Call, response: d.DescribeLogDirsResponse) -> None:
    results = [
        fields(found)
        | {"topics": by_topic(found.replicas, size_bytes="partition_size", is_future="is_future_key")}
        for found in response.log_dirs
    ]
    call.answer({"error_code": response.error_code, "results": results})


def _log_dirs_failed(_call: Call, code: int, _text: str) -> dict[str, Any]:
    return {"error_code": code, "results": ()}


def _alter_log_dirs(call: Call) -> None:
    targets = tuple(
        d.LogDirTarget(
            target.path,
            tuple(c.TopicPartitions(topic.name, tuple(topic.partitions)) for topic in target.topics),
        )
        for target in call.body.dirs
    )

    def done(response: d.AlterReplicaLogDirsResponse) -> None:
        call.answer(_altered_dirs(response.results))

    call.ask(registry.ALTER_REPLICA_LOG_DIRS, d.AlterReplicaLogDirsRequest(targets), done)


def _altered_dirs(results: Sequence[c.PartitionError]) -> dict[str, Any]:
    topics = by_topic(results)
    return {"results": [{"topic_name": topic["name"], "partitions": topic["partitions"]} for topic in topics]}


def _alter_log_dirs_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    return _altered_dirs(
        [
            c.PartitionError(topic.name, number, code, text)
            for target in call.body.dirs
            for topic in target.topics
            for number in topic.partitions
        ]
    )


# --- leaders and replicas ------------------------------------------------------------------------------


def _elect(call: Call) -> None:
    body = call.body
    topics = None
    if body.topic_partitions is not None:
        topics = tuple(
            c.TopicPartitions(each.topic, tuple(each.partitions)) for each in body.topic_partitions
        )
    request = c.ElectLeadersRequest(getattr(body, "election_type", _PREFERRED), topics, ms_of(body.timeout))

    def done(response: c.ElectLeadersResponse) -> None:
        failed = response.error_code and not response.results
        reply = (
            _elect_failed(call, response.error_code, response.error_detail) if failed else _elected(response)
        )
        call.answer(reply)

    call.ask(registry.ELECT_LEADERS, request, done)


def _elected(response: c.ElectLeadersResponse) -> dict[str, Any]:
    topics = by_topic(response.results, "partition_result", number="partition_id")
    reply = [topic | {"topic": topic["name"]} for topic in topics]
    return {"error_code": response.error_code, "replica_election_results": reply}


def _elect_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    return _elected(
        c.ElectLeadersResponse(
            code,
            text,
            tuple(
                c.PartitionError(topic.topic, number, code, text)
                for topic in call.body.topic_partitions or ()
                for number in topic.partitions
            ),
        )
    )


def _reassign(call: Call) -> None:
    topics = tuple(
        c.ReassignableTopic(
            topic.name,
            tuple(
                c.ReassignablePartition(
                    each.partition_index, None if each.replicas is None else tuple(each.replicas)
                )
                for each in topic.partitions
            ),
        )
        for topic in call.body.topics
    )
    allows = getattr(call.body, "allow_replication_factor_change", True)
    request = c.AlterPartitionReassignmentsRequest(topics, ms_of(call.body.timeout), allows)

    def done(response: c.AlterPartitionReassignmentsResponse) -> None:
        reply = {"allow_replication_factor_change": allows, "responses": by_topic(response.results)}
        call.answer(fields(response) | reply)

    call.ask(registry.ALTER_PARTITION_REASSIGNMENTS, request, done)


def _reassign_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    topics = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": each.partition_index, "error_code": code, "error_message": text}
                for each in topic.partitions
            ],
        }
        for topic in call.body.topics
    ]
    return _whole(call, code, text) | {"responses": topics}


def _reassignments(call: Call) -> None:
    body = call.body
    topics = None
    if body.topics is not None:
        topics = tuple(c.TopicPartitions(topic.name, tuple(topic.partition_indexes)) for topic in body.topics)
    request = c.ListPartitionReassignmentsRequest(topics, ms_of(body.timeout))

    def done(response: c.ListPartitionReassignmentsResponse) -> None:
        call.answer(fields(response) | {"topics": by_topic(response.ongoing)})

    call.ask(registry.LIST_PARTITION_REASSIGNMENTS, request, done)


def _reassignments_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    return _whole(call, code, text) | {"topics": ()}


def _epochs(call: Call) -> None:
    asked = RequestedPartitions(call)

    def entry(topic_id: bytes, each: Any) -> EpochQuestion:
        return EpochQuestion(topic_id, each.partition, each.leader_epoch, each.current_leader_epoch)

    asked.add(call.body.topics, "partitions", entry, "topic")

    def done(response: OffsetForLeaderEpochResponse) -> None:
        call.answer({"topics": asked.answers("partitions", response.partitions, _epoch)})

    request = OffsetForLeaderEpochRequest(tuple(asked.entries))
    call.ask(registry.OFFSET_FOR_LEADER_EPOCH, request, done)


def _epoch(asked: Any, result: Any, code: int) -> dict[str, Any]:
    reply = {"error_code": code, "leader_epoch": -1, "end_offset": -1} if result is None else fields(result)
    return reply | {"partition": asked.partition}


def _epoch_failed(asked: Any, code: int) -> dict[str, Any]:
    return _epoch(asked, None, code)


# --- the quorum ----------------------------------------------------------------------------------------


def _describe_quorum(call: Call) -> None:
    call.ask(registry.DESCRIBE_QUORUM, q.DescribeQuorumRequest(), partial(_quorum, call))


def _quorum(call: Call, response: q.DescribeQuorumResponse) -> None:
    wall_ms = call.plane.wall_ms()
    log = {
        "partition_index": 0,
        "error_code": 0,
        "error_message": None,
        "leader_id": response.leader_id,
        "leader_epoch": response.leader_epoch,
        "high_watermark": response.high_watermark,
        "current_voters": [_quorum_replica(each, wall_ms) for each in response.voters],
        "observers": [_quorum_replica(each, wall_ms) for each in response.observers],
    }
    topics = [_quorum_topic(topic, log) for topic in call.body.topics]
    voters = response.voters if any(log in topic["partitions"] for topic in topics) else ()
    nodes = [
        {"node_id": voter.replica_id, "listeners": [{"name": "CONTROLLER", "host": at.host, "port": at.port}]}
        for voter in voters
        if (at := voter.endpoint).port
    ]
    call.answer({"error_code": response.error_code, "error_message": None, "topics": topics, "nodes": nodes})


def _quorum_topic(asked: Any, log: dict[str, Any]) -> dict[str, Any]:
    """Only the metadata log has a quorum; any other partition is unknown."""

    def partition(index: int) -> dict[str, Any]:
        if (asked.topic_name, index) == (_METADATA_TOPIC, 0):
            return log
        nothing: dict[str, Any] = dict.fromkeys(("leader_id", "leader_epoch", "high_watermark"), 0)
        nothing |= {"current_voters": (), "observers": ()}
        code = UnknownTopicOrPartitionError.code
        return {"partition_index": index, "error_code": code, "error_message": None, **nothing}

    return {
        "topic_name": asked.topic_name,
        "partitions": [partition(each.partition_index) for each in asked.partitions],
    }


def _quorum_replica(replica: q.QuorumReplica, wall_ms: int) -> dict[str, Any]:
    """Kafka has timestamps where headrace has durations."""
    fetch_ms, caught_up_ms = replica.last_fetch_ago_ms, replica.last_caught_up_ago_ms
    return {
        "replica_id": replica.replica_id,
        "replica_directory_id": replica.directory_id,
        "log_end_offset": replica.log_end_offset,
        "last_fetch_timestamp": -1 if fetch_ms < 0 else wall_ms - fetch_ms,
        "last_caught_up_timestamp": -1 if caught_up_ms < 0 else wall_ms - caught_up_ms,
    }


def _quorum_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    return _whole(call, code, text) | {"topics": (), "nodes": ()}


def _add_voter(call: Call) -> None:
    body = call.body
    at = body.listeners[0] if body.listeners else None
    request = q.AddRaftVoterRequest(
        body.cluster_id or "",
        body.voter_id,
        id_of(body.voter_directory_id),
        at.host if at else "",
        at.port if at else 0,
    )
    call.ask(registry.ADD_RAFT_VOTER, request, lambda answer: call.answer(fields(answer)))


def _remove_voter(call: Call) -> None:
    body = call.body
    request = q.RemoveRaftVoterRequest(body.cluster_id or "", body.voter_id, id_of(body.voter_directory_id))
    call.ask(registry.REMOVE_RAFT_VOTER, request, lambda answer: call.answer(fields(answer)))


OPERATION_APIS = (
    KafkaApi(
        23,
        "OffsetForLeaderEpoch",
        2,
        4,
        _epochs,
        failed_topics(
            "topics",
            "topics",
            "partitions",
            "partitions",
            _epoch_failed,
            "topic",
        ),
    ),
    KafkaApi(34, "AlterReplicaLogDirs", 1, 2, _alter_log_dirs, _alter_log_dirs_failed),
    KafkaApi(35, "DescribeLogDirs", 1, 5, _describe_log_dirs, _log_dirs_failed),
    KafkaApi(43, "ElectLeaders", 0, 2, _elect, _elect_failed),
    KafkaApi(45, "AlterPartitionReassignments", 0, 1, _reassign, _reassign_failed),
    KafkaApi(46, "ListPartitionReassignments", 0, 0, _reassignments, _reassignments_failed),
    KafkaApi(55, "DescribeQuorum", 0, 2, _describe_quorum, _quorum_failed),
    KafkaApi(60, "DescribeCluster", 0, 2, _describe_cluster, _describe_cluster_failed),
    KafkaApi(64, "UnregisterBroker", 0, 0, _unregister, _whole),
    KafkaApi(80, "AddRaftVoter", 0, 1, _add_voter, _whole),
    KafkaApi(81, "RemoveRaftVoter", 0, 0, _remove_voter, _whole),
)
