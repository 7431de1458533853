"""Applies metadata images: adds, assigns, reconfigures and removes the partitions of this node.

Pure: disks are reached through the log manager's injected file layer; slow work leaves as effects.
Invariant: after `apply`, the table holds exactly the partitions that the image assigns to this node.
Source: Kafka ReplicaManager.scala applyDelta; strays as in KAFKA-14616.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...protocol.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from ...protocol.model import TopicPartition
from .image_lookup import has_partition, registration_of
from .partition import Partition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ..configs.live_config import LiveConfig
    from ..log.config import LogConfig
    from ..log.log import Log
    from .fetchers import Fetchers
    from .flush_scheduler import FlushScheduler
    from .isr_manager import IsrManager
    from .log_starts import LogStarts
    from .partition import PartitionContext, PartitionKey
    from .partition_logs import PartitionLogs
    from .partition_removal import PartitionRemoval
    from .partition_table import PartitionTable
    from .step_output import StepOutput


class ImageApplier:
    """See the module's docstring."""

    def __init__(
        self,
        table: PartitionTable,
        logs: PartitionLogs,
        config: LiveConfig,
        output: StepOutput,
        context: PartitionContext,
        *,
        isr_manager: IsrManager,
        fetchers: Fetchers,
        flushes: FlushScheduler,
        log_starts: LogStarts,
        removal: PartitionRemoval,
    ) -> None:
        self._table = table
        self._logs = logs
        self._config = config
        self._output = output
        self._context = context
        self._isr_manager = isr_manager
        self._fetchers = fetchers
        self._flushes = flushes
        self._log_starts = log_starts
        self._removal = removal
        self.is_replicating = False  # a partition has, or had, replicas on other nodes

    # --- images ----------------------------------------------------------------------------------------

    def learn(self, image: MetadataImage) -> None:
        """Store the image without acting on it: it is older than this node's own registration."""
        self._table.image = image

    def apply(self, image: MetadataImage, delta: MetadataDelta, now_ms: int) -> None:
        """Apply the next image."""
        old, self._table.image = self._table.image, image
        self._follow_config()
        removed = {topic.topic_id for topic in delta.topics_removed}
        if removed:
            self._removal.remove(key for key in self._table.partitions if key[0] in removed)
            removed_names = {topic.name for topic in delta.topics_removed}
            self._logs.forget_missing(lambda name: name.topic not in removed_names)
        for topic_id, index in delta.partitions:
            self._assign(topic_id, index, now_ms, is_new=not has_partition(old, topic_id, index))
        self._reconfigure(delta.configs, now_ms)
        if delta.brokers:
            self._isr_manager.nodes_changed(now_ms)

    def compare_all(self, image: MetadataImage, now_ms: int, *, is_first: bool) -> None:
        """Apply a whole image; logs that are not in it become strays.

        At the first image no partition counts as new: this node may have had it before its restart.
        """
        old, self._table.image = self._table.image, image
        self._follow_config()
        self._removal.remove(key for key in self._table.partitions if key[0] not in image.topic_names)
        self._logs.forget_missing(lambda name: name.topic in image.topics)
        for topic in image.topics.values():
            for index in range(len(topic.partitions)):
                is_new = not is_first and not has_partition(old, topic.topic_id, index)
                self._assign(topic.topic_id, index, now_ms, is_new=is_new)
        self._logs.mark_strays(self._is_expected)
        self._reconfigure([(TOPIC_RESOURCE, name) for name in image.topics], now_ms)
        self._isr_manager.nodes_changed(now_ms)

    def _is_expected(self, name: TopicPartition, _topic_id: bytes) -> bool:
        """By name: a log with another id became a stray when its partition was opened; one without an id
        stays."""
        topic = self._table.image.topics.get(name.topic)
        is_assigned = topic is not None and (topic.topic_id, name.partition) in self._table.partitions
        return is_assigned or self._removal.is_pending(name)

    # --- one partition ---------------------------------------------------------------------------------

    def _assign(self, topic_id: bytes, index: int, now_ms: int, *, is_new: bool) -> None:
        """Bring one partition in line with the image."""
        key = (topic_id, index)
        registration = registration_of(self._table.image, topic_id, index)
        if registration is None or self._table.node_id not in registration.replicas:
            if key in self._table.partitions:
                self._removal.remove([key])
            return
        partition = self._table.partitions.get(key)
        if partition is None:
            name = TopicPartition(self._table.image.topic_names[topic_id], index)
            if self._removal.is_pending(name):
                return  # `end_removal` assigns it once the old log has left its name
            partition = self._add(name, topic_id, is_new=is_new)
        if partition.node_id == registration.leader:
            self._fetchers.drop(key)  # Order: a leader fetches nothing, so before `assign`
        self.is_replicating |= len(registration.replicas) > 1
        old_isr = partition.isr
        was_changed = partition.assign(registration, now_ms)
        if not was_changed and partition.is_leader:
            self._isr_manager.count_isr_change(old_isr, partition.isr)
        self._fetchers.place(partition, now_ms)
        if partition.advance(now_ms) or was_changed or old_isr != partition.isr:
            self._output.changed.append(key)
        if partition.in_sync is not None:
            self._isr_manager.grow(partition, now_ms)
            if not was_changed:
                self._output.appended.append(key)  # its replicas may have changed
        self._flushes.maybe_flush(partition)

    def _add(self, name: TopicPartition, topic_id: bytes, *, is_new: bool) -> Partition:
        log = self._logs.open(name, topic_id, is_new=is_new)
        partition = Partition(name, topic_id, self._table.node_id, log, self._context)
        self._table.partitions[partition.key] = partition
        self._log_starts.opened(partition)
        return partition

    def take_log(self, partition: Partition, log: Log, now_ms: int) -> None:
        """The partition has moved to another log dir: `log` has the same records, all flushed."""
        self._logs.keep_newest(log)
        partition.take_log(log)
        self._log_starts.opened(partition)  # segments that were deleted during the copy lie below its start
        partition.advance(now_ms)
        self._output.changed.append(partition.key)

    def reopen(self, key: PartitionKey, now_ms: int, *, is_new: bool) -> None:
        """Replace a partition whose log could not be created or loaded."""
        topic = self._table.partitions.pop(key).topic_partition.topic
        self._assign(*key, now_ms, is_new=is_new)
        self._reconfigure([(TOPIC_RESOURCE, topic)], now_ms)  # a loaded log does not know its topic's config

    def end_removal(self, partition: Partition, now_ms: int) -> None:
        """A flush or a cleaning of `partition` has ended. If it was removed and waited for that, its log is
        deleted, and a new topic of the same name gets its partition."""
        if self._removal.end(partition):
            name = partition.topic_partition
            topic = self._table.image.topics.get(name.topic)
            if topic is not None:
                self._assign(topic.topic_id, name.partition, now_ms, is_new=True)

    # --- configs ---------------------------------------------------------------------------------------

    def _follow_config(self) -> None:
        """Apply the image's dynamic configs of this node and of all nodes."""
        for fault in self._config.follow(self._table.image.configs, self._table.node_id):
            self._output.note(logging.WARNING, f"dynamic config: {fault}")

    def _reconfigure(self, resources: Iterable[tuple[int, str]], now_ms: int) -> None:
        resources = list(resources)
        is_of_node = any(kind == BROKER_RESOURCE for kind, _ in resources)
        topics = {name for kind, name in resources if kind == TOPIC_RESOURCE}
        configs: dict[str, LogConfig] = {}
        for partition in self._table.partitions.values():
            topic = partition.topic_partition.topic
            if partition.log is None or not (is_of_node or topic in topics):
                continue
            config = configs.get(topic) or configs.setdefault(topic, self._logs.config_of(topic))
            if config != partition.log.config:
                partition.log.reconfigure(config)
                partition.configured()
                self._isr_manager.advance(partition, now_ms)
                self._flushes.maybe_flush(partition)
