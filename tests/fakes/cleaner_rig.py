"""Cleans a log on the test's own thread, in the steps of a node's log cleaner."""

from typing import NamedTuple

from headrace.protocol.records.codec import active_codec
from headrace.storage_node.log.cleaner.plan import cleanable
from headrace.storage_node.log.cleaner.work import Cleaning
from headrace.storage_node.log.log import Log
from log_rig import NOW, read_all

MANY_KEYS = 1 << 20


class Kept(NamedTuple):
    """One record as a consumer reads it."""

    offset: int
    key: bytes | None
    value: bytes | None


class FullSpeed:
    """A throttle without a limit, which counts the bytes."""

    def __init__(self) -> None:
        self.bytes = 0

    def take(self, size_bytes: int) -> None:
        self.bytes += size_bytes


def cleaning(
    log: Log, *, wall_ms: int = NOW, map_bytes: int = MANY_KEYS, buffer_bytes: int = 4096
) -> Cleaning:
    """A cleaning of the current cleanable range, whether it is due or not."""
    return Cleaning(log, cleanable(log, wall_ms), map_bytes, 0.9, buffer_bytes, wall_ms, FullSpeed())


def clean(log: Log, *, wall_ms: int = NOW, map_bytes: int = MANY_KEYS, buffer_bytes: int = 4096) -> Cleaning:
    """Clean the log once."""
    job = cleaning(log, wall_ms=wall_ms, map_bytes=map_bytes, buffer_bytes=buffer_bytes)
    job.index()
    while job.rewrite():
        job.install()
        log.delete_retired(job.settle())
    log.compaction.cleaner_offset = job.end_offset
    return job


def records(log: Log) -> list[Kept]:
    """All records of the log."""
    return [
        Kept(record.offset, record.key, record.value)
        for data in read_all(log)
        for record in active_codec().decode(data)
    ]
