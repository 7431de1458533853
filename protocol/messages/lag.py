"""Exact consumer lag: a leader counts the records that readers at some offsets have not read. headrace's own;
Kafka's clients subtract offsets."""

from __future__ import annotations

import msgspec

from ..model import READ_COMMITTED

MAX_COUNTED_OFFSETS = 1_000  # Bound: offsets in one request, of all partitions together


class CountRecordsPartition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """`offsets`: the next offsets of some readers, usually the committed offsets of groups.
    `current_leader_epoch` -1 skips the epoch check."""

    topic_id: bytes
    partition: int
    offsets: tuple[int, ...]
    current_leader_epoch: int = -1


class CountRecordsRequest(msgspec.Struct, array_like=True, frozen=True):
    """At most 1,000 offsets together. `isolation`: of the readers, 0 for read_uncommitted or 1 for
    read_committed."""

    partitions: tuple[CountRecordsPartition, ...]
    isolation: int = READ_COMMITTED


class RecordCount(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The records that a reader receives from the offset on, without transaction markers and offsets that
    compaction removed. With read_committed those below the last stable offset, without records of aborted
    transactions; with read_uncommitted all below the high watermark. `first_timestamp`: that of the first of
    them, in ms; -1 if there is none or it has no timestamp."""

    records: int
    first_timestamp: int = -1


class CountRecordsPartitionResponse(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A count for each offset of the request. An offset below `log_start_offset` is counted from there,
    because the records before are gone. `end_offset`: the last stable offset, or the high watermark with
    read_uncommitted."""

    error_code: int
    log_start_offset: int = -1
    end_offset: int = -1
    counts: tuple[RecordCount, ...] = ()
    error_detail: str = ""


class CountRecordsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request's entries. `wall_ms`: the leader's clock at the response, from
    which the age of a timestamp is computed."""

    partitions: tuple[CountRecordsPartitionResponse, ...]
    wall_ms: int = -1
