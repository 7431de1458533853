"""What ends a task when a processor fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import (
    ProcessingError,
    ProcessorFailedError,
    StreamsError,
    TaskCorruptedError,
    TaskMigratedError,
    TaskRetryError,
)
from ..state.engines import DamagedStoreError, StateStoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..records import RecordMetadata, TaskId
    from .nodes import Nodes

FLUSH_ROUNDS = 1000
"""Flushes of all stores in one commit. Bound: as many as there are stores are enough, unless writes cause
further writes to the same store."""


def raise_failure(
    task_id: TaskId, nodes: Nodes, error: Exception, node: str, where: RecordMetadata | None
) -> NoReturn:
    """Raise for an error of processing. `node`: if no processor of it is found; `where`: the input record,
    None for one of a punctuator."""
    if isinstance(error, DamagedStoreError):
        raise TaskCorruptedError(f"task {task_id}: {error}", task_id) from error
    if isinstance(error, (TaskMigratedError, TaskRetryError, StateStoreError)):
        raise error  # no record causes it: the record is processed again
    name = nodes.name_of_failed(error, node)
    failure: StreamsError = StreamsError(
        f"processor {name} of task {task_id} failed on a record of a punctuator"
    )
    if isinstance(error, ProcessorFailedError) and error.offsets is not None:
        failure = ProcessingError(str(task_id), name, *error.offsets)
    elif where is not None:
        failure = ProcessingError(str(task_id), name, *where)
    raise failure from cause_of(error)


def cause_of(error: BaseException) -> BaseException | None:
    """The exception of a user's function."""
    return error.__cause__ if isinstance(error, ProcessorFailedError) else error


def endless_flush(task_id: TaskId, stores: Mapping[str, Any]) -> StreamsError:
    """The error for stores that have writes after each of FLUSH_ROUNDS flushes."""
    names = ", ".join(name for name, store in stores.items() if store.has_unflushed)
    return StreamsError(
        f"task {task_id} cannot commit: each flush of {names or 'its stores'} causes further writes; a"
        " processor must not write to a store for every change that it gets of the same store"
    )
