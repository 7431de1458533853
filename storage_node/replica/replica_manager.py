"""All partitions of this node: made, led, reconfigured and removed as the metadata image says.

Pure: disks are reached through the log manager's injected file layer; slow work leaves as effects.
Partitions are known by topic id, so a topic that was deleted and made again under its old name never
meets the old one's data (KAFKA-12257).

Invariant: after `apply`, `partitions` holds exactly what the image assigns to this node.
Source: Kafka ReplicaManager.scala applyDelta; strays as in KAFKA-14616.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...protocol.errors import (
    KafkaStorageError,
    NotLeaderOrFollowerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from ...protocol.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from ...protocol.model import NO_EPOCH, NO_NODE, TopicPartition
from ...runtime.files.file_layer import DiskFullError
from ..effects import DeleteLog, Effect, FlushLog, Note, TellController
from ..log.checkpoints import NO_TOPIC_ID
from ..log.log_defaults import effective_log_config
from ..log.log_tasks import NewLog, log_fault
from ..log.tail_cache import Tail
from .disk_trouble import DiskTrouble
from .fetchers import Fetchers
from .image_lookup import all_partitions, has_partition, registration_of
from .in_sync import NO_BROKER_EPOCH
from .leading import Leading
from .log_starts import LogStarts
from .moves import Moves
from .partition import Partition, PartitionKey, PartitionState, Surroundings
from .throttle import Throttles

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...protocol.metadata.image import MetadataDelta
    from ..configs.live_config import LiveConfig
    from ..configs.node_config import NodeConfig
    from ..counters import NodeCounters
    from ..log.config import LogConfig
    from ..log.log import Log
    from ..log.log_manager import LogManager
    from ..log.tail_cache import TailCache
    from .follower import FollowerLimits


class ReplicaManager:
    """Holds the partitions and the image they follow.

    `changed` collects the keys of partitions whose waiting requests must be tried again, `appended` those
    that have more records for their followers alone; `effects` the work for the shell. Their owner empties
    them after each event.
    """

    def __init__(
        self,
        manager: LogManager,
        config: LiveConfig,
        counters: NodeCounters,
        tails: TailCache | None = None,
        *,
        follower_limits: FollowerLimits,
        max_lag_ms: int = 30_000,
    ) -> None:
        """With `tails`, the newest batches of each partition are kept in that memory."""
        self._tails = tails
        self._counters = counters
        self.leading = Leading(self, counters)
        self.broker_epoch = NO_BROKER_EPOCH  # of this process, once it is registered
        self.surroundings = Surroundings(
            max_lag_ms=max_lag_ms, is_eligible=self.leading.is_eligible, is_alive=self.leading.is_alive
        )
        self.fetchers = Fetchers(self, follower_limits, config)
        self.log_starts = LogStarts(self, manager, config)
        self.throttles = Throttles(config)
        self.is_replicating = False  # a partition has, or had, replicas on other nodes
        self.is_checkpointing = False  # the shell writes checkpoints on a thread: no log may be cut
        self.appended: list[PartitionKey] = []
        self.image = MetadataImage()
        self.partitions: dict[PartitionKey, Partition] = {}
        self.node_id: int = NO_NODE
        self.changed: list[PartitionKey] = []
        self.effects: list[Effect] = []
        self._retiring: dict[TopicPartition, Partition] = {}  # removed, but a flush still holds the log
        self._manager = manager
        self.disks = DiskTrouble(self, manager)
        self.moves = Moves(self, manager)
        self._config = config
        config.on_change(("cordoned.log.dirs",), self._cordon)

    # --- looking up ------------------------------------------------------------------------------------

    def find(self, topic_id: bytes, index: int) -> Partition:
        """The local partition. Errors: UnknownTopicIdError, UnknownTopicOrPartitionError, or
        NotLeaderOrFollowerError when another node holds it."""
        partition = self.partitions.get((topic_id, index))
        if partition is not None:
            return partition
        name = self.image.topic_names.get(topic_id)
        if name is None:
            raise UnknownTopicIdError(f"no topic has the id {topic_id[:16].hex()}")
        if not 0 <= index < len(self.image.topics[name].partitions):
            raise UnknownTopicOrPartitionError(f"topic {name} has no partition {index}")
        raise NotLeaderOrFollowerError(f"node {self.node_id} has no replica of {name}-{index}")

    def leader_hint(self, topic_id: bytes, index: int) -> tuple[int, int]:
        """(leader, leader epoch) as the image knows them; -1, -1 when it does not."""
        registration = registration_of(self.image, topic_id, index)
        if registration is None:
            return NO_NODE, NO_EPOCH
        return registration.leader, registration.leader_epoch

    # --- following the image ---------------------------------------------------------------------------

    def new_logs(self, image: MetadataImage, delta: MetadataDelta | None, *, is_first: bool) -> list[NewLog]:
        """What following the next image will need that is not here yet, to be made ahead of it, on threads:
        the logs of thousands of new partitions would hold everything else up for seconds.

        Without a `delta` everything counts. What is left out, or fails, `apply` makes itself.
        """
        found: list[NewLog] = []
        configs: dict[str, LogConfig] = {}
        for topic_id, index in all_partitions(image) if delta is None else delta.partitions:
            registration = registration_of(image, topic_id, index)
            if registration is None or self.node_id not in registration.replicas:
                continue
            name = TopicPartition(image.topic_names[topic_id], index)
            if log_fault(name, topic_id) is not None:
                continue
            if self._manager.get(name) is None and (topic_id, index) not in self.partitions:
                config = configs.get(name.topic) or configs.setdefault(
                    name.topic, self._config_of(name.topic, image)
                )
                is_new = not is_first and not has_partition(self.image, topic_id, index)
                found.append(NewLog(name, topic_id, config, is_new))
        return found

    def learn(self, image: MetadataImage) -> None:
        """Know the image without acting on it: it is older than this node's own registration."""
        self.image = image

    def apply(self, image: MetadataImage, delta: MetadataDelta, now_ms: int) -> None:
        """Follow the image one step."""
        old, self.image = self.image, image
        self._follow_config()
        removed = {topic.topic_id for topic in delta.topics_removed}
        if removed:
            self._remove_all([key for key in self.partitions if key[0] in removed])
            gone = {topic.name for topic in delta.topics_removed}
            self._manager.forget_missing(lambda name: name.topic not in gone)
        for topic_id, index in delta.partitions:
            self._follow(topic_id, index, now_ms, is_new=not has_partition(old, topic_id, index))
        self._reconfigure(delta.configs, now_ms)
        if delta.brokers:
            self.leading.follow_nodes(now_ms)

    def compare_all(self, image: MetadataImage, now_ms: int, *, is_first: bool) -> None:
        """Bring every partition in line with a whole image; logs that it does not name become strays.

        At the first image nothing counts as new: this node may have held it before it was restarted.
        """
        old, self.image = self.image, image
        self._follow_config()
        self._remove_all([key for key in self.partitions if key[0] not in self.image.topic_names])
        self._manager.forget_missing(lambda name: name.topic in image.topics)
        for topic in self.image.topics.values():
            for index in range(len(topic.partitions)):
                is_new = not is_first and not has_partition(old, topic.topic_id, index)
                self._follow(topic.topic_id, index, now_ms, is_new=is_new)
        for stray in self._manager.find_strays(self._is_expected):
            self._mark_stray(stray)
        self._manager.choose_all()
        self._reconfigure([(TOPIC_RESOURCE, name) for name in self.image.topics], now_ms)
        self.leading.follow_nodes(now_ms)

    def _is_expected(self, name: TopicPartition, _topic_id: bytes) -> bool:
        """By name: a log of a wrong id was set aside when its partition was opened, of a lost id it stays."""
        topic = self.image.topics.get(name.topic)
        is_held = topic is not None and (topic.topic_id, name.partition) in self.partitions
        return is_held or name in self._retiring

    def _follow(self, topic_id: bytes, index: int, now_ms: int, *, is_new: bool) -> None:
        key = (topic_id, index)
        registration = registration_of(self.image, topic_id, index)
        if registration is None or self.node_id not in registration.replicas:
            if key in self.partitions:
                self._remove_all([key])
            return
        partition = self.partitions.get(key)
        if partition is None:
            name = TopicPartition(self.image.topic_names[topic_id], index)
            if name in self._retiring:
                return  # `flushed` comes back to it once the old log of that name is out of the way
            log = self._open(name, topic_id, is_new=is_new)
            self._keep_newest(log)
            partition = self.partitions[key] = Partition(name, topic_id, self.node_id, log, self.surroundings)
            self.log_starts.opened(partition)
        if partition.node_id == registration.leader:
            self.fetchers.drop(key)  # Order: nothing is fetched any more when it begins to lead
        self.is_replicating |= len(registration.replicas) > 1
        old_isr = partition.isr
        was_changed = partition.assign(registration, now_ms)
        if not was_changed and partition.is_leader:
            self.leading.count_isr_change(old_isr, partition.isr)
        self.fetchers.place(partition, now_ms)
        if partition.advance(now_ms) or was_changed or old_isr != partition.isr:
            self.changed.append(key)
        if partition.in_sync is not None:
            self.leading.grow(partition, now_ms)
            if not was_changed:
                self.appended.append(key)  # its replicas may have changed
        self.maybe_flush(partition)

    def _keep_newest(self, log: Log | None) -> None:
        if log is not None and self._tails is not None:
            log.reader.tail = Tail(self._tails)

    def take_log(self, partition: Partition, log: Log, now_ms: int) -> None:
        """The partition has moved: its log is another one, with the same records."""
        self._keep_newest(log)
        partition.take_log(log)
        self.log_starts.opened(partition)  # what went while it was copied lies below its start
        partition.advance(now_ms)  # all of it is flushed
        self.changed.append(partition.key)

    def begin_anew(self, key: PartitionKey, now_ms: int, *, is_new: bool) -> None:
        """Replace a partition that could not get a log."""
        topic = self.partitions.pop(key).topic_partition.topic
        self._follow(*key, now_ms, is_new=is_new)
        self._reconfigure(
            [(TOPIC_RESOURCE, topic)], now_ms
        )  # a log that was found does not know its topic's config

    def _open(self, name: TopicPartition, topic_id: bytes, *, is_new: bool) -> Log | None:
        """The partition's log, made if it is not there yet; None leaves the partition offline.

        A log of another topic id is a stray. One whose id is lost could be anybody's: it stays untouched.
        """
        fault = log_fault(name, topic_id)
        if fault is not None:
            self._note(logging.ERROR, f"a partition that the controller assigned has no log here: {fault}")
            return None
        self._manager.choose(name, topic_id)
        log = self._manager.get(name)
        if log is not None and log.topic_id not in (topic_id, NO_TOPIC_ID) and not self._mark_stray(name):
            return None
        while self._manager.online_dirs:
            dirs_before = len(self._manager.online_dirs)
            try:
                return self._manager.create(name, topic_id, self._config_of(name.topic), is_new=is_new)
            except KafkaStorageError as error:
                if isinstance(error, DiskFullError):
                    self.disks.has_no_log((topic_id, name.partition), is_new=is_new)
                if len(self._manager.online_dirs) == dirs_before:
                    self._note(logging.ERROR, f"{name} is offline: {error}")
                    return None
                self.disks.lost_dirs(error)  # the next dir may be good
        return None

    def _mark_stray(self, name: TopicPartition) -> bool:
        """Take a log out of the way and keep its folder; False if its disk failed."""
        self._note(logging.WARNING, f"{name} is in no metadata under its topic id: set aside as a stray")
        try:
            self._manager.mark_stray(name)
        except KafkaStorageError as error:
            self.disks.lost_dirs(error)
            return False
        return True

    def _remove_all(self, keys: Iterable[PartitionKey]) -> None:
        """Take partitions away, and their logs out of their names; the files go later.

        Order: out of the checkpoints first, here, where no checkpoint is being written; see LogManager.
        """
        removed = [self.partitions.pop(key) for key in sorted(keys)]
        online = [partition for partition in removed if partition.is_online]
        self._manager.drop_from_checkpoints(partition.topic_partition for partition in online)
        for partition in removed:
            self.fetchers.drop(partition.key)
            self.moves.cancel(partition.key)
            partition.remove()
            self.changed.append(partition.key)
        # a flush or a cleaning names the folder that deletion renames, so it comes back first
        busy = [p for p in online if p.is_flushing or (p.log is not None and p.log.compaction.abort())]
        self._retiring |= {p.topic_partition: p for p in busy}
        self._delete([p.topic_partition for p in online if p not in busy])

    def _delete(self, names: Sequence[TopicPartition]) -> None:
        """Take logs away under their names at once; their files go later."""
        self.effects += [DeleteLog(log) for log in self._manager.detach_all(names)]
        lost = [name for name in names if self._manager.get(name) is not None]
        if lost:
            self.disks.lost_dirs(KafkaStorageError(f"the log of {lost[0]} could not be taken away"))

    def end_retirement(self, partition: Partition, now_ms: int) -> None:
        """The last flush or cleaning of a removed partition came back, if it is one; its name may have a new
        owner by now. One whose disk was lost before is not waited for."""
        if self._retiring.get(partition.topic_partition) is not partition:
            return
        name = partition.topic_partition
        if partition.log is not None and not partition.log.is_offline and partition.is_busy:
            return
        del self._retiring[name]
        if partition.log is not None and not partition.log.is_offline:
            self._delete([name])
        topic = self.image.topics.get(name.topic)
        if topic is not None:
            self._follow(topic.topic_id, name.partition, now_ms, is_new=True)

    # --- configs ---------------------------------------------------------------------------------------

    def _config_of(self, topic: str, image: MetadataImage | None = None) -> LogConfig:
        image = image or self.image
        overrides: Mapping[str, str] = image.configs.get((TOPIC_RESOURCE, topic), {})
        defaults = self._config.topic_defaults(image.configs, self.node_id)
        config, faults = effective_log_config(defaults, overrides)
        self.effects += [Note(logging.WARNING, f"topic {topic}: {fault}") for fault in faults]
        return config

    def _follow_config(self) -> None:
        """Act by the image's configs of this node and of all."""
        for fault in self._config.follow(self.image.configs, self.node_id):
            self._note(logging.WARNING, f"dynamic config: {fault}")

    def _cordon(self, config: NodeConfig) -> None:
        """Other log dirs get no new replicas: the controller counts with it."""
        self._manager.cordon.paths = frozenset(config.cordoned_log_dirs)
        self.effects.append(TellController())

    def _reconfigure(self, resources: Iterable[tuple[int, str]], now_ms: int) -> None:
        resources = list(resources)
        everything = any(kind == BROKER_RESOURCE for kind, _ in resources)
        topics = {name for kind, name in resources if kind == TOPIC_RESOURCE}
        configs: dict[str, LogConfig] = {}
        for partition in self.partitions.values():
            topic = partition.topic_partition.topic
            if partition.log is None or not (everything or topic in topics):
                continue
            config = configs.get(topic) or configs.setdefault(topic, self._config_of(topic))
            if config != partition.log.config:
                partition.log.reconfigure(config)
                partition.configured()
                self.leading.advance(partition, now_ms)
                self.maybe_flush(partition)

    # --- disks -----------------------------------------------------------------------------------------

    def flush_overdue(self, now_ms: int) -> None:
        """Ask for the fsyncs that flush.ms wants; called now and then."""
        for partition in self.partitions.values():
            self.maybe_flush(partition, now_ms)

    def flush_all(self) -> None:
        """Ask to bring everything to the disk, in no hurry: it bounds what a recovery has to read again."""
        for partition in self.partitions.values():
            if partition.has_unflushed and not partition.is_flushing:
                partition.is_flushing = True
                self.effects.append(FlushLog(partition, is_awaited=False))

    def maybe_flush(self, partition: Partition, now_ms: int | None = None) -> None:
        """Ask for an fsync when acknowledgements or configs want one; all appends until it runs share it."""
        if partition.wants_flush(now_ms):
            partition.is_flushing = True
            self.effects.append(FlushLog(partition, is_awaited=True))

    def flushed(self, partition: Partition, end_offset: int, now_ms: int) -> None:
        """The log of `partition` below `end_offset` is on the disk."""
        partition.flushed(end_offset, now_ms)
        self.moves.try_swap(partition, now_ms)
        self.changed.append(partition.key)
        if partition.is_online:
            self.fetchers.flushed(partition.key, now_ms)
        if partition.state is not PartitionState.DELETED:
            self.maybe_flush(partition)
        else:
            self.end_retirement(partition, now_ms)

    def cleaned(self, partition: Partition, now_ms: int) -> None:
        """A cleaning of the log of `partition` has ended, however: who waited for that goes on."""
        self.fetchers.may_cut(now_ms)
        self.end_retirement(partition, now_ms)
        self.moves.try_swap(partition, now_ms)
        self.moves.go_on(now_ms)

    def disk_failed(self, partition: Partition, error: KafkaStorageError, now_ms: int) -> None:
        """An operation on the partition's log failed; see DiskTrouble."""
        self.disks.failed(partition, error, now_ms)

    def note(self, level: int, text: str) -> None:
        """Words for the operator's log."""
        self.effects.append(Note(level, text))

    _note = note

    # --- replication -----------------------------------------------------------------------------------

    def replicated(self, size_bytes: int) -> None:
        """Bytes of a leader's log were appended here."""
        self._counters.replicated_in_bytes += size_bytes
