"""Compaction of one partition's log: writing a log with repeated keys, and cleaning it."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.protocol.model import TopicPartition
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import HEADER_BYTES, Compression, read_batch_header
from headrace.runtime.files.files_io import OsFiles
from headrace.storage_node.log.cleaner.plan import cleanable
from headrace.storage_node.log.cleaner.work import Cleaning
from headrace.storage_node.log.config import LogConfig
from headrace.storage_node.log.log import Log

from ..payload import pool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.protocol.records.header import Buffer
    from headrace.storage_node.log.segment import Segment

    from ..worker import Clock

NOW_MS = 1_700_000_000_000
BATCH_BYTES, SEGMENT_BYTES = 16_384, 64 << 20
READ_BYTES = 1 << 20
# the defaults of log.cleaner.io.buffer.size (for reading and writing) and its load factor
BUFFER_BYTES, LOAD_FACTOR = 512 * 1024 // 2, 0.9


def makelog(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Write `count` records of `size` bytes with `keys` keys; the active segment has one more record."""
    builder_of, compression = active_codec().builder, Compression[spec["compression"].upper()]
    values, draw = pool(spec["size"], is_json=compression is not Compression.NONE), random.Random(1)
    log = _opened(spec["folder"], segment_bytes=SEGMENT_BYTES)
    clock.ready()
    clock.start()
    builder = builder_of(max_bytes=BATCH_BYTES, compression=compression)
    for number in range(spec["count"]):
        record = NOW_MS, b"key-%010d" % draw.randrange(spec["keys"]), values[number % len(values)]
        if builder.append(*record) < 0:
            log.append_as_leader(builder.build(), leader_epoch=0, wall_ms=NOW_MS)
            builder = builder_of(max_bytes=BATCH_BYTES, compression=compression)
            builder.append(*record)
    log.append_as_leader(builder.build(), leader_epoch=0, wall_ms=NOW_MS)
    log.roll(NOW_MS)
    builder = builder_of(max_bytes=BATCH_BYTES)
    builder.append(NOW_MS, b"active", b"")
    log.append_as_leader(builder.build(), leader_epoch=0, wall_ms=NOW_MS)
    log.close()
    return {**clock.stop(), "records": spec["count"]}


class _FullSpeed:
    """Without a throttle."""

    def take(self, size_bytes: int) -> None:
        """See `Pace` in `log/cleaner/work.py`."""


def clean(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """A node's own cleaner on all sealed segments of the log in `folder`."""
    log = _opened(spec["folder"])
    log.high_watermark = log.log_end_offset
    # as on a node, and in Kafka: old segments are removed later
    old: list[Segment] = []
    log.on_retired = lambda _, segments: old.extend(segments)
    plan = cleanable(log, NOW_MS)
    job = Cleaning(log, plan, spec["map_bytes"], LOAD_FACTOR, BUFFER_BYTES, NOW_MS, _FullSpeed())
    clock.ready()
    clock.start()
    job.index()
    while job.rewrite():
        job.install()
        log.delete_retired(job.settle())
    found = clock.stop()
    if job.end_offset != plan.end_offset:
        raise ValueError(
            f"cleaned up to {job.end_offset} of {plan.end_offset}: the keys must fit in one pass"
        )
    for segment in old:
        segment.remove()
    kept_bytes = sum(segment.size_bytes for segment in log.segments.sealed)
    log.close()
    return {**found, "records": spec["count"], "bytes": job.stats.read_bytes, "kept_bytes": kept_bytes}


def codec(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """The ceiling of `clean`: both passes of the codec alone; the result goes to one synced file."""
    codec = active_codec()
    segments = sorted(Path(spec["folder"]).glob("*.log"))[:-1]
    clock.ready()
    clock.start()
    offsets = codec.offset_map(spec["map_bytes"], load_factor=LOAD_FACTOR)
    for batch in _batches(segments):
        if not offsets.add_batch(batch):
            raise ValueError(f"the map holds {len(offsets)} keys: all keys must fit in one pass")
    read = kept = 0
    with (Path(spec["folder"]) / "cleaned").open("wb", buffering=READ_BYTES) as out:
        for batch in _batches(segments):
            cleaned = codec.clean_batch(batch, offsets, now_ms=NOW_MS, delete_retention_ms=0)
            read += len(batch)
            if cleaned.data is not None:
                kept += out.write(cleaned.data)
        out.flush()
        os.fsync(out.fileno())
    return {**clock.stop(), "records": spec["count"], "bytes": read, "kept_bytes": kept}


def _opened(folder: str, **config: int) -> Log:
    return Log.open(
        OsFiles(),
        folder,
        LogConfig(cleanup_policy=("compact",), **config),
        topic_partition=TopicPartition("cleaned", 0),
        recovery_point=0,
        was_clean=True,
        wall_ms=NOW_MS,
    )


def _batches(segments: list[Path]) -> Iterator[Buffer]:
    """Each batch of the files, read in blocks of 1 MiB."""
    buffer = bytearray(READ_BYTES)
    view = memoryview(buffer)
    for path in segments:
        with path.open("rb", buffering=0) as file:
            left = 0
            while size := file.readinto(view[left:]):
                at, end = 0, left + size
                while end - at >= HEADER_BYTES:
                    next_at = at + read_batch_header(view, at).size_bytes
                    if next_at > end:
                        break
                    yield view[at:next_at]
                    at = next_at
                left = end - at
                buffer[:left] = buffer[at:end]
