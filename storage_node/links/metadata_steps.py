"""Steps between metadata images, and responses that wait for an image."""

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
    """A response that waits until the node's image contains the change that it confirms."""

    table: PartitionTable
    offset: int
    answer: Callable[[], None]

    def try_complete(self, _now_ms: int) -> bool:
        """Send the response once the image has the offset."""
        if self.table.image.offset < self.offset:
            return False
        self.answer()
        return True

    def on_expire(self, _now_ms: int) -> None:
        """Send the response without the image: the change is made all the same."""
        self.answer()


class MetadataStep(NamedTuple):
    """The change from one image to the next; without a delta they may differ in everything."""

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
