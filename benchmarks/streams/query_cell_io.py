"""`python -m headrace.benchmarks.streams.query_cell_io`: cost and latency of interactive queries.

Three processes beside each other: a cluster with a producer, a worker that counts a topic by key, and this
one, which asks it over its query port. Latency: point queries one after the other, while the worker is idle
and while it counts. Loss: the worker's records per second of CPU time of its process, with and without
10,000 queries/s, of which each request has `--keys` (1: each query is a request of its own).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import socket
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from headrace import NewTopic, int64, stream, utf8
from headrace.services.local_io import local

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

RATE = 10_000
KEYS = 20_000
PARTITIONS = 4
_ASKERS = 8
_PATIENCE_S = 120.0


def application(name: str) -> stream.App:
    """Counts by key."""
    app = stream.App(name, key=utf8, value=int64, commit_interval_ms=1000, replication_factor=1)
    app.stream("numbers").group_by_key().count(store="counts")
    return app


def serve_cluster(pipe: Connection, records: int) -> None:
    """A cluster with a filled topic, until the pipe says that it is over."""
    with local() as cluster:
        cluster.admin().create_topics(NewTopic("numbers", PARTITIONS)).raise_for_errors()
        with cluster.producer(key=utf8, value=int64) as producer:
            for number in range(records):
                producer.send("numbers", number, key=f"k{number * 7919 % KEYS}")
        pipe.send(cluster.bootstrap)
        pipe.recv()


def run_worker(pipe: Connection, bootstrap: str, name: str, port: int, records: int) -> None:
    """Count everything; then tell wall and CPU seconds from the first record on, and wait for the end."""
    with tempfile.TemporaryDirectory() as folder:
        config = {"state.dir": folder, "application.server": f"127.0.0.1:{port}"}
        with application(name).instance(bootstrap, config=config) as instance:
            instance.pause()
            instance.wait_for(stream.InstanceState.RUNNING, timeout_s=_PATIENCE_S)
            pipe.send("ready")
            pipe.recv()
            begin_s, cpu_s = time.monotonic(), time.process_time()
            instance.resume()
            done = 0
            while done < records:
                instance.wait(timeout_s=0.02)  # raises its error, if it has failed
                done = sum(
                    offset
                    for thread in instance.threads
                    for task in thread.tasks
                    for offset in task.committed.values()
                )
            pipe.send((time.monotonic() - begin_s, time.process_time() - cpu_s))
            pipe.recv()


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Asker:
    """Asks at a rate from some threads, until `stop`."""

    def __init__(self, queries: stream.Queries, keys: int) -> None:
        self._queries, self._keys = queries, keys
        self._ends = threading.Event()
        self.answered = 0
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(_ASKERS)]
        for thread in self._threads:
            thread.start()

    def _ask(self, number: int) -> None:
        period_s = _ASKERS * self._keys / RATE
        due_s, at = time.monotonic(), number
        while not self._ends.wait(max(due_s - time.monotonic(), 0)):
            due_s += period_s
            at += 1
            if self._keys == 1:
                self._queries.get("counts", f"k{at % KEYS}")
            else:
                self._queries.get_many(
                    "counts", [f"k{(at * self._keys + i) % KEYS}" for i in range(self._keys)]
                )
            self.answered += self._keys

    def stop(self) -> None:
        """End all threads."""
        self._ends.set()
        for thread in self._threads:
            thread.join()


def latencies(queries: stream.Queries, seconds: float) -> dict[str, float]:
    """Milliseconds of point queries, one after the other."""
    taken: list[float] = []
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s:
        begin_s = time.perf_counter()
        queries.get("counts", f"k{len(taken) % KEYS}")
        taken.append((time.perf_counter() - begin_s) * 1000)
    taken.sort()
    at = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    return {
        "queries": len(taken),
        **{name: round(taken[int(share * len(taken))], 3) for name, share in at.items()},
    }


def one_run(context: Any, bootstrap: str, number: int, records: int, mode: str, keys: int) -> dict[str, Any]:
    """A run of the worker: "alone", "asked" at the rate, or "latency" beside and behind the count."""
    port, name = free_port(), f"queries-{mode}-{keys}-{number}"
    mine, other = context.Pipe()
    worker = context.Process(target=run_worker, args=(other, bootstrap, name, port, records))
    worker.start()
    assert mine.recv() == "ready"
    found: dict[str, Any] = {}
    with application(name).queries(bootstrap, timeout_s=_PATIENCE_S) as queries:
        queries.get("counts", "k0")
        asker = Asker(queries, keys) if mode == "asked" else None
        begin_s = time.monotonic()
        mine.send("go")
        if mode == "latency":
            with ThreadPoolExecutor(1) as pool:
                done = pool.submit(mine.recv)
                busy = []
                while not done.done():
                    busy.append(latencies(queries, 1.0))
                found["busy"] = busy[len(busy) // 2]
                wall_s, cpu_s = done.result()
            found["idle"] = latencies(queries, 5.0)
        else:
            wall_s, cpu_s = mine.recv()
        if asker is not None:
            found["asked_per_s"] = round(asker.answered / (time.monotonic() - begin_s))
            asker.stop()
    mine.send("over")
    worker.join()
    return {"records_per_s": round(records / wall_s), "records_per_cpu_s": round(records / cpu_s), **found}


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=1)
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    mine, other = context.Pipe()
    cluster = context.Process(target=serve_cluster, args=(other, options.records))
    cluster.start()
    bootstrap = mine.recv()
    runs = [
        {"mode": mode, **one_run(context, bootstrap, number, options.records, mode, options.keys)}
        for number in range(options.runs)
        for mode in ("alone", "asked")
    ]
    latency = one_run(context, bootstrap, 0, options.records, "latency", 1)
    mine.send("over")
    cluster.join()
    print(json.dumps({"keys": options.keys, "runs": runs, "latency": latency}, indent=1))


if __name__ == "__main__":
    main()
