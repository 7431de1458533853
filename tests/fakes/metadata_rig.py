"""A controller's metadata log with its image, on any file layer."""

from typing import Any

from headrace.controller.quorum.election_state import ElectionState
from headrace.controller.quorum.metadata_log import METADATA_PARTITION, MetadataLog, metadata_log_config
from headrace.controller.quorum.record_batches import encode_batch
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.records import PartitionRecord, TopicRecord
from headrace.protocol.metadata.replay import replay
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
    """A decision that creates the topic with this number and its one partition."""
    topic_id = number.to_bytes(16, "big")
    return [TopicRecord(f"t{number}", topic_id), PartitionRecord(topic_id, 0, (1,), (1,), 1, 0, 0)]


class Voter:
    """One process of a controller that is the only voter: log and image, in a new epoch. `history` has its
    images in order."""

    def __init__(self, files: Any, segment_bytes: int = 2**20, metadata_dir: str = METADATA_DIR) -> None:
        self.log = MetadataLog.open(files, metadata_dir, config=a_config(segment_bytes), wall_ms=NOW)
        state = self.log.read_election_state()
        self.epoch = max(state.leader_epoch if state else 0, self.log.last_epoch) + 1
        self._commit()
        self.image: MetadataImage = self.log.recovered
        for base_offset, records in self.log.committed(self.image.offset + 1, self.log.end_offset):
            self.image, _ = replay(self.image, base_offset, records)
        self.log.write_election_state(ElectionState(self.image.cluster_id, 1, self.epoch))
        self.history = [self.image]

    def decide(self, *records: Any) -> None:
        """Append and apply one decision."""
        base_offset = self.log.append_batch(encode_batch(records, NOW), self.epoch, NOW)
        self.image, _ = replay(self.image, base_offset, records)
        self.history.append(self.image)

    def flush(self) -> None:
        """Flush the decided records, which commits them, because there is one voter."""
        self.log.flush()
        self._commit()

    def _commit(self) -> None:
        self.log.high_watermark = self.log.flushed_offset
