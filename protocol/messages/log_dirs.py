"""Log dirs of one storage node. Source: Kafka DescribeLogDirs (35), AlterReplicaLogDirs (34)."""

from __future__ import annotations

import msgspec

from .control import PartitionError, TopicPartitions


class DescribeLogDirsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Describe the log dirs of the receiving node; `topics` None: all replicas."""

    topics: tuple[TopicPartitions, ...] | None = None


class LogDirReplica(msgspec.Struct, array_like=True, frozen=True):
    """One log in a dir. `offset_lag`: records between its log end offset and the high watermark; for a future
    log, which replaces the log in another dir when it has caught up, records that it still has to copy."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool = False


class LogDirDescription(msgspec.Struct, array_like=True, frozen=True):
    """One log dir; sizes of its file system in bytes, -1 if unknown."""

    error_code: int
    log_dir: str
    replicas: tuple[LogDirReplica, ...] = ()
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False
    error_detail: str = ""
    directory_id: bytes = b""


class DescribeLogDirsResponse(msgspec.Struct, array_like=True, frozen=True):
    """All log dirs, in configured order."""

    error_code: int
    error_detail: str = ""
    log_dirs: tuple[LogDirDescription, ...] = ()


class LogDirTarget(msgspec.Struct, array_like=True, frozen=True):
    """Partitions to move to one log dir."""

    log_dir: str
    topics: tuple[TopicPartitions, ...]


class AlterReplicaLogDirsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Move replicas of the receiving node to other log dirs; naming the current dir cancels a move. A replica
    that the node does not have yet will be created in that dir."""

    log_dirs: tuple[LogDirTarget, ...]


class AlterReplicaLogDirsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Per partition, whether the move has started."""

    error_code: int
    error_detail: str = ""
    results: tuple[PartitionError, ...] = ()
