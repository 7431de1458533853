"""One run of `make bench-streams`: both brokers with the same records, each application on one core."""

from __future__ import annotations

import contextlib
import math
import random
import shutil
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from headrace.benchmarks import constants, machine_io
from headrace.benchmarks.harness import ChildError, LostDataError
from headrace.benchmarks.servers import kafka_io
from headrace.benchmarks.servers.children_io import Children
from headrace.benchmarks.servers.headrace_io import Headrace
from headrace.benchmarks.servers.kafka_systems_io import Kafka
from headrace.runtime.waiting_io import until

from .cells import (
    HEADRACE,
    JAVA,
    PARTITIONS,
    PEAK_MB,
    QUIX,
    SECONDS,
    START_MS,
    Group,
    Input,
    Sample,
    rates,
    rounds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.benchmarks.servers.children_io import Child

    from .cells import Sizes

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
QUIX_PYTHON = ROOT / ".venv-quix" / "bin" / "python"
JVM = ("-Xms1G", "-Xmx1G", "-Djava.awt.headless=true")
START_TIMEOUT_S = 120.0
RUN_TIMEOUT_S = 300.0
POLL_S = 0.01
CHUNK = 100_000
LONG = struct.Struct(">q")


class Session:
    """Both brokers on one half of the cores, applications on one core of the other; as a context it ends all
    processes."""

    def __init__(self, sizes: Sizes, say: Callable[[str], None]) -> None:
        self._sizes, self._say = sizes, say
        self._exit = contextlib.ExitStack()
        self._filled: set[tuple[str, str]] = set()
        self._number = 0

    def __enter__(self) -> Self:
        with self._exit:
            home = kafka_io.cache_home()
            home.mkdir(parents=True, exist_ok=True)
            self._scratch = Path(tempfile.mkdtemp(prefix="bench-streams-", dir=home))
            self._exit.callback(shutil.rmtree, self._scratch, ignore_errors=True)
            self._children = self._exit.enter_context(Children(self._scratch))
            servers, clients = machine_io.split_cores()
            self._core = clients[:1]
            # the timestamps of the records are fixed: retention by time would delete them
            settings = {"group.initial.rebalance.delay.ms": "0", "log.retention.ms": "-1"}
            kafka = Kafka(self._scratch, servers, settings)
            self._exit.callback(kafka.stop)
            headrace = Headrace(self._children, self._scratch, servers, settings=settings)
            self._exit.callback(headrace.stop)
            self._brokers: dict[str, Any] = {constants.KAFKA: kafka, constants.HEADRACE: headrace}
            self._exit = self._exit.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._exit.close()

    def run(self, group: Group) -> list[dict[str, Any]]:
        """The runs of a group. Errors: ChildError, LostDataError."""
        runs = []
        with contextlib.ExitStack() as jvms:
            java = jvms.enter_context(self._application(JAVA)) if JAVA in group.systems else None
            for pair, cell in rounds(group.systems, self._sizes):
                system = group.system_of(cell)
                if pair < 0 and (system == QUIX or group.grows):
                    continue  # a process of its own for each run: nothing to warm up
                context = contextlib.nullcontext(java) if system == JAVA else self._application(system)
                with context as child:
                    assert child is not None
                    found = self._run(child, group, cell)
                self._say(f"{group.id} {pair + 1}: {cell}: {_describe(found)}")
                if pair >= 0:
                    runs.append({"group": group.id, "pair": pair, "cell": cell, "is_used": True, **found})
        return runs

    @contextlib.contextmanager
    def _application(self, system: str) -> Iterator[Child]:
        """A process that runs applications of a system by orders."""
        if system == HEADRACE:
            command = [sys.executable, "-m", "headrace.benchmarks.streams.headrace_side"]
        elif system == QUIX:
            if not QUIX_PYTHON.exists():
                raise ChildError(f"there is no {QUIX_PYTHON.relative_to(ROOT)}: run `make bench-streams`")
            command = [str(QUIX_PYTHON), str(HERE / "quix_side.py")]
        else:
            command = ["java", *JVM, "-cp", classpath(), "StreamsBench"]
        child = self._children.run(system.replace(" ", "-"), command, cores=self._core)
        try:
            if child.line(START_TIMEOUT_S) != "ready":
                raise ChildError(f"{system} did not start")
            yield child
        finally:
            self._children.end(child)

    def _run(self, child: Child, group: Group, cell: str) -> dict[str, Any]:
        name = constants.HEADRACE if group.system_of(cell) == HEADRACE else constants.KAFKA
        broker = self._brokers[name]
        source = group.input(self._sizes, cell)
        self._fill(name, source)
        self._number += 1
        application = f"app-{self._number}"
        state = self._scratch / application
        order = {
            "workload": group.workload, "bootstrap": broker.bootstrap, "application": application,
            "input": source.topic, "output": f"out-{self._number}", "state": str(state),
            "guarantee": group.guarantee, "commit": str(group.commit_ms),
        }  # fmt: skip
        if group.workload == "join":
            self._fill(name, group.table())
            order["table"] = group.table().topic
        topics = [order["output"]]
        if group.workload == "restore":
            order["input"] = f"empty-{self._number}"
            topics += [order["input"], f"{application}-latest-changelog"]
            self._fill(name, source, topics[-1])
        for topic in topics[:2]:
            broker.create_topic(topic, PARTITIONS)
        try:
            if group.workload == "restore":
                return self._restore(child, order, source)
            return self._process(child, order, name, source, is_whole=group.grows)
        finally:
            for topic in topics:
                broker.delete_topic(topic)
            shutil.rmtree(state, ignore_errors=True)

    def _restore(self, child: Child, order: dict[str, str], source: Input) -> dict[str, Any]:
        """The time from the start of an application without files until its stores are restored."""
        started, cpu_s = time.monotonic(), machine_io.cpu_seconds(child.pid)
        child.send(_text(order))
        _expect(child, "running", RUN_TIMEOUT_S)
        found = {
            SECONDS: time.monotonic() - started,
            "cpu_s": machine_io.cpu_seconds(child.pid) - cpu_s,
            "records": source.records,
            PEAK_MB: machine_io.sample(child.pid).peak / 1e6,
        }
        child.send("stop")
        _expect(child, "stopped", RUN_TIMEOUT_S)
        return found

    def _process(
        self, child: Child, order: dict[str, str], name: str, source: Input, *, is_whole: bool
    ) -> dict[str, Any]:
        """`is_whole`: the whole input is processed, and its rate does not count."""
        child.send(_text(order))
        _expect(child, "running", START_TIMEOUT_S)
        run_s = math.inf if is_whole else self._sizes.run_s
        samples = self._samples(child, order, name, source, run_s)
        peak = machine_io.sample(child.pid).peak / 1e6
        child.send("stop")
        _expect(child, "stopped", RUN_TIMEOUT_S)
        if not self._brokers[name].end_offset(order["output"]):
            raise LostDataError(f"{order['application']} wrote nothing")
        found = {"records": source.records} if is_whole else rates(samples, source.records)
        return {**found, PEAK_MB: peak}

    def _samples(
        self, child: Child, order: dict[str, str], name: str, source: Input, run_s: float
    ) -> list[Sample]:
        """A sample for each commit, until the input is consumed or `run_s` of CPU time are used."""
        samples: list[Sample] = []

        def is_over() -> bool:
            now, cpu_s, records = time.monotonic(), machine_io.cpu_seconds(child.pid), committed()
            if records != (samples[-1].records if samples else 0):
                samples.append(Sample(records, now, cpu_s))
            is_consumed = records == source.records
            return is_consumed or bool(samples and cpu_s > samples[0].cpu_s + run_s)

        bootstrap = self._brokers[name].bootstrap
        with _committed(name, bootstrap, order["application"], source.topic) as committed:
            if not until(is_over, RUN_TIMEOUT_S, POLL_S):
                raise ChildError(
                    f"{order['application']} has committed {samples[-1:]} after {RUN_TIMEOUT_S:.0f} s"
                )
        return samples

    def _fill(self, name: str, source: Input, topic: str = "") -> None:
        """Fill a topic of a broker, unless it is filled."""
        topic, broker = topic or source.topic, self._brokers[name]
        if (name, topic) in self._filled:
            return
        self._filled.add((name, topic))
        broker.create_topic(topic, PARTITIONS)
        fill = _fill_kafka if name == constants.KAFKA else _fill_headrace
        fill(broker.bootstrap, topic, source)
        if broker.end_offset(topic) != source.records:
            raise LostDataError(f"{broker.end_offset(topic):,} records in {topic}, not {source.records:,}")
        self._say(f"{source.records:,} records into {topic} of {name}")


def classpath() -> str:
    """The jars of Kafka Streams, downloaded once, and our program, compiled once."""
    version = {"kafka.version": kafka_io.VERSION}
    jars = kafka_io.download(f"bench-streams-{kafka_io.VERSION}", HERE / "streams_pom.xml", version)
    classes = kafka_io.compiled("bench-streams", [HERE / "StreamsBench.java"], jars)
    return f"{classes}:{jars}"


def _text(order: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in order.items())


def _expect(child: Child, wanted: str, timeout_s: float) -> None:
    line = child.line(timeout_s)
    if line != wanted:
        raise ChildError(f"{child.name} printed {line!r}, not {wanted!r}")


def _describe(found: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:,.4g}" for name, value in found.items())


@contextlib.contextmanager
def _committed(name: str, bootstrap: str, group: str, topic: str) -> Iterator[Callable[[], int]]:
    """A function that gives the number of records of `topic` that the group has committed."""
    if name == constants.KAFKA:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        try:
            yield lambda: sum(max(found.offset, 0) for found in consumer.committed(places, timeout=10))
        finally:
            consumer.close()
        return
    import headrace

    with headrace.Consumer(bootstrap=bootstrap, group_id=group) as ours:
        tps = [headrace.TopicPartition(topic, number) for number in range(PARTITIONS)]
        yield lambda: sum(found.offset for found in ours.committed(*tps).values() if found is not None)


def _chunks(source: Input) -> Iterator[tuple[int, list[bytes], list[bytes], int]]:
    """(partition, keys, values, first timestamp). A key is in one partition only: it is the number of the key
    modulo the partitions, in both systems."""
    generator = random.Random(source.keys)
    is_table = source.records == source.keys
    pool = [generator.randbytes(source.value_bytes) for _ in range(1000)] if source.value_bytes else []
    per_partition = source.records // PARTITIONS
    for start in range(0, per_partition, CHUNK):
        for partition in range(PARTITIONS):
            places = range(start, min(start + CHUNK, per_partition))
            each = source.keys // PARTITIONS
            numbers = places if is_table else generator.choices(range(each), k=len(places))
            keys = [b"user-%08d" % (number * PARTITIONS + partition) for number in numbers]
            values = [pool[place % 1000] if pool else LONG.pack(place) for place in places]
            yield partition, keys, values, (0 if is_table else START_MS) + start * PARTITIONS


def _fill_kafka(bootstrap: str, topic: str, source: Input) -> None:
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "batch.size": 65_536, "linger.ms": 5,
                "queue.buffering.max.messages": 0, "queue.buffering.max.kbytes": 256 * 1024}  # fmt: skip
    producer = Producer(settings)
    for partition, keys, values, first in _chunks(source):
        for place, (key, value) in enumerate(zip(keys, values, strict=True)):
            timestamp = first + place * PARTITIONS
            producer.produce(topic, value, key, partition, timestamp=max(timestamp, 1))
        while len(producer) > CHUNK:
            producer.poll(0.01)
    producer.flush()


def _fill_headrace(bootstrap: str, topic: str, source: Input) -> None:
    import headrace
    import pyarrow as pa

    settings = {"batch.size": 65_536, "linger.ms": 5}
    with headrace.Producer(bootstrap=bootstrap, config=settings) as producer:
        for partition, keys, values, first in _chunks(source):
            times = range(first, first + len(keys) * PARTITIONS, PARTITIONS)
            columns = {
                "key": pa.array(keys, pa.binary()),
                "value": pa.array(values, pa.binary()),
                "partition": pa.array([partition] * len(keys), pa.int32()),
                "timestamp": pa.array([max(time_ms, 1) for time_ms in times], pa.timestamp("ms", "UTC")),
            }
            producer.send_arrow(topic, pa.table(columns)).raise_for_errors()
