"""Which folders of the log dirs are the logs of partitions.

A partition's folder may lie in two log dirs: a crash in the middle of a move between dirs, or of a
creation whose dir then failed, leaves two. Nobody appends to one that has not the other's records: so
whichever went on has the newer epochs, or else the larger end; the other one is set aside as a stray,
never removed. If they are of two topics, because one was deleted and made again while a dir was away, only
the metadata can tell: both are kept until it does.
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
    """The tasks whose logs are the partitions', one for each; and by name those of another topic.

    Where one of two cannot be read nobody can tell: the partition is offline, and both stay as they are.
    """
    found: dict[TopicPartition, LoadTask] = {}
    rivals: dict[TopicPartition, LoadTask] = {}
    for task in tasks:
        name = task.topic_partition
        first = found.get(name)
        if first is None or first.log is None or task.log is None:
            found[name] = _unreadable(first, task)
        elif first.log.topic_id == task.log.topic_id or _was_never_made(first) or _was_never_made(task):
            found[name] = _newer(first, task)
        elif name in rivals:
            rivals[name] = _newer(rivals[name], task)
        else:
            rivals[name] = task
    return list(found.values()), rivals


def set_aside(log: Log, log_dir: LogDir) -> str:
    """Take a log that is no partition's out of its name, as a stray; the new path."""
    log.close_abruptly()
    log.on_truncate = None
    folder = names.suffixed_folder(log.topic_partition, log.topic_id.hex(), names.STRAY_FOLDER)
    path = f"{log_dir.path}/{folder}"
    with contextlib.suppress(KafkaStorageError):  # the dir is offline then; the next start does it again
        log_dir.files.rename(log.folder.path, path)
        log_dir.files.fsync_directory(log_dir.path)
    return path


def _unreadable(first: LoadTask | None, task: LoadTask) -> LoadTask:
    if first is None or task is first:
        return task
    bad, other = (task, first) if task.log is None else (first, task)
    if other.log is not None:
        other.log.close_abruptly()
    where = f"{task.topic_partition} lies in {first.log_dir.path} and in {task.log_dir.path}"
    bad.error = KafkaStorageError(f"{where}, and cannot be read: {bad.error}")
    return bad


def _newer(one: LoadTask, other: LoadTask) -> LoadTask:
    loser = min(other, one, key=_age)
    winner = other if loser is one else one
    assert loser.log is not None, "both were read"
    assert winner.log is not None, "both were read"
    set_aside(loser.log, loser.log_dir)
    where = f"{one.topic_partition} lies in {one.log_dir.path} and in {other.log_dir.path}"
    winner.log.recovery.faults.append(f"{where}; the later or longer one counts: {winner.log_dir.path}")
    return winner


def _was_never_made(task: LoadTask) -> bool:
    """A creation that did not come to its end: nobody has ever appended to it."""
    return task.log is not None and task.log.topic_id == NO_TOPIC_ID and not task.log.log_end_offset


def _age(task: LoadTask) -> tuple[bool, int, int, int, bool]:
    """Of two equal ones that starts later, or is in the checkpoints, which the one that goes leaves first."""
    log = task.log
    assert log is not None, "both were read"
    is_listed = task.topic_partition in task.log_dir.recovery_points
    return (
        not _was_never_made(task),
        log.epochs.latest_epoch,
        log.log_end_offset,
        log.log_start_offset,
        is_listed,
    )


def missing_from(log_dir: LogDir, homes: Mapping[TopicPartition, LogDir]) -> dict[TopicPartition, str]:
    """Partitions that had records by the checkpoints and have no folder, and what to do: to begin them
    anew would pass for an empty log, so they stay offline until the folder or the decision of an operator
    comes."""
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
    """Names of all folders in the dir; none if its disk fails."""
    try:
        listed = log_dir.files.listdir(log_dir.path)
        return [name for name in listed if log_dir.files.is_directory(f"{log_dir.path}/{name}")]
    except KafkaStorageError as error:
        log_dir.files.fuse.blow_by(error)
        return []
