"""One run: both systems with the same records, then each group in a warm process of its own."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from headrace.benchmarks import kafka_io, machine_io, payload
from headrace.benchmarks.children_io import ChildError, Children, LostDataError
from headrace.benchmarks.group import HEADRACE, KAFKA
from headrace.benchmarks.systems_io import Headrace, Kafka

from . import connector_io
from .cells import PARTITIONS, RATE, SIZE, WRITE, Group, Sizes, cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.benchmarks.children_io import Child

ROOT = Path(__file__).parents[2]
START_TIMEOUT_S = 120.0
CELL_TIMEOUT_S = 180.0
CHUNK = 10_000
# of the log that is read, in both systems
BATCH_BYTES, LINGER_MS = 65_536, 5


class Session:
    """Both systems on one half of the cores, topics filled as they are asked for; as a context."""

    def __init__(self, sizes: Sizes, say: Callable[[str], None]) -> None:
        self._sizes, self._say = sizes, say
        self._exit = contextlib.ExitStack()
        self._topics: set[str] = set()

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
        """Runs of all its cells, what the process said of itself, the memory of two sizes.

        Errors: ChildError, LostDataError.
        """
        sizes = self._sizes
        rows = sizes.rows if group.line else sizes.ray_rows
        self._fill(rows)
        with self._client(group) as (client, about):
            self._say(f"{group.id}: {about}")
            memory = self._memory(client, group, rows)
            for number in range(sizes.warm):
                for face in group.faces:
                    for system in (KAFKA, HEADRACE):
                        self._cell(client, group, face, system, rows)
                self._say(f"{group.id}: warm-up {number + 1} of {sizes.warm}")
            runs = []
            for pair in range(sizes.pairs):
                order = (KAFKA, HEADRACE) if pair % 2 == 0 else (HEADRACE, KAFKA)  # A B B A
                for face in group.faces:
                    for system in order:
                        found = self._cell(client, group, face, system, rows)
                        runs.append({"pair": pair, "cell": cell(face, system), **found})
                        self._say(f"{group.id} {pair + 1}: {cell(face, system)}: {_told(found)}")
        kept = [{"group": group.id, "is_used": True, **run} for run in runs]
        return {"about": about, "runs": kept, "memory": memory}

    @contextlib.contextmanager
    def _client(self, group: Group) -> Iterator[tuple[Child, dict[str, Any]]]:
        """Its process, on as many cores as the group says."""
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

    def _cell(self, client: Child, group: Group, face: str, system: str, rows: int) -> dict[str, Any]:
        """One order, and whether it did what it was told. Errors: ChildError, LostDataError."""
        its = self._systems[system]
        writes = face == WRITE
        topic = "written" if writes else _name(rows)
        rows = self._sizes.written if writes else rows
        if writes:
            its.create_topic(topic, PARTITIONS)
        order = {"face": face, "system": system, "bootstrap": its.bootstrap, "topic": topic, "rows": rows}
        client.tell(json.dumps(order))
        found = json.loads(client.line(CELL_TIMEOUT_S))
        if writes:
            there = its.end_offset(topic)
            its.delete_topic(topic)
        else:
            there = found["rows"]
            if found["bytes"] != rows * SIZE:
                raise LostDataError(f"{group.id}: {found['bytes']:,} bytes of {system}, not {rows * SIZE:,}")
        if there != rows:
            raise LostDataError(f"{group.id}: {there:,} rows of {system}, not {rows:,}")
        found[RATE] = rows / found["seconds"] / group.cores
        found["rows_per_cpu_s"] = rows / found["cpu_s"]
        return dict(found)

    def _memory(self, client: Child, group: Group, large: int) -> list[dict[str, Any]]:
        """The most memory for a small topic, twice, and then for one four times as large, of both systems.

        This comes first: a process keeps what it once had.
        """
        found = []
        small = large // 4 if group.is_memory else 0
        for rows in filter(None, (small, small, large if small else 0)):
            self._fill(rows)
            for system in (KAFKA, HEADRACE):
                told = self._cell(client, group, group.faces[0], system, rows)
                found.append({"group": group.id, "system": system, "rows_read": rows, **told})
                self._say(f"{group.id}: memory for {rows:,} rows of {system}: {_told(told)}")
        return found[2:]  # the first time is of imports

    def _fill(self, rows: int) -> None:
        """The same values into a topic of both systems, unless it is there."""
        topic = _name(rows)
        if topic in self._topics:
            return
        self._topics.add(topic)
        for system in self._systems.values():
            system.create_topic(topic, PARTITIONS)
        _fill_kafka(self._systems[KAFKA].bootstrap, topic, rows)
        _fill_headrace(self._systems[HEADRACE].bootstrap, topic, rows)
        for name, system in self._systems.items():
            if system.end_offset(topic) != rows:
                raise LostDataError(f"{system.end_offset(topic):,} rows in {name}, not {rows:,}")
        self._say(f"{rows:,} rows of {SIZE} bytes into both")


def _name(rows: int) -> str:
    return f"rows-{rows}"


def _told(found: dict[str, Any]) -> str:
    return (
        f"{found[RATE] / 1e6:.2f} M rows/s/core, {found['rows_per_cpu_s'] / 1e6:.2f} M rows/CPU s,"
        f" Python {found['python_mb']:.0f} MB, JVM {found['jvm_mb']:.0f} MB"
    )


def _chunks(rows: int) -> Iterator[tuple[int, list[bytes]]]:
    """Partition and values, the partitions in turn."""
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
