"""From one image of the metadata to the next, and who waits for a later one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.metadata.replay import image_of, replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.messages.control import FetchMetadataResponse
    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ..replica.partition_table import PartitionTable


@dataclass(slots=True)
class AwaitingMetadata:
    """An answer that is held back until this node's image contains what it tells of."""

    table: PartitionTable
    offset: int
    answer: Callable[[], None]

    def try_complete(self, _now_ms: int) -> bool:
        """Answer once the image is there."""
        if self.table.image.offset < self.offset:
            return False
        self.answer()
        return True

    def on_expire(self, _now_ms: int) -> None:
        """The image is late; what the answer tells of has happened all the same."""
        self.answer()


class MetadataStep(NamedTuple):
    """From one image to the next; without a delta they may lie far apart."""

    old: MetadataImage
    image: MetadataImage
    delta: MetadataDelta | None


def step_of(old: MetadataImage, response: FetchMetadataResponse) -> MetadataStep | None:
    """See StorageNode.read_metadata."""
    is_late = not response.is_snapshot and response.base_offset <= old.offset
    if is_late or response.end_offset <= old.offset + 1:
        return None
    if response.is_snapshot:
        return MetadataStep(old, image_of(response.records, response.end_offset - 1), None)
    return MetadataStep(old, *replay(old, response.base_offset, response.records))
