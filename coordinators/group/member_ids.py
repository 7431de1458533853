"""Ids for members that bring none. Pure: no randomness is needed where nobody else can make the same."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from ..runtime.ports import Now, Surroundings


class MemberIds:
    """Ids that no coordinator has given away before: only one leads a partition in an epoch, and where it
    loads the partition a second time in the same epoch, its clock has gone on."""

    def __init__(self, partition: int, around: Surroundings) -> None:
        self._partition = partition
        self._around = around
        self._count = 0

    def new(self, prefix: str, now: Now) -> str:
        """`prefix`-UUID, as Kafka's look. Shape: epoch, milliseconds, partition and a counter."""
        self._count += 1
        epoch = self._around.epoch & 0xFFFFFFFF
        wall_ms = now.wall_ms & 0xFFFFFFFFFFFF
        bits = epoch << 96 | wall_ms << 48 | (self._partition & 0xFFFF) << 32 | self._count & 0xFFFFFFFF
        return f"{prefix}-{UUID(int=bits)}"
