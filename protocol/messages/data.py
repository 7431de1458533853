"""Data plane: metadata for clients, produce, fetch, offsets, deletion. Source: Kafka's message schemas."""

from __future__ import annotations

import msgspec


class NodeEndpoint(msgspec.Struct, array_like=True, frozen=True):
    """Where a storage node listens."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class MetadataRequest(msgspec.Struct, array_like=True, frozen=True):
    """`topics` None asks for all topics, an empty tuple for none (nodes only)."""

    topics: tuple[str, ...] | None = None
    topic_ids: tuple[bytes, ...] = ()


class PartitionMetadata(msgspec.Struct, array_like=True, frozen=True):
    """`leader` is -1 while the partition has none. Replica tuples hold node ids; `replicas` has the preferred
    leader first. Of the ELR (KIP-966) a member may lead while the ISR is empty. `adding_replicas` and
    `removing_replicas` say what a reassignment that is under way changes."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    partition_epoch: int = -1
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


class TopicMetadata(msgspec.Struct, array_like=True, frozen=True):
    """One topic; with an error code the partitions are empty."""

    error_code: int
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]


class MetadataResponse(msgspec.Struct, array_like=True, frozen=True):
    """`metadata_offset` says how new this picture is: the last metadata record it contains."""

    cluster_id: str
    controller_id: int
    metadata_offset: int
    nodes: tuple[NodeEndpoint, ...]
    topics: tuple[TopicMetadata, ...]


class DescribeClusterRequest(msgspec.Struct, array_like=True, frozen=True):
    """The nodes and how they are; fenced ones too if `include_fenced_brokers`."""

    include_fenced_brokers: bool = False


class ClusterNode(msgspec.Struct, array_like=True, frozen=True):
    """A registered storage node. A fenced one serves nobody; one in controlled shutdown serves, but hands
    over what it leads: it ends, or is drained."""

    node_id: int
    host: str
    port: int
    rack: str | None
    broker_epoch: int
    is_fenced: bool
    in_controlled_shutdown: bool


class DescribeClusterResponse(msgspec.Struct, array_like=True, frozen=True):
    """Nodes by id. `metadata_offset` says how new this picture is."""

    cluster_id: str
    controller_id: int
    metadata_offset: int
    nodes: tuple[ClusterNode, ...]


class ProducePartition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One record batch for one partition: the frame at the same index as this entry.

    `leader_epoch` -1 skips the check of the epoch.
    """

    topic_id: bytes
    partition: int
    leader_epoch: int = -1


class ProduceRequest(msgspec.Struct, array_like=True, frozen=True):
    """`acks` 0, 1 or -1 (all); with 0 there is no response. Entry i goes with frame i.

    Batches of a transaction need its `transactional_id`. `adds_partitions`: transaction version 2, the
    partitions' leaders add them to the transaction; else they only look whether they were added.
    """

    acks: int
    timeout_ms: int
    partitions: tuple[ProducePartition, ...]
    transactional_id: str | None = None
    adds_partitions: bool = True


class ProducePartitionResponse(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """`log_append_time_ms` is -1 unless the topic stamps records itself. `record_errors`: (index in the
    batch, message) of the records for which the batch was refused (KIP-467); nothing of it was stored."""

    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_detail: str = ""
    leader_id: int = -1  # with NOT_LEADER_OR_FOLLOWER: who leads now, -1 unknown (KIP-951)
    leader_epoch: int = -1
    record_errors: tuple[tuple[int, str], ...] = ()


class ProduceResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the request's entries."""

    partitions: tuple[ProducePartitionResponse, ...]


class FetchPartition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """`current_leader_epoch` -1 skips the check; `max_bytes` bounds this partition's share.

    `last_fetched_epoch` is the epoch of the record before `fetch_offset`; with it, -1 for none, a log that
    has diverged from the leader's is found. A follower also says where its own log starts, and that it
    `wants_producers`: its log begins behind records that it never had, and it would not know who sent them.
    """

    topic_id: bytes
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    wants_producers: bool = False


class FetchRequest(msgspec.Struct, array_like=True, frozen=True):
    """Wait up to `max_wait_ms` until `min_bytes` are there. The first batch of the first non-empty
    partition is returned even when it is larger than the limits, so that a reader always moves on.

    A follower names itself and reads up to the log's end. Its fetches form a session (KIP-227): epoch 0
    begins one, and the answer gives its id; with epochs 1, 2, .. only the partitions that changed for the
    follower are named, and those it gave up are `forgotten`. Epoch -1: no session, as clients fetch.
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: int  # 0 read_uncommitted, 1 read_committed
    partitions: tuple[FetchPartition, ...]
    replica_id: int = -1
    replica_epoch: int = -1  # the follower's broker epoch
    session_id: int = 0
    session_epoch: int = -1
    forgotten: tuple[tuple[bytes, int], ...] = ()  # (topic id, partition)
    rack: str = ""  # of a client that would rather read from a replica near it (KIP-392)
    may_follow: bool = False  # the client knows that followers answer, too


class FetchPartitionResponse(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The next `frame_count` frames of the message are this partition's: each holds whole batches. With
    read_committed they lie below the last stable offset, and `aborted` names the transactions, by producer id
    and first offset, whose records among them do not count, up to the producer's next marker.

    `diverging_epoch` and `diverging_end_offset`: the largest epoch of the leader's log that is not above the
    asked `last_fetched_epoch`, and where it ends; there are no records then, and the asker must truncate.
    With OFFSET_OUT_OF_RANGE a follower gets the leader's log end as `diverging_end_offset`. If it wants the
    producers, the one frame `has_producers`: a producer snapshot as of the offset that it asked for.
    """

    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    frame_count: int = 0
    error_detail: str = ""
    leader_id: int = -1
    leader_epoch: int = -1
    diverging_epoch: int = -1
    diverging_end_offset: int = -1
    preferred_read_replica: int = -1  # the client should rather fetch there
    aborted: tuple[tuple[int, int], ...] = ()
    has_producers: bool = False


class FetchResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the request's entries; in a session, of the partitions that `keys` names."""

    partitions: tuple[FetchPartitionResponse, ...]
    error_code: int = 0  # of the session
    session_id: int = 0
    keys: tuple[tuple[bytes, int], ...] = ()  # (topic id, partition) of each answer


class ListOffsetsPartition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """`timestamp` in ms, or -2 earliest, -1 latest, -3 the record with the largest timestamp."""

    topic_id: bytes
    partition: int
    timestamp: int
    current_leader_epoch: int = -1


class ListOffsetsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Offsets by time, for many partitions."""

    isolation: int
    partitions: tuple[ListOffsetsPartition, ...]


class ListOffsetsPartitionResponse(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The first offset whose timestamp is at or after the asked one; offset -1 when there is none."""

    error_code: int
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1
    error_detail: str = ""


class ListOffsetsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the request's entries."""

    partitions: tuple[ListOffsetsPartitionResponse, ...]


TO_HIGH_WATERMARK = -1  # as the offset to delete up to


class DeleteRecordsPartition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Records below `offset` are to go, -1: all that are committed. `current_leader_epoch` -1 skips the
    check."""

    topic_id: bytes
    partition: int
    offset: int
    current_leader_epoch: int = -1


class DeleteRecordsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Answered when all live replicas have done it, at the latest after `timeout_ms`."""

    timeout_ms: int
    partitions: tuple[DeleteRecordsPartition, ...]


class DeleteRecordsPartitionResponse(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """`low_watermark`: no live replica has records below; -1 with an error."""

    error_code: int
    low_watermark: int = -1
    error_detail: str = ""
    leader_id: int = -1  # with NOT_LEADER_OR_FOLLOWER: who leads now, -1 unknown
    leader_epoch: int = -1


class DeleteRecordsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the request's entries."""

    partitions: tuple[DeleteRecordsPartitionResponse, ...]


class EpochQuestion(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Where does `leader_epoch` end? `current_leader_epoch` -1 skips the check."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    current_leader_epoch: int = -1


class OffsetForLeaderEpochRequest(msgspec.Struct, array_like=True, frozen=True):
    """For readers that look whether their position was truncated away (KIP-320)."""

    partitions: tuple[EpochQuestion, ...]


class EpochAnswer(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The largest epoch at or below the asked one, and where it ends, exclusive; -1, -1 if the asked one is
    newer than any in the log."""

    error_code: int
    leader_epoch: int = -1
    end_offset: int = -1
    error_detail: str = ""


class OffsetForLeaderEpochResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the request's entries."""

    partitions: tuple[EpochAnswer, ...]
