"""`python -m headrace.benchmarks.streams.task_cpu count --records 300000`: CPU time of a task alone.

No broker: records as a consumer returns them are buffered, and batches of produced ones are dropped.
`--commit-records 15000` is about what exactly-once has with a commit every 100 ms. `restore` reads the
batches of a changelog.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import random
import tempfile
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from headrace.clients.arrow.layout import ARROW_SCHEMA
from headrace.protocol.model import TopicPartition
from headrace.protocol.records._batch import Record
from headrace.protocol.records.codec import active_codec
from headrace.stream.garbage_io import rare_collections
from headrace.stream.processors.arrow_columns import headers_of, timestamps_of
from headrace.stream.processors.arrow_paths import ArrowPath, records_of
from headrace.stream.processors.column_aggregates import AggregatePath
from headrace.stream.processors.named_tables import takes_columns
from headrace.stream.state.files_io import open_engine
from headrace.stream.state.thread_cache import ThreadCache
from headrace.stream.task.columns import ColumnIo
from headrace.stream.task.restored_writes import to_commit
from headrace.stream.task.task import Task, TaskIo
from headrace.stream.topology.column_paths import column_paths
from headrace.stream.worker.output_io import Output

from .cells import RESTORED_BYTES, START_MS
from .dropped_batches import DroppingProducer
from .headrace_side import application
from .inputs_io import LONG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.stream.task.restoration import Restoration

POLL = 1000  # records of one poll
COMMIT_RECORDS = 100_000
BATCH_RECORDS = 450


def main() -> None:
    """Print records per CPU second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=0, help="rows of Arrow batches, in place of records")
    parser.add_argument("--commit-records", type=int, default=COMMIT_RECORDS)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    producer: Any = DroppingProducer()
    with tempfile.TemporaryDirectory() as folder:
        output = Output(producer, {}, None, frozenset({"app-counts-changelog"}))
        task, restoration = task_of(options.workload, Path(folder), output, by_column=options.batch > 0)
        batches: list[Any] = []
        if options.workload == "restore":
            batches = list(changelog(options.records, options.keys))
        else:
            task.complete_restoration()
            task.group.use_lags(dict.fromkeys(task.partitions, 0))
            records = inputs(options.records, options.keys)
            if options.batch:
                starts = range(0, len(records), options.batch)
                batches = [batch_of(records[at : at + options.batch]) for at in starts]
        if options.workload == "join":
            rows = [record.replace(topic="table", timestamp=1) for record in records[: options.keys]]
            run(task, output, rows, "table", COMMIT_RECORDS)
        gc.collect()
        gc.freeze()  # those of a consumer are not tracked
        profile = cProfile.Profile()
        started = time.process_time()
        with rare_collections(), profile if options.profile else nullcontext():  # as App.run
            if options.workload == "restore":
                restore(restoration, batches)
            elif batches:
                run_columns(task, output, batches, options.commit_records)
            else:
                run(task, output, records, "in", options.commit_records)
        used = time.process_time() - started
        rate = options.records / used
        print(f"{options.workload}: {rate:,.0f} records per CPU second, {producer.records:,} sent")
        if options.profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        task.suspend()
        task.close()


def task_of(
    workload: str, folder: Path, output: Output, *, by_column: bool = False
) -> tuple[Task, Restoration]:
    """A task of an application of `make bench-streams`, whose stores are to be restored."""
    order = {"application": "app", "workload": workload, "input": "in", "output": "out", "table": "table",
             "state": str(folder), "guarantee": "at_least_once", "commit": "1000"}  # fmt: skip
    app = application(order)
    topology = app.topology().build("app").sub_topology(0)
    of_task = output.for_task()
    columns = None
    if by_column:
        found = column_paths(topology, partial(takes_columns, app.settings))
        paths = {
            topic: (ArrowPath if path.aggregate is None else AggregatePath)(path, app.settings)
            for topic, path in found.items()
        }
        columns = ColumnIo(paths, of_task.produce_columns, records_of)
    engines = partial(open_engine, folder)
    cache = ThreadCache(10 << 20)
    io = TaskIo(of_task.produce, lambda _topic: 4, engines, cache, None, columns, of_task.produce_rows)
    topics = ["in", "table"] if workload == "join" else ["in"]
    task = Task("app", 0, topology, app.settings, io, topics=topics, wall_ms=START_MS)
    of_task.collector = task.collector
    return task, task.initialize()


def inputs(count: int, keys: int) -> list[Any]:
    """Records as a consumer returns them."""
    numbers = random.Random(1).choices(range(keys), k=count)
    return [
        Record("in", 0, offset, START_MS + offset, 0, b"user-%08d" % number, LONG.pack(offset), ())
        for offset, number in enumerate(numbers)
    ]


def batch_of(records: list[Any]) -> Any:
    """The same as an Arrow batch of a consumer."""
    columns = {
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.binary()),
        "topic": ["in"] * len(records),
        "partition": pa.array([0] * len(records), pa.int32()),
        "offset": pa.array([record.offset for record in records], pa.int64()),
        "timestamp": timestamps_of([record.timestamp for record in records]),
        "timestampType": pa.array([0] * len(records), pa.int32()),
        "headers": headers_of([()] * len(records)),
    }
    return pa.RecordBatch.from_pydict(columns, schema=ARROW_SCHEMA)


def run_columns(task: Task, output: Output, batches: list[Any], commit_records: int) -> None:
    """Process all batches, with commits."""
    done = 0
    for batch in batches:
        task.add_columns(TopicPartition("in", 0), batch)
        while task.process(START_MS):
            pass
        before, done = done, done + batch.num_rows
        output.poll()
        if before // commit_records != done // commit_records:
            commit(task, output)


def changelog(count: int, keys: int) -> Iterator[bytes]:
    """The batches of a changelog of RESTORED_BYTES per value."""
    generator = random.Random(1)
    numbers = generator.choices(range(keys), k=count)
    pool = [generator.randbytes(RESTORED_BYTES) for _ in range(1000)]
    codec = active_codec()
    for start in range(0, count, BATCH_RECORDS):
        builder = codec.builder(max_bytes=1 << 20)
        for offset in range(start, min(start + BATCH_RECORDS, count)):
            builder.append(START_MS + offset, b"user-%08d" % numbers[offset], pool[offset % 1000])
        yield builder.build()


def restore(restoration: Restoration, batches: list[bytes]) -> None:
    """Restore the store as the stream thread does."""
    ((partition, found),) = restoration.changelogs.items()
    codec, offset, waiting = active_codec(), 0, []
    for batch in batches:
        waiting += codec.decode(batch, topic=partition.topic, partition=0)
        if len(waiting) >= POLL or batch is batches[-1]:
            offset += len(waiting)
            restoration.apply(partition, waiting, offset)
            waiting = []
            for changelog in to_commit([found]):
                changelog.store.commit(offset)
    found.store.commit(offset)


def run(task: Task, output: Output, records: list[Any], topic: str, commit_records: int) -> None:
    """Process all records, with commits."""
    until_commit = 0
    for start in range(0, len(records), POLL):
        task.add_records(TopicPartition(topic, 0), records[start : start + POLL])
        while task.process_run(START_MS, POLL) == POLL:
            pass
        output.poll()
        until_commit -= POLL
        if until_commit <= 0:
            until_commit = commit_records
            commit(task, output)


def commit(task: Task, output: Output) -> None:
    """As a stream thread does, without offsets."""
    task.prepare_commit()
    output.flush()
    task.post_commit()


if __name__ == "__main__":
    main()
