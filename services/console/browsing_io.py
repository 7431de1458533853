"""Reads records for pages: bounded in records, bytes and time; and the live tail of a topic."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...clients.admin.admin_types import EARLIEST, LATEST
from ...protocol.errors import UnknownTopicOrPartitionError
from ...protocol.model import TopicPartition
from .search import Matcher, RecordRow, newest_starts, size_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from ...clients.aio.consumer_io import AsyncConsumer
    from ...clients.records import Record
    from ..web.client_pool_io import UserClients
    from .search import Search

MOST_SCANNED = 100_000  # Bound: records of one page
MOST_SCANNED_NEWEST = 20_000
MOST_BYTES = 32 << 20  # Bound: bytes of the records of one page
LONGEST_S = 8.0
POLL_S = 1.0
TAIL_ROWS_PER_S = 100  # rows beyond are counted, not sent
TAIL_HEARTBEAT_S = 10.0
FETCH = {"fetch_max_bytes": 8 << 20, "max_partition_fetch_bytes": 1 << 20, "fetch_max_wait_ms": 250}


@dataclass(frozen=True, slots=True)
class Page:
    """The records of a page. `cursor` continues the search, None at the end. `stopped`: the bound that ended
    the page before it was full."""

    rows: tuple[RecordRow, ...]
    scanned: int
    cursor: Mapping[int, int] | None
    stopped: str = ""
    took_ms: int = 0


async def partitions_of(clients: UserClients, search: Search) -> list[TopicPartition]:
    """The partitions of the search. Errors: UnknownTopicOrPartitionError."""
    topic = (await clients.admin.describe_topics(search.topic))[search.topic]
    found = [TopicPartition(topic.name, part.partition) for part in topic.partitions]
    if search.partition is None:
        return found
    if search.partition >= len(found):
        raise UnknownTopicOrPartitionError(
            f"topic {search.topic!r} has {len(found)} partitions, so none with number {search.partition}"
        )
    return [found[search.partition]]


async def read_page(clients: UserClients, search: Search) -> Page:
    """The records of a search. Errors: those of the clients."""
    began = time.monotonic()
    places = await partitions_of(clients, search)
    bounds = await _bounds(clients, places)
    if search.start == "newest":
        page = await _newest(clients, search, bounds)
    else:
        page = await _forward(clients, search, bounds)
    return Page(page.rows, page.scanned, page.cursor, page.stopped, round((time.monotonic() - began) * 1000))


async def _bounds(
    clients: UserClients, places: list[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    starts = await clients.admin.list_offsets(dict.fromkeys(places, EARLIEST))
    ends = await clients.admin.list_offsets(dict.fromkeys(places, LATEST))
    if places and len(starts.errors) == len(places):
        raise next(iter(starts.errors.values()))
    bad = starts.errors.keys() | ends.errors.keys()
    return {tp: (starts[tp].offset, ends[tp].offset) for tp in places if tp not in bad}


async def _forward(
    clients: UserClients, search: Search, bounds: Mapping[TopicPartition, tuple[int, int]]
) -> Page:
    ranges = {tp: (start, end) for tp, (start, end) in bounds.items()}
    if search.cursor:
        ranges = {
            tp: (max(search.cursor.get(tp.partition, end), start), end) for tp, (start, end) in bounds.items()
        }
    elif search.start == "offset":
        ranges = {tp: (min(max(search.offset, start), end), end) for tp, (start, end) in bounds.items()}
    elif search.start == "time":
        by_time = await clients.admin.list_offsets(dict.fromkeys(bounds, search.time_ms))
        for tp, (_, end) in bounds.items():
            found = -1 if tp in by_time.errors else by_time[tp].offset
            ranges[tp] = (end if found < 0 else found, end)
    scan = _Scan(search, ranges, search.limit, MOST_SCANNED)
    await scan.run(clients)
    rows = sorted(scan.rows, key=lambda row: (row.timestamp, row.partition, row.offset))
    left = {tp.partition: at for tp, at in scan.positions.items() if at < ranges[tp][1]}
    ends = {tp.partition: end for tp, (_, end) in ranges.items()}
    cursor = {**ends, **left} if left else None
    return Page(tuple(rows), scan.scanned, cursor, scan.stopped)


async def _newest(
    clients: UserClients, search: Search, bounds: Mapping[TopicPartition, tuple[int, int]]
) -> Page:
    """The newest records before the cursor, newest first. With a filter it steps back, in growing ranges,
    until the page is full or a bound is reached."""
    deadline = time.monotonic() + LONGEST_S
    ends = {tp.partition: min(search.cursor.get(tp.partition, end), end) for tp, (_, end) in bounds.items()}
    rows, scanned, size, step = list[RecordRow](), 0, 0, search.limit
    while True:
        ranges = newest_starts(bounds, ends, step)
        scan = _Scan(search, ranges, MOST_SCANNED, MOST_SCANNED, deadline, MOST_BYTES - size)
        await scan.run(clients)
        stopped = scan.stopped
        if stopped and not rows and step > 1:
            # the records are large: a smaller range, of which all are read
            step, deadline = max(1, scan.scanned // (2 * len(ranges))), time.monotonic() + LONGEST_S
            continue
        # a range that was not read to its end has only its oldest records: it is read again by the next page
        whole = {tp.partition for tp in ranges} - {tp.partition for tp in scan.unread}
        rows += [row for row in scan.rows if row.partition in whole]
        ends |= {tp.partition: first for tp, (first, _) in ranges.items() if tp.partition in whole}
        scanned, size = scanned + scan.scanned, size + scan.bytes
        has_more = any(ends[tp.partition] > start for tp, (start, _) in bounds.items())
        if stopped or not has_more or len(rows) >= search.limit:
            break
        if scanned >= MOST_SCANNED_NEWEST:
            stopped = f"{scanned:,} records were searched"
            break
        step = min(step * 4, MOST_SCANNED_NEWEST)
    rows.sort(key=lambda row: (row.timestamp, row.partition, row.offset), reverse=True)
    kept = rows[: search.limit]
    if len(rows) > len(kept):
        has_more, ends = True, _ends_below(kept, rows, ends)
    return Page(tuple(kept), scanned, ends if has_more else None, stopped)


def _ends_below(kept: list[RecordRow], rows: list[RecordRow], ends: Mapping[int, int]) -> dict[int, int]:
    """Where the next page of each partition ends: above its newest row that is not shown."""
    found = dict(ends)
    for row in rows[len(kept) :]:
        found[row.partition] = max(found.get(row.partition, 0), row.offset + 1)
    return found


class _Scan:
    """Reads ranges of offsets, until enough records match or a bound is reached."""

    def __init__(
        self,
        search: Search,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        most_rows: int,
        most_scanned: int,
        deadline: float | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._matcher, self._search = Matcher(search), search
        self._ends = {tp: end for tp, (first, end) in ranges.items() if first < end}
        self.positions = {tp: first for tp, (first, _) in ranges.items()}
        self._most_rows, self._most_scanned, self._most_bytes = most_rows, most_scanned, most_bytes
        self._deadline = time.monotonic() + LONGEST_S if deadline is None else deadline
        self.rows: list[RecordRow] = []
        self.scanned = self.bytes = 0
        self.stopped = ""

    @property
    def unread(self) -> list[TopicPartition]:
        """The partitions whose range was not read to its end."""
        return list(self._ends)

    async def run(self, clients: UserClients) -> None:
        if not self._ends:
            return
        consumer = consumer_of(clients, self._search)
        try:
            await consumer.assign(*self._ends)
            for tp in self._ends:
                await consumer.seek(tp, self.positions[tp])
            await self._read(consumer)
        finally:
            await consumer.close(1.0)

    async def _read(self, consumer: AsyncConsumer[bytes, bytes]) -> None:
        while self._ends:
            records = await consumer.poll(min(POLL_S, max(self._deadline - time.monotonic(), 0.01)), 500)
            for record in records:
                if not self._take(record):
                    return
            await self._skip_invisible(consumer)
            if self._ends and time.monotonic() >= self._deadline:
                self.stopped = f"the search took {LONGEST_S:.0f} s"
                return
            await asyncio.sleep(0)  # other requests are served between batches

    def _take(self, record: Record[bytes, bytes]) -> bool:
        """False once a bound is reached."""
        tp = TopicPartition(record.topic, record.partition)
        end = self._ends.get(tp)
        if end is None:
            return True
        if record.offset >= end:
            self.positions[tp] = end
            del self._ends[tp]
            return True
        self.positions[tp] = record.offset + 1
        self.scanned += 1
        self.bytes += max(size_of(record.key), 0) + max(size_of(record.value), 0)
        row = self._matcher.row(record)
        if row is not None:
            self.rows.append(row)
        if self.positions[tp] >= end:
            del self._ends[tp]
        if len(self.rows) >= self._most_rows:
            return False
        if self._ends and self.scanned >= self._most_scanned:
            self.stopped = f"{self.scanned:,} records were searched"
        elif self._ends and self.bytes >= self._most_bytes:
            self.stopped = f"{self.bytes / (1 << 20):.0f} MB were read"
        return not self.stopped

    async def _skip_invisible(self, consumer: AsyncConsumer[bytes, bytes]) -> None:
        """Offsets at the end of a range may have no visible record: markers of transactions, compacted
        ones."""
        for tp, end in list(self._ends.items()):
            position = await consumer.position(tp)
            if position > self.positions[tp] and position >= end:
                self.positions[tp] = end
                del self._ends[tp]


def consumer_of(clients: UserClients, search: Search) -> AsyncConsumer[bytes, bytes]:
    """A consumer for one search."""
    options: Any = {
        **FETCH,
        "isolation_level": "read_committed" if search.is_committed else "read_uncommitted",
    }
    return clients.cluster.consumer(enable_auto_commit=False, auto_offset_reset="earliest", **options)


async def read_record(clients: UserClients, tp: TopicPartition, offset: int) -> Record[bytes, bytes] | None:
    """One record; None if the partition has none at the offset."""
    options: Any = {**FETCH, "max_partition_fetch_bytes": 1}
    consumer = clients.cluster.consumer(enable_auto_commit=False, auto_offset_reset="earliest", **options)
    try:
        ends = await clients.admin.list_offsets({tp: LATEST})
        if offset >= ends[tp].offset:
            return None
        await consumer.assign(tp)
        await consumer.seek(tp, offset)
        deadline = time.monotonic() + LONGEST_S
        while time.monotonic() < deadline:
            for record in await consumer.poll(POLL_S, 1):
                return record if record.offset == offset else None
            if await consumer.position(tp) > offset:
                return None
        return None
    finally:
        await consumer.close(1.0)


@dataclass(frozen=True, slots=True)
class TailStep:
    """The next rows of a live tail; `left_out` records matched beyond the rate of rows."""

    rows: tuple[RecordRow, ...]
    left_out: int


async def tail(clients: UserClients, search: Search) -> AsyncIterator[TailStep]:
    """Records as they are appended, from now on; an empty step at least every `TAIL_HEARTBEAT_S`."""
    places = await partitions_of(clients, search)
    matcher, consumer = Matcher(search), consumer_of(clients, search)
    try:
        await consumer.assign(*places)
        ends = await clients.admin.list_offsets(dict.fromkeys(places, LATEST))
        for tp in places:
            await consumer.seek(tp, ends[tp].offset)
        yield TailStep((), 0)
        budget, filled_at = float(TAIL_ROWS_PER_S), time.monotonic()
        while True:
            records = await consumer.poll(TAIL_HEARTBEAT_S, 500)
            if not records and await partitions_of(clients, search) != places:
                return  # the browser connects again, to all partitions
            now = time.monotonic()
            budget = min(TAIL_ROWS_PER_S, budget + (now - filled_at) * TAIL_ROWS_PER_S)
            filled_at = now
            rows = [row for row in map(matcher.row, records) if row is not None]
            kept = rows[: int(budget)]
            budget -= len(kept)
            yield TailStep(tuple(kept), len(rows) - len(kept))
    finally:
        await consumer.close(1.0)
