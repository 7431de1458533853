"""Which folders of the log dirs are the logs of partitions.

A partition's folder may lie in two log dirs: a crash in the middle of a move between dirs, or of a
creation whose dir then failed, leaves two. Nobody appends to one that has not the other's records: so
whichever went on has the newer epochs, or else the larger end. The other one is set aside as a stray,
never removed.
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


def one_of_each(tasks: Sequence[LoadTask]) -> list[LoadTask]:
    """The tasks whose logs are the partitions', one for each. Errors: KafkaStorageError if a partition
    lies in two dirs as two topics, or cannot be read in one of them."""
    found: dict[TopicPartition, LoadTask] = {}
    for task in tasks:
        first = found.get(task.topic_partition)
        found[task.topic_partition] = task if first is None else _newer(first, task)
    return list(found.values())


def _newer(one: LoadTask, other: LoadTask) -> LoadTask:
    where = f"{one.topic_partition} lies in {one.log_dir.path} and in {other.log_dir.path}"
    if one.log is None or other.log is None:
        raise KafkaStorageError(f"{where}, and cannot be read: {one.error or other.error}")
    ids = {one.log.topic_id, other.log.topic_id}
    empty = [task for task in (one, other) if task.log is not None and _was_never_made(task.log)]
    if len(ids) > 1 and not empty:
        raise KafkaStorageError(f"{where}, as two topics")
    loser = empty[0] if empty else min(other, one, key=lambda task: _age(task.log))
    winner = other if loser is one else one
    _set_aside(loser)
    assert winner.log is not None, "both were read"
    winner.log.recovery.faults.append(f"{where}; the latter or longer one counts: {winner.log_dir.path}")
    return winner


def _was_never_made(log: Log) -> bool:
    """A creation that did not come to its end: nobody has ever appended to it."""
    return log.topic_id == NO_TOPIC_ID and not log.log_end_offset


def _age(log: Log | None) -> tuple[int, int]:
    assert log is not None, "both were read"
    return log.latest_epoch, log.log_end_offset


def _set_aside(task: LoadTask) -> None:
    log, log_dir = task.log, task.log_dir
    assert log is not None, "both were read"
    log.close_abruptly()
    tail = f".{log.topic_id.hex()}{names.STRAY_FOLDER}"
    path = f"{log_dir.path}/{str(task.topic_partition)[: 255 - len(tail)]}{tail}"
    with contextlib.suppress(KafkaStorageError):  # the dir is offline then; the next start does it again
        log_dir.files.rename(log.directory, path)
        log_dir.files.fsync_directory(log_dir.path)


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
