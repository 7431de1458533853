"""Data plane: metadata for clients, Produce, Fetch, offsets, DeleteRecords. Source: Kafka's message
schemas."""

from __future__ import annotations

import msgspec


class NodeEndpoint(msgspec.Struct, array_like=True, frozen=True):
    """The native endpoint of a storage node."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class MetadataRequest(msgspec.Struct, array_like=True, frozen=True):
    """`topics`: None for all topics, empty for none (nodes only)."""

    topics: tuple[str, ...] | None = None
    topic_ids: tuple[bytes, ...] = ()


class PartitionMetadata(msgspec.Struct, array_like=True, frozen=True):
    """`leader` is -1 while the partition has none. Replica tuples have node ids; `replicas` has the preferred
    leader first. A member of the ELR (KIP-966) may become leader while the ISR is empty. `adding_replicas`
    and `removing_replicas` belong to a reassignment in progress."""

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
    """One topic; without partitions if it has an error code."""

    error_code: int
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]


class MetadataResponse(msgspec.Struct, array_like=True, frozen=True):
    """`metadata_offset`: the last metadata record that this response reflects."""

    cluster_id: str
    controller_id: int
    metadata_offset: int
    nodes: tuple[NodeEndpoint, ...]
    topics: tuple[TopicMetadata, ...]


class DescribeClusterRequest(msgspec.Struct, array_like=True, frozen=True):
    """All nodes with their states; `include_fenced_brokers` adds fenced ones."""

    include_fenced_brokers: bool = False


class ClusterNode(msgspec.Struct, array_like=True, frozen=True):
    """A registered storage node. A fenced one serves no requests; one in controlled shutdown serves requests
    while its leaderships move: it is stopping or drained."""

    node_id: int
    host: str
    port: int
    rack: str | None
    broker_epoch: int
    is_fenced: bool
    in_controlled_shutdown: bool


class FeatureLevel(msgspec.Struct, array_like=True, frozen=True):
    """The current level of a feature, 0: disabled, and those that can be set."""

    name: str
    level: int
    min_level: int
    max_level: int


class DescribeClusterResponse(msgspec.Struct, array_like=True, frozen=True):
    """Nodes by id. `metadata_offset`: the last metadata record that this response reflects. `features`: as
    the responding node knows and supports them."""

    cluster_id: str
    controller_id: int
    metadata_offset: int
    nodes: tuple[ClusterNode, ...]
    features: tuple[FeatureLevel, ...] = ()


class ProducePartition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One record batch for one partition: the frame with the index of this entry.

    `leader_epoch` -1 skips the epoch check. `traceparents`: those of sampled records in the batch; null from
    clients that do not know, and the server then looks for them.
    """

    topic_id: bytes
    partition: int
    leader_epoch: int = -1
    traceparents: tuple[str, ...] | None = None


class ProduceRequest(msgspec.Struct, array_like=True, frozen=True):
    """`acks` 0, 1 or -1 (all); 0 has no response. Entry i belongs to frame i.

    Transactional batches need `transactional_id`. `adds_partitions`: transaction version 2, in which
    partition leaders add the partitions to the transaction; otherwise they only verify that the client has.
    """

    acks: int
    timeout_ms: int
    partitions: tuple[ProducePartition, ...]
    transactional_id: str | None = None
    adds_partitions: bool = True


