"""The metrics of an instance by the names and groups of Kafka Streams (KIP-444, KIP-607, KIP-869). Pure.

They are computed when they are read: from what threads measure once per turn, and from the state of tasks and
stores. Durations in ms, rates per second over the last 30 to 60 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .fine_metrics import fine_metrics
from .names import CLIENT, STATE, STATE_UPDATER, TASK, THREAD, Level, MetricName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...clients.measured import Measured
    from ...protocol.messages.streams_status import InstanceStatus, StoreStatus, TaskStatus
    from .fine_metrics import FineSource
    from .meters import ThreadMeters


class ThreadSource(NamedTuple):
    """What metrics of one thread are made of. `dropped`: records by task ("0_1") that were not processed;
    `fine`: what tasks with stores, or of the level DEBUG, have besides."""

    meters: ThreadMeters
    dropped: Mapping[str, int]
    fine: Mapping[str, FineSource] = {}


class ClientFacts(NamedTuple):
    """Of the instance."""

    application_id: str
    topology: str
    failed_threads: int


def instance_metrics(
    facts: ClientFacts,
    status: InstanceStatus,
    threads: Mapping[str, ThreadSource],
    level: Level,
    now_ms: int,
) -> dict[MetricName, float | str]:
    """By name; `threads` by the name of the thread."""
    client = (("client-id", f"{facts.application_id}-{status.process_id}"),)
    alive = sum(thread.state != "DEAD" for thread in status.threads)
    found: dict[MetricName, float | str] = {
        MetricName("application-id", CLIENT, client): facts.application_id,
        MetricName("topology-description", CLIENT, client): facts.topology,
        MetricName("state", CLIENT, client): status.state,
        MetricName("alive-stream-threads", CLIENT, client): alive,
        MetricName("failed-stream-threads", CLIENT, client): facts.failed_threads,
    }
    for thread in status.threads:
        tags = (("thread-id", thread.name),)
        source = threads.get(thread.name)
        if source is None:
            continue
        values: dict[str, float | str] = {
            "state": thread.state,
            "thread-start-time": source.meters.started_ms,
            **_thread(source.meters, now_ms),
        }
        found.update((MetricName(name, THREAD, tags), value) for name, value in values.items())
        updater = _updater(source.meters, thread.tasks, now_ms)
        found.update((MetricName(name, STATE_UPDATER, tags), value) for name, value in updater.items())
        for task in thread.tasks:
            task_id = f"{task.sub_topology}_{task.partition}"
            of_task = (*tags, ("task-id", task_id))
            for name, value in _task(task, source, task_id, level, now_ms):
                found[MetricName(name, TASK, of_task)] = value
            for store in task.stores:
                for scope, name, value in _store(store):
                    found[MetricName(name, STATE, (*of_task, (f"{scope}-state-id", store.name)))] = value
            if task_id in source.fine:
                found.update(fine_metrics(source.fine[task_id], of_task, now_ms))
    return found


def _thread(meters: ThreadMeters, now_ms: int) -> dict[str, float]:
    found: dict[str, float] = {}
    operations = {
        "poll": meters.poll,
        "process": meters.process,
        "commit": meters.commit,
        "punctuate": meters.punctuate,
    }
    for name, measured in operations.items():
        found |= {
            f"{name}-latency-avg": measured.average_ms(now_ms),
            f"{name}-latency-max": measured.highest_ms(now_ms),
            f"{name}-ratio": measured.ratio(now_ms),
            **_counted(name, measured, now_ms),
        }
    for name, measured in (("poll", meters.polled), ("process", meters.processed)):
        found[f"{name}-records-avg"] = measured.average_ms(now_ms)
        found[f"{name}-records-max"] = measured.highest_ms(now_ms)
    return {
        **found,
        **_counted("task-created", meters.created, now_ms),
        **_counted("task-closed", meters.closed, now_ms),
    }


def _counted(name: str, measured: Measured, now_ms: int) -> dict[str, float]:
    return {f"{name}-rate": measured.per_second(now_ms), f"{name}-total": measured.total}


def _updater(meters: ThreadMeters, tasks: tuple[TaskStatus, ...], now_ms: int) -> dict[str, float]:
    """Restoration. It runs in the stream thread, so that its time is a part of that of the thread."""
    return {
        "active-restoring-tasks": sum(each.role == "active" and each.state == "RESTORING" for each in tasks),
        "standby-updating-tasks": sum(each.role == "standby" for each in tasks),
        "active-restore-ratio": meters.restored.ratio(now_ms),
        **_counted("restore-records", meters.restored, now_ms),
    }


def _task(
    task: TaskStatus, source: ThreadSource, task_id: str, level: Level, now_ms: int
) -> Iterator[tuple[str, float]]:
    if task.remaining >= 0:
        yield "restore-remaining-records-total", task.remaining
    if task.role != "active":
        return
    yield "dropped-records-total", source.dropped.get(task_id, 0)
    if level < Level.DEBUG:
        return
    yield "process-rate", task.records_per_s
    yield "process-total", task.records
    meter = next((each for key, each in source.meters.tasks.items() if str(key) == task_id), None)
    if meter is not None:
        yield "process-latency-avg", meter.process.average_ms(now_ms)
        yield "process-latency-max", meter.process.highest_ms(now_ms)
        yield "active-process-ratio", meter.process.ratio(now_ms)


def _store(store: StoreStatus) -> Iterator[tuple[str, str, float]]:
    """Scope, name and value. Kafka's names are those of RocksDB's properties."""
    scope = "in-memory" if store.size_bytes < 0 else "rocksdb"
    if store.entries >= 0:
        yield scope, "estimate-num-keys" if scope == "rocksdb" else "num-keys", store.entries
    if store.size_bytes >= 0:
        yield scope, "total-sst-files-size", store.size_bytes
