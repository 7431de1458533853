"""Rows per second and core of one task that reads and writes Arrow batches: `fetch_arrow`, `write_arrow`,
`prepare_arrow`. The cluster has a process of its own; "per core" counts the CPU time of this process.

    python -m headrace.benchmarks.pipeline_io [rows]
"""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from headrace.clients.pipeline import (
    Planner,
    abort_writes,
    fetch_arrow,
    prepare_arrow,
    read_options,
    write_arrow,
    write_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS, BATCH_ROWS, ROUNDS = 4_000_000, 65_536, 5
SERVER = """
import sys, headrace
with headrace.local() as cluster:
    cluster.admin().create_topics(headrace.NewTopic("t", 4)).raise_for_errors()
    print(cluster.bootstrap, flush=True)
    sys.stdin.read()
"""


def main(rows: int) -> None:
    """Print the median of some rounds for each function."""
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        at = {"bootstrap": server.stdout.readline().strip()}
        values = pa.array([b"x" * 100] * BATCH_ROWS)
        keys = pa.array([b"key %06d" % number for number in range(BATCH_ROWS)])
        plain, keyed = pa.record_batch({"value": values}), pa.record_batch({"key": keys, "value": values})
        writing = write_options({**at, "topic": "t"})

        def prepare() -> int:
            write = prepare_arrow(_batches(plain, rows), writing, query="bench", task=0)
            abort_writes([write], writing)
            return write.report.rows

        _show("write_arrow, value", lambda: write_arrow(_batches(plain, rows), writing).rows)
        _show("write_arrow, key and value", lambda: write_arrow(_batches(keyed, rows), writing).rows)
        _show("prepare_arrow, value", prepare)
        reading = read_options({**at, "subscribe": "t", "maxRecordsPerPartition": rows // 4})
        ranges = Planner(reading).batch().ranges[:4]

        def read(columns: list[str] | None) -> int:
            return sum(
                batch.num_rows for each in ranges for batch in fetch_arrow(each, reading, columns=columns)
            )

        _show("fetch_arrow, all columns", lambda: read(None))
        _show("fetch_arrow, value", lambda: read(["value"]))


def _batches(batch: Any, rows: int) -> Iterator[Any]:
    for _ in range(-(-rows // BATCH_ROWS)):
        yield batch


def _show(name: str, run: Callable[[], int]) -> None:
    run()  # imports and memory allocations
    walls, cores = [], []
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        rows = run()
        walls.append(rows / (time.perf_counter() - wall) / 1e6)
        cores.append(rows / (time.process_time() - cpu) / 1e6)
    print(f"{name:28} {median(walls):6.2f} M rows/s, {median(cores):6.2f} M rows/s per core", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
