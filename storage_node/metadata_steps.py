"""From one image of the metadata to the next, and who waits for a later one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.metadata.image import MetadataDelta, MetadataImage
    from .node import StorageNode


@dataclass(slots=True)
class AwaitingMetadata:
    """An answer that is held back until this node's image contains what it tells of."""

    node: StorageNode
    offset: int
    answer: Callable[[], None]

    def try_complete(self) -> bool:
        """Answer once the image is there."""
        if self.node.image.offset < self.offset:
            return False
        self.answer()
        return True

    def on_expire(self) -> None:
        """The image is late; what the answer tells of has happened all the same."""
        self.answer()


class MetadataStep(NamedTuple):
    """From one image to the next; without a delta they may lie far apart."""

    old: MetadataImage
    image: MetadataImage
    delta: MetadataDelta | None
