"""The logs of this node's partitions: opened or created as the metadata image says, with its topic configs.

Pure: disks are reached through the log manager's injected file layer.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...protocol.errors import KafkaStorageError
from ...protocol.metadata.image import TOPIC_RESOURCE
from ...protocol.model import TopicPartition
from ...runtime.files.file_layer import DiskFullError
from ..effects import SendHeartbeat
from ..log.checkpoints import NO_TOPIC_ID
from ..log.log_defaults import effective_log_config
from ..log.log_tasks import NewLog, log_fault
from ..log.tail_cache import Tail
from .image_lookup import all_partitions, has_partition, registration_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ..configs.live_config import LiveConfig
    from ..configs.node_config import NodeConfig
    from ..log.config import LogConfig
    from ..log.log import Log
    from ..log.log_manager import LogManager
    from ..log.tail_cache import TailCache
    from .disk_failures import DiskFailures
    from .partition_table import PartitionTable
    from .step_output import StepOutput


class PartitionLogs:
    """See the module's docstring. With `tails`, the newest batches of each log are kept in memory."""

    def __init__(
        self,
        table: PartitionTable,
        manager: LogManager,
        config: LiveConfig,
        output: StepOutput,
        disks: DiskFailures,
        tails: TailCache | None,
    ) -> None:
        self._table = table
        self._manager = manager
        self._config = config
        self._output = output
        self._disks = disks
        self._tails = tails
        config.on_change(("cordoned.log.dirs",), self._cordon)

    def new_logs(self, image: MetadataImage, delta: MetadataDelta | None, *, is_first: bool) -> list[NewLog]:
        """The logs that `apply` of the next image will need, to be created ahead on threads: creating the
        logs of thousands of new partitions would block the event loop for seconds.

        Without a `delta` the whole image counts. `apply` creates the logs that are missing here or that fail.
        """
        new_logs: list[NewLog] = []
        configs: dict[str, LogConfig] = {}
        for topic_id, index in all_partitions(image) if delta is None else delta.partitions:
            registration = registration_of(image, topic_id, index)
            if registration is None or self._table.node_id not in registration.replicas:
                continue
            name = TopicPartition(image.topic_names[topic_id], index)
            if log_fault(name, topic_id) is not None:
                continue
            if self._manager.get(name) is None and (topic_id, index) not in self._table.partitions:
                config = configs.get(name.topic) or configs.setdefault(
                    name.topic, self.config_of(name.topic, image)
                )
                is_new = not is_first and not has_partition(self._table.image, topic_id, index)
                new_logs.append(NewLog(name, topic_id, config, is_new))
        return new_logs

    def open(self, name: TopicPartition, topic_id: bytes, *, is_new: bool) -> Log | None:
        """The partition's log, created if it does not exist; None leaves the partition offline.

        A log with another topic id becomes a stray. One whose id is lost may belong to any topic: it is not
        touched.
        """
        fault = log_fault(name, topic_id)
        if fault is not None:
            # the name may hold any characters, line breaks too
            self._output.note(
                logging.ERROR, f"{str(name)!r:.80} is assigned to this node but cannot have a log: {fault}"
            )
            return None
        self._manager.loader.resolve(name, topic_id)
        log = self._manager.get(name)
        if log is not None and log.topic_id not in (topic_id, NO_TOPIC_ID) and not self._mark_stray(name):
            return None
        while self._manager.dirs.online:
            dirs_before = len(self._manager.dirs.online)
            try:
                log = self._manager.create(name, topic_id, self.config_of(name.topic), is_new=is_new)
            except KafkaStorageError as error:
                if isinstance(error, DiskFullError):
                    self._disks.has_no_log((topic_id, name.partition), is_new=is_new)
                if len(self._manager.dirs.online) == dirs_before:
                    self._output.note(logging.ERROR, f"{name} is offline: {error}")
                    return None
                self._disks.lost_dirs(error)  # the next dir may be good
            else:
                self.keep_newest(log)
                return log
        return None

    def mark_strays(self, is_expected: Callable[[TopicPartition, bytes], bool]) -> None:
        """Logs without a partition in the image become strays; of the others one folder each is kept."""
        for stray in self._manager.find_strays(is_expected):
            self._mark_stray(stray)
        self._manager.loader.resolve_all()

    def forget_missing(self, is_kept: Callable[[TopicPartition], bool]) -> None:
        """Forget missing logs; see LogLoader."""
        self._manager.loader.forget_missing(is_kept)

    def _mark_stray(self, name: TopicPartition) -> bool:
        """Rename the log's folder to a stray and keep it; False if its disk failed."""
        self._output.note(logging.WARNING, f"{name}: no metadata for its topic id; its log becomes a stray")
        try:
            self._manager.mark_stray(name)
        except KafkaStorageError as error:
            self._disks.lost_dirs(error)
            return False
        return True

    def keep_newest(self, log: Log) -> None:
        """Keep the newest batches of the log in memory."""
        if self._tails is not None:
            log.reader.tail = Tail(self._tails)

    def config_of(self, topic: str, image: MetadataImage | None = None) -> LogConfig:
        """The topic's config with the defaults of this node, by `image` or the present one."""
        image = image or self._table.image
        overrides: Mapping[str, str] = image.configs.get((TOPIC_RESOURCE, topic), {})
        defaults = self._config.topic_defaults(image.configs, self._table.node_id)
        config, faults = effective_log_config(defaults, overrides)
        for fault in faults:
            self._output.note(logging.WARNING, f"topic {topic}: {fault}")
        return config

    def _cordon(self, config: NodeConfig) -> None:
        """Place no new replicas in the cordoned log dirs, and report them: the controller counts them."""
        self._manager.placement.cordoned = frozenset(config.cordoned_log_dirs)
        self._output.effects.append(SendHeartbeat())
