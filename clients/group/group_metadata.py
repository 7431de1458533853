"""The identity of a group member, and a committed offset. Values only."""

from __future__ import annotations

from typing import NamedTuple

from ...protocol.model import NO_EPOCH

NO_GENERATION = -1


class GroupMetadata(NamedTuple):
    """A member as transactions fence it (KIP-447). Under the new protocol `generation_id` is its epoch."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetAndMetadata(NamedTuple):
    """The next offset that the group reads of a partition, with metadata of the user, and the leader epoch of
    the record before (-1 unknown)."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH
