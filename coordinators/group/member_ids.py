"""Member ids for members that send none. Pure: uniqueness needs no randomness here."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import ShardContext


class MemberIds:
    """Member ids that no coordinator has issued before: only one node leads a partition in an epoch, and if
    it loads the partition again in the same epoch, its clock has advanced."""

    def __init__(self, partition: int, context: ShardContext) -> None:
        self._partition = partition
        self._context = context
        self._count = 0

    def new(self, prefix: str, now: Now) -> str:
        """`prefix`-UUID, as in Kafka. Shape of the UUID: epoch, milliseconds, partition and a counter."""
        self._count += 1
        epoch = self._context.epoch & 0xFFFFFFFF
        wall_ms = now.wall_ms & 0xFFFFFFFFFFFF
        bits = epoch << 96 | wall_ms << 48 | (self._partition & 0xFFFF) << 32 | self._count & 0xFFFFFFFF
        return f"{prefix}-{UUID(int=bits)}"
