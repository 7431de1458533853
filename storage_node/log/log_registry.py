"""The logs of one node by partition, each with its log dir."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.model import TopicPartition
    from .log import Log
    from .log_dir import LogDir
    from .log_tasks import LoadTask
    from .segment import Segment


class LogRegistry:
    """Invariant: every log and every failed partition has a log dir; no partition is in both."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.dir_of: dict[TopicPartition, LogDir] = {}
        self.failed: dict[TopicPartition, str] = {}  # partitions whose log could not be loaded, and why
        # Second logs of partitions that were found in two log dirs with different topic ids.
        self.duplicates: dict[TopicPartition, LoadTask] = {}
        self.on_truncate: Callable[[Log], None] | None = None
        self.on_retired: Callable[[Log, Sequence[Segment]], None] | None = None

    def add(self, log: Log, log_dir: LogDir) -> None:
        log.on_truncate, log.on_retired = self.on_truncate, self.on_retired
        self.failed.pop(log.topic_partition, None)
        self.logs[log.topic_partition] = log
        self.dir_of[log.topic_partition] = log_dir

    def remove(self, topic_partition: TopicPartition) -> Log:
        log = self.logs.pop(topic_partition)
        del self.dir_of[topic_partition]
        log.on_truncate = None
        return log

    def add_failed(self, topic_partition: TopicPartition, reason: str, log_dir: LogDir) -> None:
        self.failed[topic_partition], self.dir_of[topic_partition] = reason, log_dir

    def in_dir(self, log_dir: LogDir) -> dict[TopicPartition, Log | None]:
        """The partitions of a log dir; None for a log that could not be loaded."""
        return {name: self.logs.get(name) for name, its in self.dir_of.items() if its is log_dir}

    def check(self) -> None:
        assert not self.logs.keys() & self.failed.keys(), "a partition is loaded and failed"
        assert self.dir_of.keys() == self.logs.keys() | self.failed.keys(), "a partition without a log dir"
