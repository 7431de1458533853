"""What tasks measure with metrics.recording.level DEBUG and TRACE, and the names under which it is given."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from headrace import stream
from headrace.clients.serdes import utf8
from headrace.protocol.model import TopicPartition
from headrace.runtime.telemetry.stream_table import LABELS, STREAM_METRICS
from headrace.stream import Builder
from headrace.stream.metrics.fine_metrics import RATES, FineSource, StoreSource, fine_metrics
from headrace.stream.metrics.measured_stores import OPERATIONS
from headrace.stream.metrics.measures import TaskMeasures, Totals
from headrace.stream.state.memory_engine import MemoryEngine
from headrace.stream.state.rocksdb_numbers import PROPERTIES, of_statistics
from headrace.stream.state.thread_cache import ThreadCache
from headrace.stream.task.settings import TaskSettings
from headrace.stream.task.task import Task, TaskIo
from headrace.stream.testing.topics import StoredRecord

IN = TopicPartition("in", 0)
NOW_MS = 1000
ON_TASK = (("thread-id", "t"), ("task-id", "0_0"))
CACHE_BYTES = 10**6


def counting() -> Builder:
    """Counts keys, and passes each count on once its window is closed."""
    builder = Builder()
    words = builder.stream("in").group_by_key()
    words.count(store="counts").to_stream().to("out")
    counts = words.windowed_by(stream.tumbling(10, grace=0)).count(store="windows")
    counts.suppress(stream.until_window_closes(name="hold")).to_stream(lambda key, _: key.key).to("closed")
    return builder


def run(builder: Builder, *timestamps: int, is_finest: bool = False, cache: int = 0) -> Task:
    """A measured task that has processed records of one key with these timestamps; the clock of durations
    goes 1 ms per call."""
    topology = builder.build("app", caching=cache > 0).sub_topology(0)
    io = TaskIo(lambda *_: None, lambda _: 1, lambda _: MemoryEngine(), ThreadCache(cache))
    options = TaskSettings(key_serde=utf8, value_serde=utf8)
    task = Task("app", 0, topology, options, io, topics=["in"], wall_ms=0)
    clock = count(0, 1_000_000)
    task.context.measures = TaskMeasures(lambda: NOW_MS, lambda: next(clock), is_finest=is_finest)
    task.initialize()
    task.complete_restoration()
    task.group.use_lags({IN: 0})
    task.add_records(
        IN, [StoredRecord("in", 0, place, time, b"k", b"vv") for place, time in enumerate(timestamps)]
    )
    assert task.process_run(NOW_MS, 100) == len(timestamps)
    task.prepare_commit()
    return task


def values(task: Task, group: str) -> dict[str, Any]:
    """By the last tags and the name, such as "counts:put-rate"."""
    source = FineSource(
        task.context.measures, {"counts": StoreSource("rocksdb", 2, {"num-live-versions": 1})}
    )
    return {
        ":".join([*(tag for _, tag in name.tags[2:]), name.name]): value
        for name, value in fine_metrics(source, ON_TASK, NOW_MS)
        if name.group == group
    }


def test_nodes_count_their_records_and_the_latency_at_both_ends() -> None:
    """A source and nodes without children; a node between them with stores has latencies in TRACE only."""
    task = run(counting(), 100, 400, 700)
    found = values(task, "stream-processor-node-metrics")
    source = "KSTREAM-SOURCE-0000000000"
    assert found[f"{source}:process-total"] == 3
    assert found[f"{source}:process-rate"] == pytest.approx(0.1)
    latencies = [found[f"{source}:record-e2e-latency-{kind}"] for kind in ("min", "avg", "max")]
    assert latencies == [300, 600, 900]
    sinks = [name for name in found if name.startswith("KSTREAM-SINK") and name.endswith("latency-max")]
    assert len(sinks) == 2
    stateful = [name for name in found if "AGGREGATE" in name and name.endswith("process-total")]
    assert sorted(found[name] for name in stateful) == [3, 3]
    assert not any("AGGREGATE" in name and "latency" in name for name in found)
    finest = values(run(counting(), 100, is_finest=True), "stream-processor-node-metrics")
    assert any("AGGREGATE" in name and "latency" in name for name in finest)
    assert found["hold:suppression-emit-total"] == 2  # the third window is open


def test_topics_count_records_and_bytes() -> None:
    """Keys and values; those of sinks, not of changelogs."""
    found = values(run(counting(), 100, 400), "stream-topic-metrics")
    assert found["KSTREAM-SOURCE-0000000000:in:records-consumed-total"] == 2
    assert found["KSTREAM-SOURCE-0000000000:in:bytes-consumed-total"] == 2 * 3
    produced = {name.split(":", 1)[1]: value for name, value in found.items() if "produced" in name}
    assert produced["out:records-produced-total"] == 2
    assert produced["out:bytes-produced-total"] > 2
    assert produced["closed:records-produced-total"] == 1
    assert len(produced) == 4


def test_stores_time_their_operations() -> None:
    """An operation within another one counts once; a buffer has its size."""
    found = values(run(counting(), 100, 400, 700), "stream-state-metrics")
    assert found["counts:put-rate"] == found["counts:get-rate"] == pytest.approx(0.1)
    assert found["counts:put-latency-avg"] == found["counts:put-latency-max"] == 1.0
    assert found["counts:flush-rate"] > 0
    assert (found["counts:num-open-iterators"], found["counts:num-live-versions"]) == (2, 1)
    assert found["windows:put-rate"] == found["windows:fetch-rate"] == pytest.approx(0.1)
    buffers = {name.split(":")[1]: value for name, value in found.items() if "suppression-buffer" in name}
    assert buffers["suppression-buffer-count-max"] == 2
    assert buffers["suppression-buffer-size-max"] > buffers["suppression-buffer-count-max"]


def test_iterators_are_timed_until_they_are_closed() -> None:
    """KIP-989; the clock of durations goes 1 ms per call."""
    task = run(counting(), 100)
    rows = task.stores["counts"].all()
    found = values(task, "stream-state-metrics")
    assert found["counts:oldest-iterator-open-since-ms"] == NOW_MS
    before = found["counts:iterator-duration-max"]
    rows.close()
    found = values(task, "stream-state-metrics")
    assert "counts:oldest-iterator-open-since-ms" not in found
    assert found["counts:iterator-duration-max"] > before == 0
    assert found["counts:iterator-duration-avg"] == found["counts:iterator-duration-max"]


def test_rates_of_the_totals_of_files() -> None:
    """Over 30 to 60 s, from what is read; a database that was opened again begins at 0."""
    totals = Totals()
    times = (0, 0), (15_000, 300), (30_000, 300), (60_000, 900), (90_000, 900), (91_000, 5)
    assert [totals.per_second("bytes", total, at_ms) for at_ms, total in times] == [0, 10, 10, 20, 0, 0]
    measures = run(counting(), 100).context.measures
    assert measures is not None
    source = FineSource(measures, {"counts": StoreSource("rocksdb", 0, {"bytes-written-total": 7})})
    found = {name.name: value for name, value in fine_metrics(source, ON_TASK, NOW_MS)}
    assert (found["bytes-written-total"], found["bytes-written-rate"]) == (7, 0)


def test_hit_ratio_of_record_caches() -> None:
    """Reads that a cache answers."""
    task = run(counting(), 100, cache=CACHE_BYTES)
    for key in ("k", "k", "absent"):
        task.stores["counts"].get(key)
    found = values(task, "stream-record-cache-metrics")
    assert found["counts:hit-ratio-min"] == 0, "the read before the first write"
    assert found["counts:hit-ratio-max"] == pytest.approx(2 / 3)
    assert found["counts:hit-ratio-avg"] == pytest.approx((0 + 1 / 2 + 2 / 3 + 2 / 4) / 4)


def test_without_measures_only_file_properties_are_reported() -> None:
    """As with the level INFO: properties of the files are read when they are asked for."""
    plain = FineSource(None, {"counts": StoreSource("rocksdb", 0, {"num-live-versions": 1})})
    assert {name.name for name, _ in fine_metrics(plain, ON_TASK, NOW_MS)} == {
        "num-open-iterators",
        "num-live-versions",
    }


def test_exporters_know_all_names() -> None:
    """Of nodes, topics, stores and caches, with as many tags as labels; of RocksDB's numbers; of all
    operations."""
    numbers = dict.fromkeys((*PROPERTIES, *of_statistics("")), 1.0)
    task = run(counting(), 100, 400, 700, is_finest=True, cache=CACHE_BYTES)
    task.stores["counts"].all().close()
    source = FineSource(task.context.measures, {"counts": StoreSource("rocksdb", 2, numbers)})
    found = [name for name, _ in fine_metrics(source, ON_TASK, NOW_MS)]
    assert {(name.group, name.name) for name in found} <= STREAM_METRICS.keys()
    kinds = {name.group: len(name.tags) for name in found}
    assert len(kinds) == 4
    assert all(
        tags == len(LABELS[group]) - (group == "stream-state-metrics") for group, tags in kinds.items()
    )
    more = (f"{name}-rate" for name in OPERATIONS.values())
    assert all(("stream-state-metrics", name) in STREAM_METRICS for name in (*more, *RATES.values()))
