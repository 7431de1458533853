"""Who a consumer is in its group, and what it commits there. Values only."""

from __future__ import annotations

from typing import NamedTuple

from ...protocol.model import NO_EPOCH

NO_GENERATION = -1


class GroupMetadata(NamedTuple):
    """A member, as transactions name it (KIP-447). Under the new protocol `generation_id` is its epoch."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetAndMetadata(NamedTuple):
    """The next offset that the group reads of a partition, with a note, and the leader epoch of the record
    before (-1 unknown)."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH
