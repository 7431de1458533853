"""Names of files and folders in a log dir, exactly as Kafka spells them. Source: Kafka LogFileUtils.java."""

from __future__ import annotations

import re

from ...protocol.errors import InvalidTopicError
from ...protocol.model import TopicPartition, topic_name_fault

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"  # producer state
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
TEMPORARY = ".tmp"
SEGMENT_SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX)

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
OFFSET_GAPS = "offset-gaps"  # not in Kafka: the log may have gaps between batches

META_PROPERTIES = "meta.properties"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
RESERVE = ".reserve"  # not in Kafka: space for small files when the disk is full

METADATA_TOPIC = "__cluster_metadata"
DELETE_FOLDER = "-delete"
STRAY_FOLDER = "-stray"
FUTURE_FOLDER = "-future"

_FOLDER = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>[0-9]{1,10})\Z")
_SEGMENT = re.compile(r"(?P<offset>[0-9]{20})(?P<suffix>\.[a-z]+)\Z")
MAX_OFFSET = 2**63 - 1
MAX_PARTITION = 2**31 - 1


def segment_name(base_offset: int, suffix: str) -> str:
    """The file of the segment that starts at `base_offset`: 20 digits and the suffix."""
    return f"{base_offset:020d}{suffix}"


def parse_segment_name(name: str) -> tuple[int, str] | None:
    """(base offset, suffix) of a segment file's name; None for other names."""
    found = _SEGMENT.match(name)
    if found is None or int(found["offset"]) > MAX_OFFSET:
        return None
    return int(found["offset"]), found["suffix"]


def folder_fault(partition: TopicPartition) -> str | None:
    """Why this partition cannot have a folder, or None.

    The name comes from a controller that may be newer, or hostile: a bad name might lead out of the log dir,
    break the lines of a checkpoint, or be that of the metadata log.
    """
    if not 0 <= partition.partition <= MAX_PARTITION:
        return f"partition {partition.partition} is out of range"
    if partition.topic == METADATA_TOPIC:
        return f"{METADATA_TOPIC} is the controller's own log"
    return topic_name_fault(partition.topic)


def folder_name(partition: TopicPartition) -> str:
    """The folder of a partition, below a log dir. Errors: InvalidTopicError, as `folder_fault`."""
    fault = folder_fault(partition)
    if fault is not None:
        raise InvalidTopicError(fault)
    return str(partition)


def suffixed_folder(partition: TopicPartition, unique: str, suffix: str) -> str:
    """The name of a partition's folder that was deleted, is a stray, or is moved.

    Bound: a folder name has at most 255 bytes; Kafka cuts the topic's name the same way.
    """
    tail = f".{unique}{suffix}"
    return f"{str(partition)[: 255 - len(tail)]}{tail}"


def parse_folder_name(name: str) -> TopicPartition | None:
    """The partition of this folder name; None for other names, folders with a suffix and the metadata log."""
    found = _FOLDER.match(name)
    if found is None:
        return None
    partition = TopicPartition(found["topic"], int(found["partition"]))
    return partition if folder_fault(partition) is None and str(partition) == name else None
