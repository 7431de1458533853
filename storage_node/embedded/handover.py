"""Whether the previous leader of a partition may still act as its leader. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.model import NO_NODE, NO_OFFSET

if TYPE_CHECKING:
    from ...protocol.metadata.image import MetadataImage
    from ..replica.partition import Partition


class Handover:
    """The change of a partition's leader to this node, not before `since_ms`."""

    def __init__(self, partition: Partition, since_ms: int) -> None:
        self._partition = partition
        self._since_ms = since_ms
        self._from = partition.led_before
        # No previous leader: the partition is new, or its last leader was fenced or has lost its disk.
        self._is_done = self._from == NO_NODE

    def is_done(self, image: MetadataImage, leases_over_ms: int) -> bool:
        """`leases_over_ms`: the leases of heartbeats that were sent before have ended."""
        self._is_done = self._is_done or self._since_ms <= leases_over_ms or self._is_known(image)
        return self._is_done

    def _is_known(self, image: MetadataImage) -> bool:
        """Whether the previous leader is fenced or gone, or has fetched from this node in the new epoch."""
        if self._from is None:
            return False
        broker = image.brokers.get(self._from)
        if broker is None or broker.is_fenced:
            return True
        in_sync = self._partition.in_sync
        follower = None if in_sync is None else in_sync.followers.get(self._from)
        return follower is not None and follower.end_offset != NO_OFFSET
