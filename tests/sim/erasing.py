"""DeleteRecords and retention in a simulated cluster. Neither applies to the topic with unclean elections
(cluster_losses.py), so that each missing record has only one possible cause.

DeleteRecords goes to leaders over the network and may be lost, refused or time out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster_losses import is_unclean
from headrace.protocol.errors import KafkaError
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import (
    AlterConfigs,
    ConfigChange,
    ConfigResource,
    IncrementalAlterConfigsRequest,
)
from headrace.protocol.messages.data import (
    TO_HIGH_WATERMARK,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
)
from headrace.protocol.metadata.image import TOPIC_RESOURCE
from sim_clients import SimClient

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster import SimCluster

Key = tuple[str, int]
TIMEOUT_MS = 1_500
NO_RETENTION = (("retention.ms", "-1"), ("retention.bytes", "-1"))


class Eraser(SimClient):
    """A client that sends DeleteRecords for random partitions and offsets."""

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__(cluster, "eraser")
        self.done: dict[Key, int] = {}  # the last low watermark that was acknowledged

    def _poll(self) -> None:
        self._look()
        self._poll_in(None)

    def erase_some(self) -> None:
        """Delete in one partition per topic, up to an existing offset, a missing one, or the high
        watermark."""
        for topic in lasting_topics(self.cluster):
            found = self.view.topics.get(topic)
            if found is not None and found.partitions:
                key = (topic, self.random.randrange(len(found.partitions)))
                end = self.cluster.rules.ends[key]
                offset = self.random.choice((TO_HIGH_WATERMARK, end + 5, self.random.randrange(end + 1)))
                self.erase(key, offset)

    def erase(self, key: Key, offset: int) -> None:
        """Send DeleteRecords to the leader, if there is one."""
        leader = self.view.leader_of(*key)
        if leader is None:
            self.refresh()
            return
        topic_id, node_id, epoch = leader
        entry = DeleteRecordsPartition(topic_id, key[1], offset, epoch)
        self.cluster.rules.on_erase(key, offset)

        def done(response: Any, _frames: Sequence[bytes]) -> None:
            answer = None if isinstance(response, KafkaError) else response.partitions[0]
            if answer is None or answer.error_code:
                self.refresh()
            else:
                assert answer.low_watermark >= offset, f"LowWatermark: {answer} for {offset} of {key}"
                self.done[key] = answer.low_watermark
                self.cluster.rules.marks["erased"] += 1

        body = DeleteRecordsRequest(TIMEOUT_MS, (entry,))
        self.ask(node_id, registry.DELETE_RECORDS, body, (), done)

    def has_erased(self, wanted: dict[Key, int]) -> Callable[[], bool]:
        """Condition: all these deletions are acknowledged. They are retried until then."""
        asked_ms = -TIMEOUT_MS

        def is_so() -> bool:
            nonlocal asked_ms
            left = {key: offset for key, offset in wanted.items() if self.done.get(key, -1) < offset}
            if self.world.now_ms - asked_ms >= TIMEOUT_MS:
                asked_ms = self.world.now_ms
                for key, offset in left.items():
                    self.erase(key, offset)
            return not left

        return is_so


def lasting_topics(cluster: SimCluster) -> list[str]:
    """The produced topics without unclean elections."""
    return [topic for topic in cluster.topics if not is_unclean((topic, 0))]


def retain(cluster: SimCluster, *pairs: tuple[str, str]) -> None:
    """Set retention configs of `lasting_topics`."""
    for topic in lasting_topics(cluster):
        changes = tuple(ConfigChange(name, 0, value) for name, value in pairs)
        altered = AlterConfigs(ConfigResource(TOPIC_RESOURCE, topic), changes)
        request = IncrementalAlterConfigsRequest((altered,))
        cluster.ask_controller(registry.INCREMENTAL_ALTER_CONFIGS, request, lambda _: None)
