"""The words of each message that a trace shows: its name, and the fields that matter for the conversation.

Messages without an entry are left out. An entry gives an empty text for a message that says nothing new.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from headrace.coordinators.assembly import CODEC
from headrace.coordinators.txn.states import TxnState
from headrace.protocol.consumer_protocol import decode_assignment
from headrace.protocol.errors import KafkaError, error_from_code
from headrace.protocol.messages import control, data, groups, quorum, transactions
from headrace.protocol.metadata import records as metadata
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.control import EndTransaction, decode_control
from headrace.protocol.records.group_records import (
    GroupMetadataKey,
    OffsetCommitKey,
)
from headrace.protocol.records.header import read_batch_header
from headrace.protocol.records.transaction_records import TransactionKey
from log_contents import split
from recorder import kafka_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cluster import SimCluster
    from recorder import Message

    Words = dict[type, Callable[[Message], str]]

ACKS = {-1: "all", 0: "0", 1: "1"}
MAX_RECORDS = 5  # of a metadata response in words: a node that starts gets the whole log
TXN_STATUS = list(TxnState)


def listed(items: Iterable[Any]) -> str:
    """Items with commas, or none."""
    return ",".join(map(str, items)) or "none"


def error(code: int) -> str:
    """The name of an error as Kafka has it; nothing for 0."""
    return kafka_name(error_from_code(code)) if code else ""


def short(member_id: str) -> str:
    """A member id by its first and last letters."""
    return re.sub("(?<=-).*(?=....$)", "..", member_id)


def counted(count: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def node(node_id: int) -> str:
    """A node, or none."""
    return f"node {node_id}" if node_id >= 0 else "none"


# --- records ------------------------------------------------------------------------------------------------


def batches(frames: Iterable[bytes | memoryview]) -> list[str]:
    """The records of some batches: each that a coordinator wrote in words, of others their number."""
    return [text for batch in split_frames(frames) for text in _batch(read_batch_header(batch), batch)]


def split_frames(frames: Iterable[bytes | memoryview]) -> Iterator[memoryview]:
    """The batches in some frames."""
    for frame in frames:
        yield from split(frame)


def _batch(header: Any, batch: memoryview) -> list[str]:
    stored = active_codec().decode(batch)
    if header.is_control:
        control_records = [decode_control(each.key, each.value) for each in stored]
        return [
            f"{'COMMIT' if each.is_commit else 'ABORT'} marker of producer {header.producer_id}"
            for each in control_records
            if isinstance(each, EndTransaction)
        ]
    decoded = [_decoded(each) for each in stored]
    if all(decoded):
        return [each for each in decoded if each]
    texts = [counted(len(stored), "record")]
    if header.is_transactional:
        texts.append(f"transaction of producer {header.producer_id}, producer epoch {header.producer_epoch}")
    return [", ".join(texts)]


def _decoded(stored: Any) -> str | None:
    """A coordinator's record in words; None if it is none."""
    try:
        found = CODEC.decode(stored.key, stored.value)
    except (KafkaError, TypeError, ValueError):
        return None
    match found:
        case (OffsetCommitKey() as key, value):
            return f"group {key.group} commits offset {value.offset} of {key.topic}-{key.partition}"
        case (GroupMetadataKey() as key, value):
            return f"group {key.group} generation {value.generation}, {counted(len(value.members), 'member')}"
        case (TransactionKey() as key, value):
            partitions = f", partitions {_partitions(value.partitions)}" if value.partitions else ""
            state = TXN_STATUS[value.status].value
            epoch = f"producer {value.producer_id}, producer epoch {value.producer_epoch}"
            return f"transactional id {key.transactional_id} {state}, {epoch}{partitions}"
    return None


# --- between controllers ------------------------------------------------------------------------------------


def _vote(message: Message) -> str:
    body = message.body
    kind = "PreVote for the epoch after" if body.pre_vote else "Vote for epoch"
    return f"{kind} {body.epoch}; the candidate's log ends at {body.end_offset}, epoch {body.last_epoch}"


def _voted(message: Message) -> str:
    granted = "granted" if message.body.vote_granted else "refused"
    return f"Vote response: {granted}, epoch {message.body.leader_epoch}"


def _quorum_fetched(message: Message) -> str:
    body = message.body
    if body.error_code:
        return ""
    if body.diverging_epoch >= 0:
        return (
            f"Fetch response: the logs diverge, epoch {body.diverging_epoch} ends at "
            f"{body.diverging_end_offset}"
        )
    count = sum(read_batch_header(batch).record_count for batch in split_frames(message.frames))
    return f"Fetch response: {counted(count, 'record')}, high watermark {body.high_watermark}"


QUORUM: Words = {
    quorum.VoteRequest: _vote,
    quorum.VoteResponse: _voted,
    quorum.BeginQuorumEpochRequest: lambda message: (
        f"BeginQuorumEpoch: controller {message.body.leader_id} leads epoch {message.body.leader_epoch}"
    ),
    quorum.QuorumFetchRequest: lambda message: (
        f"Fetch the metadata log from {message.body.fetch_offset}, epoch {message.body.leader_epoch}"
    ),
    quorum.QuorumFetchResponse: _quorum_fetched,
}


