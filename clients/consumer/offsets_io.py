"""ListOffsets requests to the leaders of any partitions, for the consumer and the admin client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import HeadraceError
from ...protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
)
from ...protocol.messages.registry import LIST_OFFSETS
from ...protocol.model import READ_UNCOMMITTED
from ..cluster.leaders_io import LeaderQuery, query_leaders
from ..records import OffsetAndTimestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.model import TopicPartition
    from ..cluster.backoff import Backoff
    from ..cluster.hub_io import Hub


def _offset_of(response: ListOffsetsPartitionResponse) -> OffsetAndTimestamp:
    return OffsetAndTimestamp(response.offset, response.timestamp, response.leader_epoch)


def _question(isolation: int) -> LeaderQuery[int, OffsetAndTimestamp]:
    def body(entries: tuple[ListOffsetsPartition, ...], _timeout_ms: int) -> ListOffsetsRequest:
        return ListOffsetsRequest(isolation, entries)

    return LeaderQuery(LIST_OFFSETS, ListOffsetsPartition, body, _offset_of, failure="no offset in time")


async def list_offsets(
    hub: Hub,
    timestamps: Mapping[TopicPartition, int],
    *,
    deadline_ms: int,
    request_timeout_ms: int,
    backoff: Backoff,
    isolation: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, OffsetAndTimestamp | HeadraceError]:
    """For each partition the first offset at or after its timestamp (-1: none), or the error.

    Special timestamps: -2 earliest, -1 latest, -3 the record with the largest one. Retries as
    `query_leaders`.
    """
    return await query_leaders(
        hub,
        _question(isolation),
        timestamps,
        deadline_ms=deadline_ms,
        request_timeout_ms=request_timeout_ms,
        backoff=backoff,
    )


def offsets_or_raise(
    results: Mapping[TopicPartition, OffsetAndTimestamp | HeadraceError],
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The offsets. Errors: the first error among the results."""
    offsets: dict[TopicPartition, OffsetAndTimestamp] = {}
    for tp, result in results.items():
        if isinstance(result, HeadraceError):
            raise result
        offsets[tp] = result
    return offsets
