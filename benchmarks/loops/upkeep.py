"""Work for the cleaner and for retention, and a look at what they did with it.

One client writes one topic under a few keys, which the cleaner so never leaves alone, and one that grows past
its retention.bytes all the time. What became of them stands in their folders, alike in both systems: a
segment that was cleaned or deleted is a file that is there no more.
"""

from __future__ import annotations

import os
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.services.bench.pacing import Schedule
from headrace.services.bench.pacing_io import due_ranges, now_ns, sharpen_timer

from .. import payload
from ..machine_io import read_from_disk
from . import clients

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..worker import Clock

FLUSH_S = 60
RETAINED_BYTES = 8_000  # of each value that retention is to let go
LOOKS_PER_S = 20  # the old files stay for longer: see file.delete.delay.ms in `upkeep_io.py`


class Segments:
    """What became of the segments in a partition's folder: `gone` and the `gone_bytes` that they had."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sizes: dict[int, int] = {}  # by inode: a cleaned segment takes the name of an old one
        self.forget()

    def forget(self) -> None:
        """Count from here on."""
        self.gone = self.gone_bytes = 0

    def look(self) -> None:
        """Compare with the look before."""
        sizes = {}
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.endswith(".log"):
                    sizes[entry.inode()] = size_of(entry)
        for inode in self._sizes.keys() - sizes.keys():
            self.gone += 1
            self.gone_bytes += self._sizes[inode]
        self._sizes = sizes


def size_of(entry: os.DirEntry[str]) -> int:
    """0 when it is gone by now."""
    try:
        return entry.stat().st_size
    except FileNotFoundError:
        return 0


def upkeep(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Fill both topics, then go on for `warm_s` + `seconds`; the report is of the latter part.

    `cleaned_bytes` of segments that were replaced, `deleted_segments` and their `deleted_bytes`, and
    `disk_bytes`, which the servers read from the disk.
    """
    sharpen_timer()
    keys = [b"key-%010d" % number for number in range(spec["keys"])]
    value, large = payload.pool(spec["size"])[0], payload.pool(RETAINED_BYTES)[0]
    post, flush = _poster(spec)
    for key in keys:
        post(spec["compacted"], value, key)
    for _ in range(spec["filling"]):
        post(spec["retained"], large, None)
    flush()
    compacted, retained = (
        Segments(Path(spec["folder"]) / f"{spec[name]}-0") for name in ("compacted", "retained")
    )
    clock.ready()
    schedule = Schedule(spec["rate"], now_ns())
    warm, looks = int(spec["rate"] * spec["warm_s"]), max(spec["rate"] // LOOKS_PER_S, 1)
    count = warm + int(spec["rate"] * spec["seconds"])
    next_keys, disk_bytes = cycle(keys), 0
    clock.start()
    for first, end in due_ranges(schedule, count):
        for number, key in zip(range(first, end), islice(next_keys, end - first), strict=True):
            post(spec["compacted"], value, key)
            post(spec["retained"], large, None)
            if number % looks == 0 or number in (warm, count - 1):
                compacted.look()
                retained.look()
            if number == warm:
                compacted.forget()
                retained.forget()
                disk_bytes = _disk_bytes(spec)
    disk_bytes = _disk_bytes(spec) - disk_bytes
    found = clock.stop()
    flush()
    return {
        **found,
        "cleaned_bytes": compacted.gone_bytes,
        "deleted_segments": retained.gone,
        "deleted_bytes": retained.gone_bytes,
        "disk_bytes": disk_bytes,
    }


def _disk_bytes(spec: dict[str, Any]) -> int:
    """What the servers had the disk read so far."""
    return sum(read_from_disk(pid) for pid in spec["server_pids"])


def _poster(spec: dict[str, Any]) -> tuple[Callable[[str, bytes, bytes | None], None], Callable[[], object]]:
    """(send a value under a key, wait for all)."""
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
