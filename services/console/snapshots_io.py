"""Reads snapshots of the cluster in the background, one series for each signed-in user."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...clients.admin.admin_types import EARLIEST, LATEST
from ...clients.admin.lag_io import batches_of
from ...protocol.errors import HeadraceError
from ...protocol.model import TopicPartition
from ..web.problems import text_of_error
from .snapshot import MOST_POINTS, Offsets, Point, Snapshot, commit_rate, rates_between

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ...clients.admin.admin_types import TopicDescription
    from ...clients.admin.group_types import GroupListing
    from ...clients.aio.admin_io import AsyncAdmin
    from ..web.client_pool_io import ClientPool
    from ..web.credentials import Credentials

log = logging.getLogger("headrace.console")
T = TypeVar("T")

TOPICS_PER_REQUEST = 50  # few, so that requests of pages are served between them
PARTITIONS_PER_REQUEST = 250
SHORTEST_PERIOD_S, LONGEST_PERIOD_S = 5.0, 30.0
SHARE = 6  # a reading takes at most one part in so many of the time, while that is no longer period
GROUPS_PERIOD_S = 15.0
GROUPS_AT_ONCE = 4  # Bound: concurrent OffsetFetch requests
IDLE_S = 900.0  # readings for a user end after this time without a request
PART_TIMEOUT_S = 8.0
FIRST_TIMEOUT_S = 3.0  # a page must soon say that the cluster does not answer


async def read_snapshot(admin: AsyncAdmin, before: Snapshot | None) -> Snapshot:
    """One reading. Errors: those of the nodes and topics; other parts become `troubles`."""
    began = time.monotonic()
    troubles: dict[str, str] = {}

    async def part(name: str, work: Awaitable[T], default: T) -> T:
        try:
            async with asyncio.timeout(PART_TIMEOUT_S):
                return await work
        except (HeadraceError, TimeoutError) as error:
            troubles[name] = text_of_error(error)
            return default

    cluster = await admin.describe_cluster(include_fenced=True, timeout=FIRST_TIMEOUT_S)
    topics = await _topics(admin)
    led = [
        TopicPartition(name, part.partition)
        for name, topic in topics.items()
        for part in topic.partitions
        if not part.is_unavailable
    ]
    now_ms = _now_ms()
    none: Any = {}
    old_groups = [] if before is None else list(before.groups)
    # at once: with a node down, several of them wait until their time is over
    dirs, offsets, (groups, committed), reassignments, quorum = await asyncio.gather(
        part("log dirs", admin.describe_log_dirs(), None),
        part("offsets", _offsets(admin, led), none),
        _groups(admin, part("groups", admin.list_groups(), old_groups), before, frozenset(led)),
        part("reassignments", admin.list_partition_reassignments(), none),
        part("quorum", admin.describe_metadata_quorum(), None),
    )
    rates = {} if before is None else rates_between(before, offsets, now_ms)
    history = () if before is None else before.history
    if before is not None:
        history = (*history, Point(now_ms, sum(rates.values()), committed.rate))[-MOST_POINTS:]
    for node, error in ({} if dirs is None else dirs.errors).items():
        troubles[f"log dirs of node {node}"] = text_of_error(error)
    found = Snapshot(
        taken_ms=now_ms,
        took_ms=round((time.monotonic() - began) * 1000),
        cluster=cluster,
        topics=topics,
        offsets=offsets,
        quorum=quorum,
        log_dirs={} if dirs is None else {node: dirs[node] for node in dirs if node not in dirs.errors},
        groups=tuple(groups),
        committed=committed.offsets,
        committed_ms=committed.at_ms,
        counts=committed.counts,
        reassignments=reassignments,
        rates=rates,
        history=history,
        troubles=troubles,
    )
    for name in ("partitions", "topic_rows", "node_rows", "group_rows", "offline", "under_replicated"):
        getattr(found, name)  # made here, in steps, and not by the first page
        await asyncio.sleep(0)
    return found


async def _topics(admin: AsyncAdmin) -> dict[str, TopicDescription]:
    names = [topic.name for topic in await admin.list_topics(internal=True)]
    found: dict[str, TopicDescription] = {}
    for start in range(0, len(names), TOPICS_PER_REQUEST):
        results = await admin.describe_topics(*names[start : start + TOPICS_PER_REQUEST])
        found |= {name: results[name] for name in results if name not in results.errors}
    return found


async def _offsets(admin: AsyncAdmin, places: list[TopicPartition]) -> dict[TopicPartition, Offsets]:
    """Start and end offsets of partitions."""
    found: dict[TopicPartition, Offsets] = {}
    for start in range(0, len(places), PARTITIONS_PER_REQUEST):
        piece = places[start : start + PARTITIONS_PER_REQUEST]
        starts = await admin.list_offsets(dict.fromkeys(piece, EARLIEST))
        ends = await admin.list_offsets(dict.fromkeys(piece, LATEST))
        bad = starts.errors.keys() | ends.errors.keys()
        found |= {tp: Offsets(starts[tp].offset, ends[tp].offset) for tp in piece if tp not in bad}
    return found


class _Committed(NamedTuple):
    """Committed offsets by group, their time, the records per second by which they have moved, and the
    records from each offset on."""

    offsets: Mapping[str, Mapping[TopicPartition, int]]
    at_ms: int
    rate: float | None
    counts: Mapping[TopicPartition, Mapping[int, int]]


async def _groups(
    admin: AsyncAdmin,
    listing: Awaitable[list[GroupListing]],
    before: Snapshot | None,
    led: frozenset[TopicPartition],
) -> tuple[list[GroupListing], _Committed]:
    """The groups, their offsets and lags: those are read again after `GROUPS_PERIOD_S`. Offsets that are not
    read in time are those of the last reading; lags that are not counted in time are unknown."""
    groups, now_ms = await listing, _now_ms()
    if before is not None and now_ms - before.committed_ms < GROUPS_PERIOD_S * 1000:
        last = before.history[-1].committed if before.history else None
        return groups, _Committed(before.committed, before.committed_ms, last, before.counts)
    found: dict[str, dict[TopicPartition, int]] = {}
    waiting = iter([group.group_id for group in groups])

    async def read() -> None:
        for group_id in waiting:
            with contextlib.suppress(HeadraceError):  # deleted meanwhile, or not for this user: without lag
                offsets = await admin.list_group_offsets(group_id)
                found[group_id] = {tp: each.offset for tp, each in offsets.items() if each is not None}

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PART_TIMEOUT_S):
            await asyncio.gather(*(read() for _ in range(GROUPS_AT_ONCE)))
    old = {} if before is None else before.committed
    kept = {each.group_id: old[each.group_id] for each in groups if each.group_id in old}
    rate = None if before is None else commit_rate(old, found, now_ms - before.committed_ms)
    offsets = {**kept, **found}
    return groups, _Committed(offsets, now_ms, rate, await _counts(admin, offsets, led))


async def _counts(
    admin: AsyncAdmin,
    committed: Mapping[str, Mapping[TopicPartition, int]],
    led: frozenset[TopicPartition],
) -> dict[TopicPartition, dict[int, int]]:
    """The records from each committed offset on in partitions with a leader, for readers with
    read_committed."""
    wanted: dict[TopicPartition, set[int]] = {}
    for offsets in committed.values():
        for tp, offset in offsets.items():
            if tp in led:
                wanted.setdefault(tp, set()).add(offset)
    found: dict[TopicPartition, dict[int, int]] = {}
    with contextlib.suppress(HeadraceError, TimeoutError):
        async with asyncio.timeout(PART_TIMEOUT_S):
            for piece in batches_of(wanted):  # one after the other: requests of pages are served between
                counted = await admin.count_records(piece)
                for tp in [tp for tp in piece if tp not in counted.errors]:
                    records = found.setdefault(tp, {})
                    records.update((at, lag.records or 0) for at, lag in counted[tp].items())
    return found


class Snapshots:
    """The latest snapshot of each user; readings go on while the user sends requests."""

    def __init__(self, pool: ClientPool) -> None:
        self._pool = pool
        self._series: dict[Credentials, _Series] = {}

    async def latest(self, credentials: Credentials, *, fresh: bool = False) -> Snapshot:
        """The latest snapshot; waits for the first one, or (`fresh`) for one that begins now. Errors: those
        of the reading."""
        series = self._series.get(credentials)
        if series is None or series.has_ended:
            series = _Series(lambda before: self._read(credentials, before))
            self._series[credentials] = series
            for other in [each for each, old in self._series.items() if old.has_ended]:
                del self._series[other]
        return await series.latest(fresh=fresh)

    def changed(self, credentials: Credentials) -> None:
        """Read again soon: the user has changed something."""
        series = self._series.get(credentials)
        if series is not None:
            series.changed()

    async def close(self) -> None:
        """Stop all readings."""
        for series in self._series.values():
            series.stop()
        await asyncio.gather(*(each.ended() for each in self._series.values()))

    async def _read(self, credentials: Credentials, before: Snapshot | None) -> Snapshot:
        async with self._pool.use(credentials) as clients:
            return await read_snapshot(clients.admin, before)


class _Series:
    """The readings for one user."""

    def __init__(self, read: Callable[[Snapshot | None], Awaitable[Snapshot]]) -> None:
        self._read = read
        self._snapshot: Snapshot | None = None
        self._error: BaseException | None = None
        self._wanted_at = time.monotonic()
        self._begun = self._done = 0  # numbers of readings
        self._progress = asyncio.Condition()
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def has_ended(self) -> bool:
        return self._task.done()

    async def latest(self, *, fresh: bool) -> Snapshot:
        self._wanted_at = time.monotonic()
        needed = self._begun + 1 if fresh else 1
        if fresh or self._error is not None:
            # after a failure each request reads again: the page of a cluster that is back must not wait
            needed = self._begun + 1
            self._wake.set()
        async with self._progress:
            await self._progress.wait_for(lambda: self._done >= needed or self._task.done())
        if self._error is not None:
            raise self._error
        assert self._snapshot is not None
        return self._snapshot

    def changed(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._task.cancel()

    async def ended(self) -> None:
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while time.monotonic() - self._wanted_at < IDLE_S:
            self._begun += 1
            self._wake.clear()
            began = time.monotonic()
            try:
                self._snapshot, self._error = await self._read(self._snapshot), None
            except Exception as error:
                self._error = error
                if not isinstance(error, HeadraceError):
                    log.debug("a reading of the cluster for the console failed", exc_info=error)
            async with self._progress:
                self._done += 1
                self._progress.notify_all()
            is_whole = self._error is None and self._snapshot is not None and not self._snapshot.troubles
            took_s = time.monotonic() - began if is_whole else 0.0  # waiting for a node is no load
            period_s = min(max(SHORTEST_PERIOD_S, SHARE * took_s), LONGEST_PERIOD_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(period_s):
                    await self._wake.wait()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