# --- groups and transactions --------------------------------------------------------------------------------


def _joined(message: Message) -> str:
    body = message.body
    if body.error_code:
        return f"JoinGroup response: {error(body.error_code)}, member id {short(body.member_id)}"
    role = f"leader of {counted(len(body.members), 'member')}" if body.members else "follower"
    return f"JoinGroup response: generation {body.generation_id}, {role}"


def _synced(message: Message) -> str:
    body = message.body
    if body.error_code:
        return f"SyncGroup response: {error(body.error_code)}"
    return f"SyncGroup response: assigned {_assigned(body.assignment)}"


def _assigned(assignment: bytes) -> str:
    return listed("-".join(map(str, tp)) for tp in decode_assignment(assignment).partitions)


def _sync(message: Message) -> str:
    body = message.body
    assignments = [f"{short(each.member_id)}: {_assigned(each.assignment)}" for each in body.assignments]
    return f"SyncGroup {body.group_id} generation {body.generation_id}" + (
        f", assignments {'; '.join(assignments)}" if assignments else ""
    )


def _results(results: Iterable[Any]) -> str:
    return "; ".join(f"{each.topic}-{each.partition} {error(each.error_code) or 'ok'}" for each in results)


def _offsets_fetched(message: Message) -> str:
    found = [
        f"{each.topic}-{each.partition} {error(each.error_code) or each.offset}"
        for group in message.body.groups
        for each in group.offsets
    ]
    return f"OffsetFetch response: committed offsets {listed(found)}"


GROUPS: Words = {
    groups.FindCoordinatorRequest: lambda message: f"FindCoordinator {listed(message.body.keys)}",
    groups.FindCoordinatorResponse: lambda message: (
        "FindCoordinator response: "
        + listed(error(each.error_code) or node(each.node_id) for each in message.body.coordinators)
    ),
    groups.JoinGroupRequest: lambda message: (
        f"JoinGroup {message.body.group_id} as {short(message.body.member_id) or 'a new member'}"
    ),
    groups.JoinGroupResponse: _joined,
    groups.SyncGroupRequest: _sync,
    groups.SyncGroupResponse: _synced,
    groups.HeartbeatResponse: lambda message: (
        f"Heartbeat response: {error(message.body.error_code)}" if message.body.error_code else ""
    ),
    groups.OffsetFetchRequest: lambda message: (
        "OffsetFetch "
        + listed(
            f"{each.topic}-{number}"
            for group in message.body.groups
            for each in group.topics or ()
            for number in each.partitions
        )
    ),
    groups.OffsetFetchResponse: _offsets_fetched,
    groups.OffsetCommitRequest: lambda message: (
        "OffsetCommit "
        + listed(f"{each.topic}-{each.partition} {each.offset}" for each in message.body.offsets)
    ),
    groups.OffsetCommitResponse: lambda message: f"OffsetCommit response: {_results(message.body.results)}",
}


def _identity(body: Any) -> str:
    return f"producer {body.producer_id}, producer epoch {body.producer_epoch}"


def _partitions(topics: Iterable[Any]) -> str:
    return listed(f"{each.topic}-{number}" for each in topics for number in each.partitions)


def _end(body: Any) -> str:
    return "COMMIT" if body.committed else "ABORT"


TRANSACTIONS: Words = {
    transactions.InitProducerIdRequest: lambda message: f"InitProducerId {message.body.transactional_id}",
    transactions.InitProducerIdResponse: lambda message: (
        "InitProducerId response: " + (error(message.body.error_code) or _identity(message.body))
    ),
    transactions.AddPartitionsToTxnRequest: lambda message: (
        "AddPartitionsToTxn "
        + "; ".join(
            f"{each.transactional_id} {_partitions(each.topics)}" for each in message.body.transactions
        )
    ),
    transactions.AddPartitionsToTxnResponse: lambda message: (
        "AddPartitionsToTxn response: "
        + "; ".join(error(each.error_code) or _results(each.results) for each in message.body.transactions)
    ),
    transactions.EndTxnRequest: lambda message: (
        f"EndTxn {message.body.transactional_id} {_end(message.body)}, {_identity(message.body)}"
    ),
    transactions.EndTxnResponse: lambda message: (
        "EndTxn response: " + (error(message.body.error_code) or _identity(message.body))
    ),
    transactions.WriteTxnMarkersRequest: lambda message: (
        "WriteTxnMarkers "
        + "; ".join(f"{_end(each)} {_partitions(each.topics)}" for each in message.body.markers)
    ),
    transactions.WriteTxnMarkersResponse: lambda message: (
        "WriteTxnMarkers response: " + "; ".join(_results(each.results) for each in message.body.markers)
    ),
}


# --- nodes and clients --------------------------------------------------------------------------------------


