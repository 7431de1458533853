"""The metrics of an instance."""

from __future__ import annotations

from headrace.protocol.messages.streams_status import InstanceStatus, StoreStatus, TaskStatus, ThreadStatus
from headrace.runtime.telemetry import stream_table
from headrace.runtime.telemetry.samples import Samples
from headrace.runtime.telemetry.stream_table import STREAM_METRICS
from headrace.stream.metrics.exported import write_metrics
from headrace.stream.metrics.meters import ThreadMeters
from headrace.stream.metrics.metrics import ClientFacts, ThreadSource, instance_metrics
from headrace.stream.metrics.names import STATE, STATE_UPDATER, TASK, THREAD, Level, MetricName
from headrace.stream.records import TaskId

ON_THREAD = (("thread-id", "t-1"),)
ON_TASK = (*ON_THREAD, ("task-id", "0_1"))


def metrics(level: Level) -> dict[MetricName, float | str]:
    """A thread that has polled 50 records and processed them in 20 ms, and restores a store."""
    meters = ThreadMeters(1000)
    meters.polled_records(50, 5_000_000, 2000)
    meters.keep({TaskId(0, 1)}, 2000)
    meters.tasks[TaskId(0, 1)].add(50, 20_000_000)
    assert meters.tasks[TaskId(0, 1)].end_turn(0, 2000) == 50
    meters.process.record(20, 2000, 50)
    stores = (StoreStatus("counts", 7, 4096), StoreStatus("seen", 3))
    tasks = (
        TaskStatus(0, 1, "active", "RUNNING", (), 50, 1.5, 0, 0, stores),
        TaskStatus(0, 2, "active", "RESTORING", remaining=9),
        TaskStatus(0, 3, "standby", "RESTORING", remaining=4),
    )
    status = InstanceStatus("p", "RUNNING", (ThreadStatus("t-1", "m", "RUNNING", tasks),))
    threads = {"t-1": ThreadSource(meters, {"0_1": 2})}
    return instance_metrics(ClientFacts("app", "Topologies:", 1), status, threads, level, 3000)


def test_threads_and_their_tasks() -> None:
    """Latencies of a record, totals, and parts of the time."""
    found = metrics(Level.INFO)
    assert found[MetricName("state", "stream-metrics", (("client-id", "app-p"),))] == "RUNNING"
    assert found[MetricName("failed-stream-threads", "stream-metrics", (("client-id", "app-p"),))] == 1
    on_thread = {name.name: value for name, value in found.items() if name.group == THREAD}
    assert (on_thread["process-total"], on_thread["process-latency-avg"]) == (50, 0.4)
    assert (on_thread["poll-records-avg"], on_thread["poll-latency-max"]) == (50, 5)
    assert (on_thread["process-ratio"], on_thread["task-created-total"]) == (0.02, 1)
    updater = {name.name: value for name, value in found.items() if name.group == STATE_UPDATER}
    assert (updater["active-restoring-tasks"], updater["standby-updating-tasks"]) == (1, 1)
    assert found[MetricName("dropped-records-total", TASK, ON_TASK)] == 2
    remaining = {
        name.tags[1][1]: value for name, value in found.items() if name.name.startswith("restore-rem")
    }
    assert remaining == {"0_1": 0, "0_2": 9, "0_3": 4}


def test_store_metrics_have_rocksdb_names() -> None:
    """By the names of RocksDB's properties; a store in memory counts its keys."""
    found = metrics(Level.INFO)
    on_disk, in_memory = (
        (*ON_TASK, ("rocksdb-state-id", "counts")),
        (*ON_TASK, ("in-memory-state-id", "seen")),
    )
    assert found[MetricName("estimate-num-keys", STATE, on_disk)] == 7
    assert found[MetricName("total-sst-files-size", STATE, on_disk)] == 4096
    assert found[MetricName("num-keys", STATE, in_memory)] == 3


def test_task_rates_and_latencies_are_debug_metrics() -> None:
    """The rates and latencies of tasks are DEBUG."""
    fine = metrics(Level.DEBUG)
    assert fine.keys() - metrics(Level.INFO).keys() == {
        MetricName(name, TASK, (*ON_THREAD, ("task-id", task)))
        for task, names in (("0_1", 5), ("0_2", 2))
        for name in (
            "process-rate",
            "process-total",
            "process-latency-avg",
            "process-latency-max",
            "active-process-ratio",
        )[:names]
    }
    assert fine[MetricName("process-latency-avg", TASK, ON_TASK)] == 0.4
    assert metrics(Level.TRACE).keys() == fine.keys()


def test_exporters_get_all_values() -> None:
    """Each number is declared under its group, and fits its labels; a state is a label, other texts are left
    out."""
    found, samples = metrics(Level.DEBUG), Samples()
    write_metrics(found, samples)
    samples.check()
    assert len(samples) == len(found) - 2  # without the application's id and topology
    exported = {(metric.type, metric.name) for metric, _ in samples}
    assert exported == {(name.group, name.name) for name in found} - {
        (stream_table.CLIENT, "application-id"),
        (stream_table.CLIENT, "topology-description"),
    }
    put = STREAM_METRICS[STATE, "total-sst-files-size"]
    assert samples.get(put, "t-1", "0_1", "rocksdb", "counts") == 4096
    state = STREAM_METRICS[THREAD, "state"]
    assert samples.get(state, "t-1", "RUNNING") == 1
