"""The lag part of the admin client: committed offsets from the coordinators, exact counts from the leaders.

Groups of all types that commit offsets are alike here: classic, consumer and streams groups. A share group
commits none: its position is its share-partition start offset, for which `_positions` would ask.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ConfigError, HeadraceError
from ...protocol.messages.lag import (
    MAX_COUNTED_OFFSETS,
    CountRecordsPartition,
    CountRecordsPartitionResponse,
    CountRecordsRequest,
    CountRecordsResponse,
)
from ...protocol.messages.registry import COUNT_RECORDS
from ...protocol.model import ISOLATION_LEVELS
from ...protocol.records.settings import INT64_MAX
from ..cluster.leaders_io import LeaderQuery, query_leaders
from .admin_types import Results
from .lag_types import ConsumerGroupLag, ConsumerLag

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ...protocol.model import TopicPartition
    from .group_types import GroupDescription
    from .groups_io import GroupEngine
    from .requester_io import AdminRequester, Call

BEYOND = INT64_MAX  # at the end of every log there is nothing to count, and the response has the end
MAX_AT_ONCE = 4  # Bound: batches of counts at the same time; a leader counts on one thread


class Counted(NamedTuple):
    """A part of a response, with the clock of its leader."""

    error_code: int
    error_detail: str
    part: CountRecordsPartitionResponse
    wall_ms: int


class LagEngine:
    """Runs on the loop of the client. Timeouts are in seconds; None takes default.api.timeout.ms."""

    def __init__(self, requester: AdminRequester, groups: GroupEngine) -> None:
        self._requester = requester
        self._groups = groups

    async def lag(
        self,
        group_ids: Sequence[str],
        topics: Collection[str] | None,
        *,
        isolation: str,
        timeout: float | None,
    ) -> Results[str, ConsumerGroupLag]:
        """The lag of each group, of all without `group_ids`, or the error. A group that was listed and is
        deleted meanwhile is left out. Errors: ConfigError."""
        level = level_of(isolation)
        call = self._requester.call(timeout)
        names = list(dict.fromkeys(group_ids))
        if not group_ids:
            names = [each.group_id for each in await self._groups.find((), (), timeout=timeout)]
        described = await self._groups.describe(names, timeout=self._left_s(call))
        found: dict[str, ConsumerGroupLag | BaseException] = dict(described.errors)
        groups = {name: described[name] for name in names if name not in found}
        places = await self._positions(groups, topics, call)
        wanted: dict[TopicPartition, set[int]] = {}
        for committed in places.values():
            if not isinstance(committed, BaseException):
                for tp, offset in committed.items():
                    wanted.setdefault(tp, set()).add(BEYOND if offset is None else offset)
        lags = await self._counted(wanted, level, call)
        for name, group in groups.items():
            committed = places[name]
            if isinstance(committed, BaseException):
                found[name] = committed
            else:
                found[name] = _group_lag(group, committed, lags)
        return Results({name: found[name] for name in names})

    async def count(
        self,
        offsets: Mapping[TopicPartition, Iterable[int]],
        *,
        isolation: str,
        timeout: float | None,
    ) -> Results[TopicPartition, dict[int, ConsumerLag]]:
        """The lag of readers at these offsets of each partition, by offset, or the error. Errors:
        ConfigError."""
        level = level_of(isolation)
        wanted = {tp: sorted(set(some)) for tp, some in offsets.items()}
        lags = await self._counted(wanted, level, self._requester.call(timeout))
        found: dict[TopicPartition, dict[int, ConsumerLag] | BaseException] = {}
        for tp, some in wanted.items():
            counted = {offset: lags[tp, offset] for offset in some}
            failed = next((lag.error for lag in counted.values() if lag.error is not None), None)
            found[tp] = counted if failed is None else failed
        return Results(found)

    async def _positions(
        self, groups: Mapping[str, GroupDescription], topics: Collection[str] | None, call: Call
    ) -> dict[str, dict[TopicPartition, int | None] | BaseException]:
        """The committed offset of each partition, None for an assigned one without, or the error."""
        fetched = await self._groups.committed(list(groups), timeout=self._left_s(call))
        found: dict[str, dict[TopicPartition, int | None] | BaseException] = dict(fetched.errors)
        for name, group in groups.items():
            if name in found:
                continue
            assigned = {tp: None for member in group.members for tp in member.assignment}
            held = {tp: None if at is None else at.offset for tp, at in fetched[name].items()}
            found[name] = {
                tp: offset
                for tp, offset in sorted((assigned | held).items())
                if topics is None or tp.topic in topics
            }
        return found

    async def _counted(
        self, wanted: Mapping[TopicPartition, Iterable[int]], level: int, call: Call
    ) -> dict[tuple[TopicPartition, int], ConsumerLag]:
        """The lag of each partition at each of its offsets."""
        room = asyncio.Semaphore(MAX_AT_ONCE)
        found: dict[tuple[TopicPartition, int], ConsumerLag] = {}

        async def one(batch: dict[TopicPartition, tuple[int, ...]]) -> None:
            async with room:
                for tp, answer in (await self._ask(batch, level, call)).items():
                    found.update(
                        zip(((tp, offset) for offset in batch[tp]), _lags(batch[tp], answer), strict=True)
                    )

        await asyncio.gather(*map(one, batches_of(wanted)))
        return found

    async def _ask(
        self, batch: Mapping[TopicPartition, tuple[int, ...]], level: int, call: Call
    ) -> dict[TopicPartition, Counted | HeadraceError]:
        requester = self._requester
        return await query_leaders(
            requester.hub,
            LeaderQuery(
                COUNT_RECORDS,
                CountRecordsPartition,
                lambda entries, _timeout_ms: CountRecordsRequest(entries, level),
                lambda counted: counted,
                failure="no count of its records in time",
                answers=_parts,
            ),
            batch,
            deadline_ms=call.deadline_ms,
            request_timeout_ms=requester.config.request_timeout_ms,
            backoff=requester.backoff,
        )

    def _left_s(self, call: Call) -> float:
        return max(call.deadline_ms - self._requester.hub.now_ms(), 1) / 1000


def level_of(isolation: str) -> int:
    """The number of an isolation level. Errors: ConfigError."""
    if isolation not in ISOLATION_LEVELS:
        raise ConfigError(f"isolation is one of {', '.join(ISOLATION_LEVELS)}, not {isolation!r}")
    return ISOLATION_LEVELS.index(isolation)


def batches_of(
    wanted: Mapping[TopicPartition, Iterable[int]],
) -> Iterator[dict[TopicPartition, tuple[int, ...]]]:
    """In batches of at most MAX_COUNTED_OFFSETS offsets; a partition with more is in several."""
    batch: dict[TopicPartition, tuple[int, ...]] = {}
    room = MAX_COUNTED_OFFSETS
    for tp, some in wanted.items():
        left = sorted(some)
        while left:
            batch[tp], left = tuple(left[:room]), left[room:]
            room -= len(batch[tp])
            if not room:
                yield batch
                batch, room = {}, MAX_COUNTED_OFFSETS
    if batch:
        yield batch


def _parts(response: CountRecordsResponse) -> list[Counted]:
    return [
        Counted(each.error_code, each.error_detail, each, response.wall_ms) for each in response.partitions
    ]


def _lags(offsets: Sequence[int], answer: Counted | HeadraceError) -> Iterator[ConsumerLag]:
    if isinstance(answer, HeadraceError):
        yield from (ConsumerLag(offset, error=answer) for offset in offsets)
        return
    part = answer.part
    for offset, count in zip(offsets, part.counts, strict=True):
        seconds = None if count.records else 0.0
        if count.records and count.first_timestamp >= 0:
            seconds = max(answer.wall_ms - count.first_timestamp, 0) / 1000
        yield ConsumerLag(offset, part.log_start_offset, part.end_offset, count.records, seconds)


def _group_lag(
    group: GroupDescription,
    committed: Mapping[TopicPartition, int | None],
    lags: Mapping[tuple[TopicPartition, int], ConsumerLag],
) -> ConsumerGroupLag:
    owners: dict[TopicPartition, Any] = {tp: member for member in group.members for tp in member.assignment}
    return ConsumerGroupLag(
        group,
        {
            tp: replace(
                _uncommitted(lags[tp, BEYOND]) if offset is None else lags[tp, offset], member=owners.get(tp)
            )
            for tp, offset in committed.items()
        },
    )


def _uncommitted(lag: ConsumerLag) -> ConsumerLag:
    return replace(lag, committed=None, records=None, seconds=None)