class Wording:
    """The words of the messages between nodes, clients and the controller. Topics are named as the metadata
    names them now. `shows_replication`: fetches of followers are shown."""

    def __init__(self, cluster: SimCluster, *, shows_replication: bool) -> None:
        self._cluster, self._shows_replication = cluster, shows_replication
        self.words: Words = (
            {
                data.ProduceRequest: self._produce,
                data.ProduceResponse: self._produced,
                data.FetchRequest: self._fetch,
                data.FetchResponse: self._fetched,
                data.MetadataResponse: self._metadata,
                control.FetchMetadataResponse: self._metadata_records,
                control.AlterPartitionRequest: self._alter_partition,
                control.AlterPartitionResponse: self._altered_partition,
                control.BrokerHeartbeatRequest: self._heartbeat,
            }
            | GROUPS
            | TRANSACTIONS
        )

    def _tp(self, topic_id: bytes, partition: int) -> str:
        return f"{self._cluster.rules.image.topic_names.get(topic_id, topic_id.hex())}-{partition}"

    def _produce(self, message: Message) -> str:
        body = message.body
        parts = [
            f"{self._tp(each.topic_id, each.partition)} {'; '.join(batches([frame]))}"
            for each, frame in zip(body.partitions, message.frames, strict=True)
        ]
        return f"Produce {'; '.join(parts)}, acks={ACKS[body.acks]}"

    def _produced(self, message: Message) -> str:
        pairs = zip(message.request.partitions, message.body.partitions, strict=True)
        parts = [
            f"{self._tp(asked.topic_id, asked.partition)} "
            + (error(found.error_code) or f"base offset {found.base_offset}")
            for asked, found in pairs
        ]
        return f"Produce response: {'; '.join(parts)}"

    def _fetch(self, message: Message) -> str:
        if message.body.replica_id >= 0 and not self._shows_replication:
            return ""
        parts = [
            f"{self._tp(each.topic_id, each.partition)} from {each.fetch_offset}, "
            f"leader epoch {each.current_leader_epoch}"
            for each in message.body.partitions
        ]
        return f"Fetch {'; '.join(parts)}" if parts else ""

    def _fetched(self, message: Message) -> str:
        body, frames = message.body, list(message.frames)
        if message.request.replica_id >= 0 and not self._shows_replication:
            return ""
        keys = body.keys or [(each.topic_id, each.partition) for each in message.request.partitions]
        parts = []
        for key, found in zip(keys, body.partitions, strict=False):
            own, frames = frames[: found.frame_count], frames[found.frame_count :]
            text = error(found.error_code) or "; ".join(batches(own)) or "no records"
            if found.diverging_epoch >= 0:
                text = f"epoch {found.diverging_epoch} ends at {found.diverging_end_offset}"
            parts.append(f"{self._tp(*key)} {text}, high watermark {found.high_watermark}")
        return f"Fetch response: {'; '.join(parts)}" if parts else ""

    def _metadata(self, message: Message) -> str:
        parts = [
            f"{topic.name}-{each.partition} leader {node(each.leader)}, leader epoch {each.leader_epoch}"
            for topic in message.body.topics
            if not topic.is_internal
            for each in topic.partitions
        ]
        return f"Metadata response: {'; '.join(parts)}"

    def _metadata_records(self, message: Message) -> str:
        texts = [text for record in message.body.records if (text := self._record(record))]
        if len(texts) > MAX_RECORDS:
            return f"metadata records: the log up to offset {message.body.end_offset - 1}"
        return f"metadata records: {'; '.join(texts)}" if texts else ""

    def _record(self, record: Any) -> str:
        match record:
            case metadata.PartitionChangeRecord():
                parts = [] if record.leader is None else [f"leader {node(record.leader)}"]
                parts += [] if record.isr is None else [f"ISR {listed(record.isr)}"]
                return f"{self._tp(record.topic_id, record.partition)} {', '.join(parts)}"
            case metadata.RegisterBrokerRecord():
                return f"node {record.node_id} registered"
            case metadata.FenceBrokerRecord():
                return f"node {record.node_id} fenced"
            case metadata.UnfenceBrokerRecord():
                return f"node {record.node_id} unfenced"
        return ""

    def _alter_partition(self, message: Message) -> str:
        parts = [
            f"{self._tp(each.topic_id, each.partition)} ISR {listed(member for member, _ in each.isr)}"
            for each in message.body.partitions
        ]
        return f"AlterPartition {'; '.join(parts)}"

    def _altered_partition(self, message: Message) -> str:
        parts = [
            f"{self._tp(each.topic_id, each.partition)} {error(each.error_code) or f'ISR {listed(each.isr)}'}"
            for each in message.body.partitions
        ]
        return f"AlterPartition response: {'; '.join(parts)}"

    def _heartbeat(self, message: Message) -> str:
        full = [self._tp(*key) for key in message.body.full_replicas]
        return f"BrokerHeartbeat: disk full, replicas {listed(full)}" if full else ""
