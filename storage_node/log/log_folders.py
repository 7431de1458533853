"""Which folders of the log dirs are the logs of partitions.

A partition may have a folder in two log dirs after a crash in the middle of a move, or of a creation whose
dir then failed. Records are only appended to a log that has the other's records: so the newer log has the
newer leader epochs, or else the larger end offset; the other folder becomes a stray and is never removed. If
they have different topic ids, because the topic was deleted and created again while a dir was offline, both
are kept until the metadata decides.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ...protocol.errors import KafkaStorageError
from . import names
from .checkpoints import NO_TOPIC_ID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...protocol.model import TopicPartition
    from .log import Log
    from .log_dir import LogDir
    from .log_tasks import LoadTask


def one_of_each(tasks: Sequence[LoadTask]) -> tuple[list[LoadTask], dict[TopicPartition, LoadTask]]:
    """One task per partition, and the second tasks of partitions with two topic ids.

    If one of two logs cannot be loaded, the partition is offline, and both folders stay as they are.
    """
    found: dict[TopicPartition, LoadTask] = {}
    duplicates: dict[TopicPartition, LoadTask] = {}
    for task in tasks:
        name = task.topic_partition
        first = found.get(name)
        if first is None or first.log is None or task.log is None:
            found[name] = _failed_one(first, task)
        elif (
            first.log.topic_id == task.log.topic_id
            or _is_unfinished_creation(first)
            or _is_unfinished_creation(task)
        ):
            found[name] = _newer(first, task)
        elif name in duplicates:
            duplicates[name] = _newer(duplicates[name], task)
        else:
            duplicates[name] = task
    return list(found.values()), duplicates


def set_aside(log: Log, log_dir: LogDir) -> str:
    """Rename the folder of a log to a stray; the new path."""
    log.close_abruptly()
    log.on_truncate = None
    folder = names.suffixed_folder(log.topic_partition, log.topic_id.hex(), names.STRAY_FOLDER)
    path = f"{log_dir.path}/{folder}"
    with contextlib.suppress(KafkaStorageError):  # the dir is offline; the next start renames it
        log_dir.files.rename(log.folder.path, path)
        log_dir.files.fsync_directory(log_dir.path)
    return path


def _failed_one(first: LoadTask | None, task: LoadTask) -> LoadTask:
    if first is None or task is first:
        return task
    bad, other = (task, first) if task.log is None else (first, task)
    if other.log is not None:
        other.log.close_abruptly()
    where = f"{task.topic_partition} lies in {first.log_dir.path} and in {task.log_dir.path}"
    bad.error = KafkaStorageError(f"{where}, and one cannot be loaded: {bad.error}")
    return bad


def _newer(one: LoadTask, other: LoadTask) -> LoadTask:
    loser = min(other, one, key=_age)
    winner = other if loser is one else one
    assert loser.log is not None, "both were loaded"
    assert winner.log is not None, "both were loaded"
    set_aside(loser.log, loser.log_dir)
    where = f"{one.topic_partition} lies in {one.log_dir.path} and in {other.log_dir.path}"
    winner.log.recovery.faults.append(f"{where}; the newer log is used: {winner.log_dir.path}")
    return winner


def _is_unfinished_creation(task: LoadTask) -> bool:
    """An interrupted creation: the log never had a record."""
    return task.log is not None and task.log.topic_id == NO_TOPIC_ID and not task.log.log_end_offset


def _age(task: LoadTask) -> tuple[bool, int, int, int, bool]:
    """Of equal logs the one with the later start is newer, or the one in the checkpoints: an old log leaves
    them first."""
    log = task.log
    assert log is not None, "both were loaded"
    is_listed = task.topic_partition in task.log_dir.recovery_points
    return (
        not _is_unfinished_creation(task),
        log.epochs.latest_epoch,
        log.log_end_offset,
        log.log_start_offset,
        is_listed,
    )


def missing_from(log_dir: LogDir, homes: Mapping[TopicPartition, LogDir]) -> dict[TopicPartition, str]:
    """Partitions that had records according to the checkpoints and have no folder, with the reason for the
    operator. They stay offline: a new log would pass for an empty one."""
    listed = {*folders_of(log_dir)}
    set_aside = {name.rpartition(".")[0] for name in listed if not names.parse_folder_name(name)}
    found: dict[TopicPartition, str] = {}
    for name in sorted(log_dir.recovery_points.keys() | log_dir.high_watermarks.keys()):
        offset = max(log_dir.recovery_points.get(name, 0), log_dir.high_watermarks.get(name, 0))
        if offset <= 0 or name in homes or name.topic == names.METADATA_TOPIC:
            continue
        if str(name) not in listed and str(name) not in set_aside:
            found[name] = (
                f"its folder is missing in {log_dir.path}, where it had records up to offset {offset}; "
                f"restore it, or delete the topic"
            )
    return found


def folders_of(log_dir: LogDir) -> list[str]:
    """All folder names in the dir; none if its disk fails."""
    try:
        listed = log_dir.files.listdir(log_dir.path)
        return [name for name in listed if log_dir.files.is_directory(f"{log_dir.path}/{name}")]
    except KafkaStorageError as error:
        log_dir.files.dir_state.fail_by(error)
        return []
