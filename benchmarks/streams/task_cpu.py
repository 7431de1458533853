"""`python -m headrace.benchmarks.streams.task_cpu count --records 300000`: CPU time of a task alone.

No broker and no clients: records as a consumer returns them are buffered, and produced ones are dropped.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import random
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from headrace.clients.arrow.layout import ARROW_SCHEMA
from headrace.protocol.model import TopicPartition
from headrace.protocol.records._batch import Record
from headrace.stream.garbage_io import rare_collections
from headrace.stream.processors.arrow_columns import headers_of, timestamps_of
from headrace.stream.processors.arrow_paths import ArrowPath, records_of
from headrace.stream.processors.column_aggregates import AggregatePath
from headrace.stream.processors.named_tables import takes_columns
from headrace.stream.state.files_io import open_engine
from headrace.stream.state.thread_cache import ThreadCache
from headrace.stream.task.columns import ColumnIo
from headrace.stream.task.task import Task, TaskIo
from headrace.stream.topology.column_paths import column_paths

from .cells import START_MS
from .headrace_side import application
from .session_io import LONG

POLL = 1000  # records of one poll
COMMIT_RECORDS = 100_000


def main() -> None:
    """Print records per CPU second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=0, help="rows of Arrow batches, in place of records")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        task = task_of(options.workload, Path(folder), by_column=options.batch > 0)
        records = inputs(options.records, options.keys)
        batches = (
            [batch_of(records[at : at + options.batch]) for at in range(0, len(records), options.batch)]
            if options.batch
            else []
        )
        if options.workload == "join":
            rows = [record.replace(topic="table", timestamp=1) for record in records[: options.keys]]
            run(task, rows, "table")
        gc.collect()
        gc.freeze()  # those of a consumer are not tracked
        profile = cProfile.Profile()
        if options.profile:
            profile.enable()
        started = time.process_time()
        with rare_collections():  # as App.run
            if batches:
                run_columns(task, batches)
            else:
                run(task, records, "in")
        used = time.process_time() - started
        profile.disable()
        print(f"{options.workload}: {options.records / used:,.0f} records per CPU second")
        if options.profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        task.suspend()
        task.close()


def task_of(workload: str, folder: Path, *, by_column: bool = False) -> Task:
    """A running task of an application of `make bench-streams`."""
    order = {"application": "app", "workload": workload, "input": "in", "output": "out", "table": "table",
             "state": str(folder), "guarantee": "at_least_once", "commit": "1000"}  # fmt: skip
    app = application(order)
    topology = app.topology().build("app").sub_topology(0)

    def produce(*_record: Any) -> None:
        """The producer."""

    columns = None
    if by_column:
        found = column_paths(topology, partial(takes_columns, app.settings))
        paths = {
            topic: (ArrowPath if path.aggregate is None else AggregatePath)(path, app.settings)
            for topic, path in found.items()
        }
        columns = ColumnIo(paths, produce, records_of)
    engines = partial(open_engine, folder)
    io = TaskIo(produce, lambda _topic: 4, engines, ThreadCache(10 << 20), columns=columns)
    topics = ["in", "table"] if workload == "join" else ["in"]
    task = Task("app", 0, topology, app.settings, io, topics=topics, wall_ms=START_MS)
    task.initialize()
    task.complete_restoration()
    task.group.use_lags(dict.fromkeys(task.partitions, 0))
    return task


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


def run_columns(task: Task, batches: list[Any]) -> None:
    """Process all batches, with commits."""
    done = 0
    for batch in batches:
        task.add_columns(TopicPartition("in", 0), batch)
        while task.process(START_MS):
            pass
        before, done = done, done + batch.num_rows
        if before // COMMIT_RECORDS != done // COMMIT_RECORDS:
            task.prepare_commit()
            task.post_commit()


def run(task: Task, records: list[Any], topic: str) -> None:
    """Process all records, with commits."""
    for start in range(0, len(records), POLL):
        task.add_records(TopicPartition(topic, 0), records[start : start + POLL])
        while task.process_run(START_MS, POLL) == POLL:
            pass
        if start % COMMIT_RECORDS == 0:
            task.prepare_commit()
            task.post_commit()


if __name__ == "__main__":
    main()
