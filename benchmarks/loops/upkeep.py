"""Work for the cleaner and for retention, and what they did with it.

One client writes to a compacted topic with few keys, and to one that always exceeds its retention.bytes. The
result is visible in their folders, alike in both systems: the file of a cleaned or deleted segment is gone.
"""

from __future__ import annotations

import os
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.services.bench.pacing import Schedule
from headrace.services.bench.pacing_io import due_ranges, now_ns, reduce_timer_slack

from .. import payload
from ..machine_io import read_from_disk
from . import clients

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..worker import Clock

FLUSH_S = 60
RETAINED_BYTES = 8_000  # of each value in the topic with retention
SCANS_PER_S = 20  # files of old segments last longer: see file.delete.delay.ms in `cells/upkeep.py`


class RemovedSegments:
    """Counts segments that were removed from a partition's folder, and their `size_bytes`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sizes: dict[int, int] = {}  # by inode: a cleaned segment takes the name of an old one
        self.reset()

    def reset(self) -> None:
        """Count from now on."""
        self.count = self.size_bytes = 0

    def scan(self) -> None:
        """Compare the folder with the last scan."""
        sizes = {}
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.endswith(".log"):
                    sizes[entry.inode()] = _size_of(entry)
        for inode in self._sizes.keys() - sizes.keys():
            self.count += 1
            self.size_bytes += self._sizes[inode]
        self._sizes = sizes


def _size_of(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except FileNotFoundError:  # removed since the scan
        return 0


def upkeep(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Fill both topics, then write for `warm_s` + `seconds`; the report is about the latter part.

    `cleaned_bytes` of segments that the cleaner replaced, `deleted_segments` and their `deleted_bytes`, and
    `disk_bytes` that the servers read from the disk.
    """
    reduce_timer_slack()
    keys = [b"key-%010d" % number for number in range(spec["keys"])]
    value, large = payload.pool(spec["size"])[0], payload.pool(RETAINED_BYTES)[0]
    post, flush = _poster(spec)
    for key in keys:
        post(spec["compacted"], value, key)
    for _ in range(spec["filling"]):
        post(spec["retained"], large, None)
    flush()
    compacted, retained = (
        RemovedSegments(Path(spec["folder"]) / f"{spec[name]}-0") for name in ("compacted", "retained")
    )
    clock.ready()
    schedule = Schedule(spec["rate"], now_ns())
    warm, scan_every = int(spec["rate"] * spec["warm_s"]), max(spec["rate"] // SCANS_PER_S, 1)
    count = warm + int(spec["rate"] * spec["seconds"])
    next_keys, disk_bytes = cycle(keys), 0
    clock.start()
    for first, end in due_ranges(schedule, count):
        for number, key in zip(range(first, end), islice(next_keys, end - first), strict=True):
            post(spec["compacted"], value, key)
            post(spec["retained"], large, None)
            if number % scan_every == 0 or number in (warm, count - 1):
                compacted.scan()
                retained.scan()
            if number == warm:
                compacted.reset()
                retained.reset()
                disk_bytes = _disk_bytes(spec)
    disk_bytes = _disk_bytes(spec) - disk_bytes
    found = clock.stop()
    flush()
    return {
        **found,
        "cleaned_bytes": compacted.size_bytes,
        "deleted_segments": retained.count,
        "deleted_bytes": retained.size_bytes,
        "disk_bytes": disk_bytes,
    }


def _disk_bytes(spec: dict[str, Any]) -> int:
    """Read from the disk by the servers so far."""
    return sum(read_from_disk(pid) for pid in spec["server_pids"])


def _poster(spec: dict[str, Any]) -> tuple[Callable[[str, bytes, bytes | None], None], Callable[[], object]]:
    """(send a value with a key, wait for all)."""
    if spec["system"] == "kafka":
        producer = clients.kafka_producer(spec)

        def post(topic: str, value: bytes, key: bytes | None) -> None:
            producer.produce(topic, value, key)
            producer.poll(0)

        return post, partial(producer.flush, FLUSH_S)
    ours = clients.headrace_producer(spec)

    def post_ours(topic: str, value: bytes, key: bytes | None) -> None:
        ours.send(topic, value, key=key)

    return post_ours, partial(ours.flush, FLUSH_S)
