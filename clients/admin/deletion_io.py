"""DeleteRecords, sent to the leaders. Source: Kafka KIP-107, KIP-204."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError
from ...protocol.messages.data import (
    TO_HIGH_WATERMARK,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResponse,
    DeleteRecordsRequest,
)
from ...protocol.messages.registry import DELETE_RECORDS
from ..cluster.leaders_io import LeaderQuery, query_leaders
from .admin_types import LATEST, DeletedRecords, OffsetSpec, Results

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.model import TopicPartition
    from .requester_io import AdminRequester


def _body(entries: tuple[DeleteRecordsPartition, ...], timeout_ms: int) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(timeout_ms, entries)


def _found(answer: DeleteRecordsPartitionResponse) -> DeletedRecords:
    return DeletedRecords(answer.low_watermark)


_DELETION: LeaderQuery[int, DeletedRecords] = LeaderQuery(
    DELETE_RECORDS,
    DeleteRecordsPartition,
    _body,
    _found,
    failure="its records are not known to be deleted on all nodes",
)


async def delete_records(
    requester: AdminRequester, offsets: Mapping[TopicPartition, int | OffsetSpec], *, timeout: float | None
) -> Results[TopicPartition, DeletedRecords]:
    """The new low watermark of each partition, or the error. Errors: ConfigError for other offsets."""
    wanted = {tp: _offset_of(offset) for tp, offset in offsets.items()}
    found = await query_leaders(
        requester.hub,
        _DELETION,
        wanted,
        deadline_ms=requester.call(timeout).deadline_ms,
        request_timeout_ms=requester.config.request_timeout_ms,
        backoff=requester.backoff,
    )
    return Results(found)


def _offset_of(offset: int | OffsetSpec) -> int:
    if offset == LATEST:
        return TO_HIGH_WATERMARK
    if isinstance(offset, OffsetSpec) or offset < TO_HIGH_WATERMARK:
        raise ConfigError(f"records are deleted up to an offset, or all with LATEST, not {offset!r}")
    return offset
