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
from pathlib import Path
from typing import Any

from headrace.protocol.model import TopicPartition
from headrace.protocol.records._batch import Record
from headrace.stream.garbage_io import rare_collections
from headrace.stream.state.files_io import open_engine
from headrace.stream.state.thread_cache import ThreadCache
from headrace.stream.task.task import Task, TaskIo

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
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        task = task_of(options.workload, Path(folder))
        records = list(inputs(options.records, options.keys))
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
            run(task, records, "in")
        used = time.process_time() - started
        profile.disable()
        print(f"{options.workload}: {options.records / used:,.0f} records per CPU second")
        if options.profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        task.suspend()
        task.close()


def task_of(workload: str, folder: Path) -> Task:
    """A running task of an application of `make bench-streams`."""
    order = {"application": "app", "workload": workload, "input": "in", "output": "out", "table": "table",
             "state": str(folder), "guarantee": "at_least_once", "commit": "1000"}  # fmt: skip
    app = application(order)
    topology = app.topology().build("app").sub_topology(0)

    def produce(*_record: Any) -> None:
        """The producer."""

    io = TaskIo(produce, lambda _topic: 4, lambda store: open_engine(folder, store), ThreadCache(10 << 20))
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
