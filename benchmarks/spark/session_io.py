"""One run of `make bench-spark`: both systems with the same records, each group in a warm client process."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from headrace.benchmarks import machine_io, payload
from headrace.benchmarks.constants import HEADRACE, KAFKA
from headrace.benchmarks.harness import ChildError, LostDataError
from headrace.benchmarks.servers import kafka_io
from headrace.benchmarks.servers.children_io import Children
from headrace.benchmarks.servers.headrace_io import Headrace
from headrace.benchmarks.servers.kafka_systems_io import Kafka

from . import connector_io, usage_io
from .cells import (
    CANDIDATES,
    MEMORY,
    PARTITIONS,
    PRODUCER,
    RATE,
    SIZE,
    TIMES_LARGER,
    WRITE,
    Group,
    Sizes,
    as_text,
    cell,
    fastest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.benchmarks.servers.children_io import Child

ROOT = Path(__file__).parents[2]
START_TIMEOUT_S = 120.0
CELL_TIMEOUT_S = 180.0
CHUNK = 10_000
# of the records that are read, in both systems
BATCH_BYTES, LINGER_MS = 65_536, 5


class Session:
    """Both systems on one half of the cores, and their topics; as a context it ends all processes."""

    def __init__(self, sizes: Sizes, say: Callable[[str], None]) -> None:
        self._sizes, self._say = sizes, say
        self._exit = contextlib.ExitStack()
        self._topics: set[tuple[str, str]] = set()
        self._producers: dict[str, dict[str, str]] = {}

    def __enter__(self) -> Self:
        with self._exit:
            home = kafka_io.cache_home()
            home.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(prefix="bench-spark-", dir=home))
            self._exit.callback(shutil.rmtree, scratch, ignore_errors=True)
            self._children = self._exit.enter_context(Children(scratch))
            servers, self._cores = machine_io.split_cores()
            kafka, headrace = Kafka(scratch, servers), None
            self._exit.callback(kafka.stop)
            headrace = Headrace(self._children, scratch, servers)
            self._exit.callback(headrace.stop)
            self._systems = {KAFKA: kafka, HEADRACE: headrace}
            self._exit = self._exit.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._exit.close()

    def run(self, group: Group) -> dict[str, Any]:
        """Runs of all cells, facts about the client process, and its memory for two sizes.

        Errors: ChildError, LostDataError.
        """
        sizes = self._sizes
        rows = sizes.rows * group.cores if group.line else sizes.ray_rows
        self._fill(KAFKA, rows)
        self._fill(HEADRACE, rows)
        self._producers = {KAFKA: PRODUCER, HEADRACE: PRODUCER}
        with self._client(group) as (client, about):
            self._say(f"{group.id}: {about}")
            memory = self._memory(client, group)
            for number in range(sizes.warm):
                for operation in group.operations:
                    for system in (KAFKA, HEADRACE):
                        self._cell(client, group, operation, system, rows)
                self._say(f"{group.id}: warm-up {number + 1} of {sizes.warm}")
            tuned = self._tune(client, group, rows) if WRITE in group.operations else {}
            runs = []
            for pair in range(sizes.pairs):
                order = (KAFKA, HEADRACE) if pair % 2 == 0 else (HEADRACE, KAFKA)  # A B B A
                for operation in group.operations:
                    for system in order:
                        found = self._cell(client, group, operation, system, rows)
                        runs.append({"pair": pair, "cell": cell(operation, system), **found})
                        self._say(f"{group.id} {pair + 1}: {cell(operation, system)}: {_describe(found)}")
        runs = [{"group": group.id, "is_used": True, **run} for run in runs]
        method = {"warm": sizes.warm, "least_s": sizes.least_s, "memory": usage_io.METHOD}
        return {"about": {**about, **method, **tuned}, "runs": runs, "memory": memory}

    def _tune(self, client: Child, group: Group, rows: int) -> dict[str, Any]:
        """Find and use the producer settings with which Kafka's connector writes fastest."""
        rates: list[list[float]] = [[] for _ in CANDIDATES]
        for _ in range(self._sizes.tries):
            for producer, found in zip(CANDIDATES, rates, strict=True):
                self._producers[KAFKA] = producer
                found.append(self._cell(client, group, WRITE, KAFKA, rows)[RATE])
                self._say(f"{group.id}: Kafka's {as_text(producer)}: {found[-1] / 1e6:.2f} M rows/s/core")
        self._producers[KAFKA] = best = CANDIDATES[fastest(rates)]
        self._say(f"{group.id}: Kafka's connector writes with {as_text(best)}")
        return {"kafka_producer": as_text(best)}

    @contextlib.contextmanager
    def _client(self, group: Group) -> Iterator[tuple[Child, dict[str, Any]]]:
        """The group's client process, and its facts."""
        cores = self._cores[: group.cores]
        if group.line:
            python = ROOT / f".venv-spark{group.line.replace('.', '')}" / "bin" / "python"
            arguments = ["spark_side", f"local[{group.cores}]", connector_io.classpath(group.line)]
        else:
            python, arguments = Path(sys.executable), ["ray_side", str(group.cores)]
        if not python.exists():
            raise ChildError(f"there is no {python.relative_to(ROOT)}: run `make bench-spark`")
        module = f"headrace.benchmarks.spark.{arguments[0]}"
        client = self._children.run(group.id, [str(python), "-m", module, *arguments[1:]], cores=cores)
        try:
            yield client, json.loads(client.line(START_TIMEOUT_S))
        finally:
            self._children.end(client)

    def _cell(self, client: Child, group: Group, operation: str, system: str, rows: int) -> dict[str, Any]:
        """Repeat an order until it took `least_s`: sums, and rates. Errors: as `_order`."""
        found: dict[str, Any] = {"rounds": 0, "rows": 0, "seconds": 0.0, "cpu_s": 0.0}
        while not found["rounds"] or found["seconds"] < self._sizes.least_s:
            report = self._order(client, group, operation, system, rows)
            found = {name: value + report.get(name, 1) for name, value in found.items()}
        found[RATE] = found["rows"] / found["seconds"] / group.cores
        found["rows_per_cpu_s"] = found["rows"] / found["cpu_s"]
        return found

    def _order(
        self, client: Child, group: Group, operation: str, system: str, rows: int, *, is_memory: bool = False
    ) -> dict[str, Any]:
        """One order, verified. Errors: ChildError, LostDataError."""
        servers = self._systems[system]
        writes = operation == WRITE
        topic = "written" if writes else _name(rows)
        rows = self._sizes.written * group.cores if writes else rows
        if writes:
            servers.create_topic(topic, PARTITIONS)
        order = {"operation": operation, "system": system, "bootstrap": servers.bootstrap, "topic": topic,
                 "rows": rows, "producer": self._producers.get(system), "is_memory": is_memory}  # fmt: skip
        client.send(json.dumps(order))
        found = dict(json.loads(client.line(CELL_TIMEOUT_S)))
        if writes:
            rows_found = servers.end_offset(topic)
            servers.delete_topic(topic)
        else:
            rows_found = found["rows"]
            if found["bytes"] != rows * SIZE:
                raise LostDataError(f"{group.id}: {found['bytes']:,} bytes of {system}, not {rows * SIZE:,}")
        if rows_found != rows:
            raise LostDataError(f"{group.id}: {rows_found:,} rows of {system}, not {rows:,}")
        return found

    def _memory(self, client: Child, group: Group) -> list[dict[str, Any]]:
        """Peak memory for a small and for a larger topic, headrace before Kafka, and before all other orders:
        processes keep memory once they have it.

        The small topic is read as often as the larger one is larger: a peak grows with the duration.
        """
        found = []
        sizes = self._sizes
        rows_of = (sizes.memory_rows,) * 2 if group.line else sizes.ray_memory_rows
        for system, small in zip((HEADRACE, KAFKA), rows_of, strict=True):
            self._peak_memory(client, group, system, small, 1)  # imports
            for rows, times in ((small, TIMES_LARGER), (small * TIMES_LARGER, 1)):
                peak = self._peak_memory(client, group, system, rows, times)
                found.append({"group": group.id, "system": system, "rows": rows, **peak})
                figures = ", ".join(f"{MEMORY[name]} {peak[name]:.0f} MB" for name in MEMORY if peak[name])
                self._say(f"{group.id}: memory for {rows:,} rows of {system}: {figures}")
        return found

    def _peak_memory(
        self, client: Child, group: Group, system: str, rows: int, times: int
    ) -> dict[str, float]:
        self._fill(system, rows)
        operation = group.operations[0]
        reports = [self._order(client, group, operation, system, rows, is_memory=True) for _ in range(times)]
        return {name: max(report[name] for report in reports) for name in MEMORY}

    def _fill(self, name: str, rows: int) -> None:
        """Fill a topic of a system with `rows` values, the same in both systems, unless it is filled."""
        topic, system = _name(rows), self._systems[name]
        if (name, topic) in self._topics:
            return
        self._topics.add((name, topic))
        system.create_topic(topic, PARTITIONS)
        fill = _fill_kafka if name == KAFKA else _fill_headrace
        fill(system.bootstrap, topic, rows)
        if system.end_offset(topic) != rows:
            raise LostDataError(f"{system.end_offset(topic):,} rows in {name}, not {rows:,}")
        self._say(f"{rows:,} rows of {SIZE} bytes into {name}")


