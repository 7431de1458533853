"""A metadata log with the image beside it, as the controller holds them, on any disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.controller.quorum.metadata_log import METADATA_PARTITION, MetadataLog, metadata_log_config
from headrace.protocol.metadata.records import PartitionRecord, TopicRecord
from headrace.protocol.metadata.replay import replay

if TYPE_CHECKING:
    from headrace.protocol.metadata.image import MetadataImage
    from headrace.storage_node.log.config import LogConfig

METADATA_DIR = "/metadata"
DIRECTORY = f"{METADATA_DIR}/{METADATA_PARTITION}"
NOW = 1_700_000_000_000


def a_config(segment_bytes: int) -> LogConfig:
    """The metadata log's config; unlike a user's, its segments may be tiny."""
    config = metadata_log_config(64 * 2**20)
    object.__setattr__(config, "segment_bytes", segment_bytes)
    return config


def topic(number: int) -> list[Any]:
    """A decision: the topic with this number and its one partition."""
    topic_id = number.to_bytes(16, "big")
    return [TopicRecord(f"t{number}", topic_id), PartitionRecord(topic_id, 0, (1,), (1,), 1, 0, 0)]


class Voter:
    """One start of a controller: log and image. `history` are the images that it has made, in order."""

    def __init__(self, files: Any, segment_bytes: int = 2**20) -> None:
        self.log = MetadataLog.open(
            files, METADATA_DIR, controller_id=1, config=a_config(segment_bytes), wall_ms=NOW
        )
        self.image: MetadataImage = self.log.recovered
        self.history = [self.image]

    def decide(self, *records: Any) -> None:
        """Append and apply one decision."""
        base_offset = self.log.append(records, NOW)
        self.image, _ = replay(self.image, base_offset, records)
        self.history.append(self.image)
