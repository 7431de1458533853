"""Messages about the log dirs of one storage node. Source: Kafka DescribeLogDirs (35), AlterReplicaLogDirs
(34)."""

from __future__ import annotations

import msgspec

from .control import PartitionError, TopicPartitions


class DescribeLogDirsRequest(msgspec.Struct, array_like=True, frozen=True):
    """What lies in the log dirs of the node that is asked; None for `topics` is everything."""

    topics: tuple[TopicPartitions, ...] | None = None


class LogDirReplica(msgspec.Struct, array_like=True, frozen=True):
    """One log in a dir. `offset_lag`: records that the high watermark has and it has not; of a future log,
    which shall take the place of one in another dir, records that the one has and it has not yet."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool = False


class LogDirDescription(msgspec.Struct, array_like=True, frozen=True):
    """One log dir; sizes are those of its file system in bytes, -1 where that cannot be asked."""

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
    """The partitions that shall lie in one dir."""

    log_dir: str
    topics: tuple[TopicPartitions, ...]


class AlterReplicaLogDirsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Move replicas of the node that is asked to other log dirs; naming the dir where one lies already ends
    a move of it. One that is not on the node will be made in that dir."""

    log_dirs: tuple[LogDirTarget, ...]


class AlterReplicaLogDirsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Per partition whether the move has begun."""

    error_code: int
    error_detail: str = ""
    results: tuple[PartitionError, ...] = ()
