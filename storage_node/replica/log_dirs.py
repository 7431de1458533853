"""DescribeLogDirs and AlterReplicaLogDirs. Pure.

Source: Kafka ReplicaManager.scala describeLogDirs, alterReplicaLogDirs; KIP-113, KIP-827, KIP-1066.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ...protocol.errors import (
    NO_ERROR,
    IneligibleReplicaError,
    InvalidRequestError,
    KafkaError,
    KafkaStorageError,
    LogDirNotFoundError,
    ReplicaNotAvailableError,
    UnknownTopicOrPartitionError,
)
from ...protocol.messages import registry
from ...protocol.messages.control import PartitionError
from ...protocol.messages.log_dirs import (
    AlterReplicaLogDirsResponse,
    DescribeLogDirsResponse,
    LogDirDescription,
    LogDirReplica,
)
from ...protocol.model import TopicPartition

if TYPE_CHECKING:
    from ...protocol.messages.log_dirs import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
    from ...protocol.transport.replies import Incoming, Replies
    from ..log.log_dir import LogDir
    from ..log.log_manager import LogManager
    from .moves import Moves
    from .partition import Partition
    from .partition_table import PartitionTable

TopicPartitions = frozenset[TopicPartition] | None


class LogDirsHandler:
    """Responds to both at once; a move continues after its response."""

    def __init__(
        self,
        table: PartitionTable,
        moves: Moves,
        manager: LogManager,
        replies: Replies,
        *,
        max_partitions: int,
    ) -> None:
        self._table = table
        self._moves = moves
        self._manager = manager
        self._replies = replies
        self._max_partitions = max_partitions

    def handle(self, request: Incoming, now_ms: int) -> None:
        """Errors: InvalidRequestError if there are too many partitions."""
        if request.api.key == registry.DESCRIBE_LOG_DIRS.key:
            self._replies.reply(request, self._describe(request.body))
        else:
            self._replies.reply(request, self._alter(request.body, now_ms))

    # --- describe ----------------------------------------------------------------------------------------

    def _describe(self, asked: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        names: TopicPartitions = None
        if asked.topics is not None:
            named = [
                TopicPartition(each.topic, number) for each in asked.topics for number in each.partitions
            ]
            self._check_count(len(named))
            names = frozenset(named)
        found: dict[str, list[LogDirReplica]] = defaultdict(list)
        for partition in self._table.partitions.values():
            if names is None or partition.topic_partition in names:
                self._list(partition, found)
        described = tuple(
            self._described(log_dir, tuple(sorted(found[log_dir.path], key=_name_of)))
            for log_dir in self._manager.dirs
        )
        return DescribeLogDirsResponse(NO_ERROR, log_dirs=described)

    def _list(self, partition: Partition, found: dict[str, list[LogDirReplica]]) -> None:
        name, log = partition.topic_partition, partition.log
        home = self._manager.dir_of(name)
        if log is None or home is None or not partition.is_online:
            return
        lag = max(partition.high_watermark - log.log_end_offset, 0)
        found[home.path].append(LogDirReplica(*name, log.size_bytes, lag))
        move = self._moves.of(partition.key)
        if move is not None:
            size = 0 if move.log is None else move.log.size_bytes
            lag = max(log.log_end_offset - move.end_offset, 0)
            found[move.target.path].append(LogDirReplica(*name, size, lag, is_future=True))

    def _described(self, log_dir: LogDir, replicas: tuple[LogDirReplica, ...]) -> LogDirDescription:
        is_cordoned, directory_id = self._manager.placement.is_cordoned(log_dir), log_dir.directory_id or b""
        try:
            space = log_dir.files.space(log_dir.path)
        except KafkaStorageError as error:
            return LogDirDescription(
                error.code,
                log_dir.path,
                error_detail=str(error),
                is_cordoned=is_cordoned,
                directory_id=directory_id,
            )
        return LogDirDescription(
            NO_ERROR, log_dir.path, replicas, *space, is_cordoned, log_dir.room.full or "", directory_id
        )

    # --- alter -------------------------------------------------------------------------------------------

    def _alter(self, asked: AlterReplicaLogDirsRequest, now_ms: int) -> AlterReplicaLogDirsResponse:
        moves = [
            (target.log_dir, TopicPartition(each.topic, number))
            for target in asked.log_dirs
            for each in target.topics
            for number in each.partitions
        ]
        self._check_count(len(moves))
        if len({name for _, name in moves}) != len(moves):
            raise InvalidRequestError("a partition occurs twice in one request")
        results = []
        for path, name in moves:
            try:
                self._move(path, name, now_ms)
            except KafkaError as error:
                results.append(PartitionError(*name, error.code, str(error)))
            else:
                results.append(PartitionError(*name))
        return AlterReplicaLogDirsResponse(NO_ERROR, results=tuple(results))

    def _move(self, path: str, name: TopicPartition, now_ms: int) -> None:
        target = self._manager.dirs.at(path)
        if target is None:
            where = f"{path[:200]!r} of node {self._table.node_id}"
            if any(each.path == path.rstrip("/") for each in self._manager.dirs):
                raise KafkaStorageError(f"log dir {where} is offline")
            raise LogDirNotFoundError(f"there is no log dir {where}")
        topic = self._table.image.topics.get(name.topic)
        if topic is not None and not 0 <= name.partition < len(topic.partitions):
            raise UnknownTopicOrPartitionError(f"topic {name.topic} has no partition {name.partition}")
        partition = None if topic is None else self._table.partitions.get((topic.topic_id, name.partition))
        home = self._manager.dir_of(name)
        if home is not target and self._manager.placement.is_cordoned(target):
            raise IneligibleReplicaError(f"the log dir {path} is cordoned")
        if partition is None:
            self._prefer(name, target.path)
            if topic is None:
                raise UnknownTopicOrPartitionError(f"there is no topic {name.topic}")
            raise ReplicaNotAvailableError(
                f"node {self._table.node_id} has no replica of {name}; a future one will be created there"
            )
        if partition.log is None or not partition.is_online:
            raise partition.lost_error()
        if home is target:
            self._moves.cancel(partition.key)
        else:
            self._moves.begin(partition, target, now_ms)

    def _prefer(self, name: TopicPartition, path: str) -> None:
        preferred = self._manager.placement.preferred
        if name not in preferred and len(preferred) >= self._max_partitions:
            raise InvalidRequestError(f"{len(preferred)} replicas have a preferred log dir already")
        preferred[name] = path

    def _check_count(self, count: int) -> None:
        if count > self._max_partitions:
            raise InvalidRequestError(f"{count} partitions, at most {self._max_partitions} are allowed")


def _name_of(replica: LogDirReplica) -> tuple[str, int, bool]:
    return replica.topic, replica.partition, replica.is_future