class ProducePartitionResponse(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """`log_append_time_ms` is -1 unless the topic uses LogAppendTime. `record_errors`: (index in the batch,
    message) of the invalid records of a rejected batch (KIP-467); none of its records was stored."""

    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_detail: str = ""
    leader_id: int = -1  # with NOT_LEADER_OR_FOLLOWER: the current leader, -1 unknown (KIP-951)
    leader_epoch: int = -1
    record_errors: tuple[tuple[int, str], ...] = ()


class ProduceResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request's entries."""

    partitions: tuple[ProducePartitionResponse, ...]


class FetchPartition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """`current_leader_epoch` -1 skips the epoch check; `max_bytes` limits this partition.

    `last_fetched_epoch`: the epoch of the record before `fetch_offset`, -1 for none; the leader uses it to
    detect divergence. A follower also sends its log start offset, and `wants_producers` if its log starts
    after 0 and it lacks the producer state before that.
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
    """Wait up to `max_wait_ms` for `min_bytes`. The first batch of the first non-empty partition is returned
    even above the limits, so that a reader always progresses.

    A follower sends its id and reads up to the log end offset. Its fetches form a session (KIP-227): epoch 0
    starts one, and the response has its id; epochs 1, 2, .. list changed partitions only, and removed ones in
    `forgotten`. Epoch -1: no session, as for clients.
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
    rack: str = ""  # of a client that prefers a nearby replica (KIP-392)
    may_follow: bool = False  # the client accepts responses from followers


class TracedBatch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A batch with sampled records, and their `traceparent` headers."""

    base_offset: int
    last_offset: int
    traceparents: tuple[str, ...]


class FetchPartitionResponse(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The next `frame_count` frames of the message belong to this partition: each has whole batches. With
    read_committed they end at the last stable offset, and `aborted` lists aborted transactions by producer id
    and first offset: records of that producer are skipped up to its next marker.

    `diverging_epoch` and `diverging_end_offset`: the largest epoch of the leader's log up to
    `last_fetched_epoch`, and its end offset; such a response has no records, and the follower must truncate.
    With OFFSET_OUT_OF_RANGE a follower gets the leader's log end offset as `diverging_end_offset`.
    `has_producers`: the only frame is the producer snapshot at the fetch offset, which the follower wanted.
    `traced`: for a follower, the sampled batches among the records that the leader remembers.
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
    preferred_read_replica: int = -1  # the client should fetch from this replica
    aborted: tuple[tuple[int, int], ...] = ()
    has_producers: bool = False
    traced: tuple[TracedBatch, ...] = ()


class FetchResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request's entries; in a session, of the partitions in `keys`."""

    partitions: tuple[FetchPartitionResponse, ...]
    error_code: int = 0  # of the session
    session_id: int = 0
    keys: tuple[tuple[bytes, int], ...] = ()  # (topic id, partition) of each result


class ListOffsetsPartition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """`timestamp` in ms, or -2 earliest, -1 latest, -3 the record with the largest timestamp."""

    topic_id: bytes
    partition: int
    timestamp: int
    current_leader_epoch: int = -1


class ListOffsetsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Offsets by timestamp."""

    isolation: int
    partitions: tuple[ListOffsetsPartition, ...]


class ListOffsetsPartitionResponse(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The first offset with a timestamp at or after the requested one; -1 if there is none."""

    error_code: int
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1
    error_detail: str = ""


class ListOffsetsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request's entries."""

    partitions: tuple[ListOffsetsPartitionResponse, ...]


TO_HIGH_WATERMARK = -1  # delete all committed records


class DeleteRecordsPartition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Delete records below `offset`, -1: below the high watermark. `current_leader_epoch` -1 skips the epoch
    check."""

    topic_id: bytes
    partition: int
    offset: int
    current_leader_epoch: int = -1


class DeleteRecordsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Answered when all live replicas have advanced their log start offset, at most after `timeout_ms`."""

    timeout_ms: int
    partitions: tuple[DeleteRecordsPartition, ...]


class DeleteRecordsPartitionResponse(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """`low_watermark`: the smallest log start offset of the live replicas; -1 with an error."""

    error_code: int
    low_watermark: int = -1
    error_detail: str = ""
    leader_id: int = -1  # with NOT_LEADER_OR_FOLLOWER: the current leader, -1 unknown
    leader_epoch: int = -1


class DeleteRecordsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request's entries."""

    partitions: tuple[DeleteRecordsPartitionResponse, ...]


class EpochQuestion(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Request for the end offset of `leader_epoch`. `current_leader_epoch` -1 skips the epoch check."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    current_leader_epoch: int = -1


class OffsetForLeaderEpochRequest(msgspec.Struct, array_like=True, frozen=True):
    """For consumers that check whether records at their position were truncated (KIP-320)."""

    partitions: tuple[EpochQuestion, ...]


class EpochAnswer(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The largest epoch of the log up to the requested one, and its end offset (exclusive); -1, -1 if the
    requested epoch is newer than all in the log."""

    error_code: int
    leader_epoch: int = -1
    end_offset: int = -1
    error_detail: str = ""


class OffsetForLeaderEpochResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request's entries."""

    partitions: tuple[EpochAnswer, ...]
