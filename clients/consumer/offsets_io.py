"""Offsets by time, of any partitions, asked of their leaders; for the consumer and the admin client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import HeadraceError
from ...protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
)
from ...protocol.messages.registry import LIST_OFFSETS
from ..cluster.leaders_io import Question, ask_leaders
from ..records import OffsetAndTimestamp
from .requests import READ_UNCOMMITTED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.model import TopicPartition
    from ..cluster.backoff import Backoff
    from ..cluster.hub_io import Hub


def _found(answer: ListOffsetsPartitionResponse) -> OffsetAndTimestamp:
    return OffsetAndTimestamp(answer.offset, answer.timestamp, answer.leader_epoch)


def _question(isolation: int) -> Question[int, OffsetAndTimestamp]:
    def body(entries: tuple[ListOffsetsPartition, ...], _timeout_ms: int) -> ListOffsetsRequest:
        return ListOffsetsRequest(isolation, entries)

    return Question(LIST_OFFSETS, ListOffsetsPartition, body, _found, failure="no offset in time")


async def list_offsets(
    hub: Hub,
    wanted: Mapping[TopicPartition, int],
    *,
    deadline_ms: int,
    request_timeout_ms: int,
    backoff: Backoff,
    isolation: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, OffsetAndTimestamp | HeadraceError]:
    """For each partition the first offset at or after its timestamp (-1: none), or the error.

    Special timestamps: -2 earliest, -1 latest, -3 the record with the largest one. Retries as `ask_leaders`.
    """
    return await ask_leaders(
        hub,
        _question(isolation),
        wanted,
        deadline_ms=deadline_ms,
        request_timeout_ms=request_timeout_ms,
        backoff=backoff,
    )


def all_found(
    found: Mapping[TopicPartition, OffsetAndTimestamp | HeadraceError],
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The offsets. Errors: the first one that a partition met."""
    good: dict[TopicPartition, OffsetAndTimestamp] = {}
    for tp, value in found.items():
        if isinstance(value, HeadraceError):
            raise value
        good[tp] = value
    return good
