"""Exact consumer lag: a leader counts the records that readers at some offsets have not read. headrace's own;
Kafka's clients subtract offsets."""

from __future__ import annotations

import msgspec

MAX_COUNTED_OFFSETS = 1_000  # Bound: offsets in one request, of all partitions together


class CountRecordsPartition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """`offsets`: the next offsets of some readers, usually the committed offsets of groups.
    `current_leader_epoch` -1 skips the epoch check."""

    topic_id: bytes
    partition: int
    offsets: tuple[int, ...]
    current_leader_epoch: int = -1


class CountRecordsRequest(msgspec.Struct, array_like=True, frozen=True):
    """At most 1,000 offsets together."""

    partitions: tuple[CountRecordsPartition, ...]


class RecordCount(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The records that a reader with isolation level read_committed receives from the offset on: below the
    last stable offset, without transaction markers, records of aborted transactions, and offsets that
    compaction removed. `first_timestamp`: that of the first of them, in ms; -1 if there is none or it has no
    timestamp."""

    records: int
    first_timestamp: int = -1


class CountRecordsPartitionResponse(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A count for each offset of the request. An offset below `log_start_offset` is counted from there,
    because the records before are gone."""

    error_code: int
    log_start_offset: int = -1
    last_stable_offset: int = -1
    counts: tuple[RecordCount, ...] = ()
    error_detail: str = ""


class CountRecordsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request's entries. `wall_ms`: the leader's clock at the response, from
    which the age of a timestamp is computed."""

    partitions: tuple[CountRecordsPartitionResponse, ...]
    wall_ms: int = -1