def _name(rows: int) -> str:
    return f"rows-{rows}"


def _describe(found: dict[str, Any]) -> str:
    return (
        f"{found[RATE] / 1e6:.2f} M rows/s/core, {found['rows_per_cpu_s'] / 1e6:.2f} M rows/CPU s,"
        f" {found['seconds']:.2f} s"
    )


def _chunks(rows: int) -> Iterator[tuple[int, list[bytes]]]:
    """(partition, values), the partitions in turn."""
    values = payload.pool(SIZE)
    for number, start in enumerate(range(0, rows, CHUNK)):
        yield number % PARTITIONS, list(islice(values, min(CHUNK, rows - start)))


def _fill_kafka(bootstrap: str, topic: str, rows: int) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "batch.size": BATCH_BYTES,
            "linger.ms": LINGER_MS,
            "queue.buffering.max.messages": 0,
            "queue.buffering.max.kbytes": 256 * 1024,
        }
    )
    for partition, values in _chunks(rows):
        for value in values:
            producer.produce(topic, value, partition=partition)
        while len(producer) > 10 * CHUNK:
            producer.poll(0.01)
    producer.flush()


def _fill_headrace(bootstrap: str, topic: str, rows: int) -> None:
    import pyarrow as pa
    from headrace.clients.pipeline import write_arrow, write_options

    settings = {"bootstrap": bootstrap, "topic": topic, "kafka.linger.ms": LINGER_MS}
    options = write_options({**settings, "kafka.batch.size": BATCH_BYTES})
    batches = (
        pa.record_batch({"value": values, "partition": pa.array([partition] * len(values), pa.int32())})
        for partition, values in _chunks(rows)
    )
    write_arrow(batches, options)
