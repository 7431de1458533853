"""The state of this instance, for `headrace stream status` and `top`. Read from any thread, without locks."""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...protocol.messages.streams_status import (
    InputStatus,
    InstanceStatus,
    OperatorStatus,
    StoreStatus,
    TaskStatus,
    ThreadStatus,
)
from ..metrics.fine_metrics import FineSource, StoreSource
from ..metrics.metrics import ThreadSource
from ..query.errors import StoreMigratedError
from ..state.engines import StateStoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from types import FrameType

    from ..task.restoration import Restoration
    from ..task.standby_task import StandbyTask
    from ..task.task import Task
    from ..worker.thread_io import StreamThread

_SAMPLE_EVERY_S = 0.002
LONGEST_SAMPLE_MS = 5_000


def instance_status(
    process_id: str, state: str, threads: Iterable[StreamThread], now_ms: int, sample_ms: int = 0
) -> InstanceStatus:
    """The state of an instance. `sample_ms`: for how long to look which operators run; the call takes as
    long."""
    found = list(threads)
    operators = _operators(found, min(sample_ms, LONGEST_SAMPLE_MS)) if sample_ms > 0 else ()
    return InstanceStatus(process_id, state, tuple(_thread(each, now_ms) for each in found), operators)


def metric_source(thread: StreamThread) -> ThreadSource:
    """What the metrics of a thread are made of."""
    tasks = [] if thread.manager is None else list(thread.manager.tasks.values())
    dropped = {str(task.id): sum(list(task.context.dropped_records.values())) for task in tasks}
    standbys = [] if thread.manager is None else list(thread.manager.standbys.tasks.values())
    with_stores = [*(each.task for each in standbys), *tasks]
    return ThreadSource(thread.meters, dropped, {str(task.id): _fine(task) for task in with_stores})


def _fine(task: Task) -> FineSource:
    stores = {name: _store_source(task, name) for name in sorted(task.stores)}
    return FineSource(task.context.measures, stores)


def _store_source(task: Task, name: str) -> StoreSource:
    store, engine = task.stores[name], task.context.engines.get(name)
    read, numbers = getattr(engine, "numbers", None), {}
    if read is not None and task.context.gate is not None:
        with suppress(StoreMigratedError, StateStoreError), task.context.gate:
            numbers = read()
    scope = "in-memory" if engine is None else "rocksdb"
    return StoreSource(scope, getattr(store, "num_open_iterators", 0), numbers)


def _thread(thread: StreamThread, now_ms: int) -> ThreadStatus:
    manager, meters = thread.manager, thread.meters
    tasks: list[TaskStatus] = []
    if manager is not None:
        restorations = manager.changelogs.restorations
        for task in sorted(manager.tasks.values(), key=lambda each: each.id):
            meter = meters.tasks.get(task.id)
            inputs = tuple(_inputs(task, manager.commits.committed))
            stores, remaining, eta_ms = _stores(task, restorations.get(task.id), now_ms)
            counts = (0, 0.0) if meter is None else (meter.process.total, meter.process.per_second(now_ms))
            tasks.append(
                TaskStatus(*task.id, "active", task.state.name, inputs, *counts, remaining, eta_ms, stores)
            )
        tasks += [_standby(each) for each in list(manager.standbys.tasks.values())]
    ratios = (each.ratio(now_ms) for each in (meters.process, meters.poll, meters.commit))
    return ThreadStatus(thread.name, thread.member_id, thread.state.value, tuple(tasks), *ratios)


def _inputs(task: Task, committed: Any) -> Iterator[InputStatus]:
    for partition in task.partitions:
        queue, known = task.group.queues.get(partition), committed.get(partition)
        position = max(-1 if known is None else known.offset, 0 if queue is None else queue.consumed + 1)
        time_ms = -1 if queue is None else queue.partition_time
        is_known = known is not None or (queue is not None and queue.consumed >= 0)
        yield InputStatus(*partition, position if is_known else -1, time_ms)


def _stores(
    task: Task, restoration: Restoration | None, now_ms: int
) -> tuple[tuple[StoreStatus, ...], int, int]:
    """The stores of an active task, the records that are left to restore, and how long that takes in ms."""
    places = {}
    remaining = eta_ms = 0
    if restoration is not None and not restoration.is_done:
        for each in restoration.changelogs.values():
            places[each.store_name] = each.position, -1 if each.end is None else each.end
        eta = restoration.eta_ms(now_ms)
        remaining, eta_ms = restoration.remaining, -1 if eta is None else eta
    stores = (_store(task, name, *places.get(name, (-1, -1))) for name in sorted(task.stores))
    return tuple(stores), remaining, eta_ms


def _standby(standby: StandbyTask) -> TaskStatus:
    task, lag = standby.task, standby.lag
    stores = tuple(
        _store(task, each.store_name, each.position, standby.end(partition))
        for partition, each in standby.changelogs.items()
    )
    remaining = -1 if lag is None else lag
    return TaskStatus(*task.id, "standby", task.state.name, remaining=remaining, stores=stores)


def _store(task: Task, name: str, position: int = -1, end: int = -1) -> StoreStatus:
    store, entries, folder = task.stores[name], -1, task.context.folder
    count = getattr(store, "approximate_num_entries", None)
    if count is not None and task.context.gate is not None and store.is_open:
        with suppress(StoreMigratedError), task.context.gate:
            entries = count()
    return StoreStatus(name, entries, -1 if folder is None else _size(folder, name), position, end)


def _size(folder: Path, name: str) -> int:
    """The bytes of the files of a store; -1 for one in memory."""
    places = [*(folder / "rocksdb" / name).glob("*"), *folder.glob(f"{name}.sqlite3*")]
    size, is_here = 0, False
    for place in places:
        with suppress(OSError):  # RocksDB deletes files while it runs
            size += place.stat().st_size
            is_here = True
    return size if is_here else -1


# --- operators --------------------------------------------------------------------------------------------


def _operators(threads: list[StreamThread], sample_ms: int) -> tuple[OperatorStatus, ...]:
    """Looks at the stacks of the stream threads every few ms. Threads that wait count as nothing."""
    found: Counter[tuple[str, int]] = Counter()
    samples = 0
    end = time.monotonic() + sample_ms / 1000
    while time.monotonic() < end:
        frames = sys._current_frames()  # noqa: SLF001  # the documented way to see the stacks of other threads
        for thread in threads:
            frame = None if thread.ident is None else frames.get(thread.ident)
            if frame is not None:
                samples += 1
                found.update(_running(thread, frame))
        del frames
        time.sleep(_SAMPLE_EVERY_S)
    return tuple(OperatorStatus(*where, count / samples) for where, count in found.most_common() if samples)


def _running(thread: StreamThread, frame: FrameType) -> list[tuple[str, int]]:
    manager = thread.manager
    if manager is None:
        return []
    task = _task_in(frame)
    nodes = None if task is None else task.context.nodes
    if task is None or nodes is None:
        return []
    name = nodes.name_of_running(frame)
    return [] if name is None else [(name, task.id.sub_topology)]


def _task_in(frame: FrameType) -> Task | None:
    """The task whose method is among the calls of a frame."""
    from ..task.task import Task

    found: FrameType | None = frame
    while found is not None:
        if found.f_code.co_filename == Task.process_run.__code__.co_filename:
            owner = found.f_locals.get("self")
            if isinstance(owner, Task):
                return owner
        found = found.f_back
    return None
