"""Apache Kafka's own performance tools, against either system's address for Kafka's clients."""

from __future__ import annotations

import contextlib
import itertools
import random
import string
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.runtime.waiting_io import until

from . import kafka_io, machine_io, tools
from .children_io import LostDataError
from .group import PARTITIONS
from .reports import in_turn, with_rates
from .systems_io import TOPIC_TIMEOUT_S, silent

if TYPE_CHECKING:
    from .children_io import Child
    from .group import Cell
    from .session_io import Session
    from .systems_io import System

PROGRAM = Path(__file__).with_name("KafkaTools.java")
# a heap that does not grow while it is measured, as large as the tools' own scripts allow
JVM = ("-Xms512M", "-Xmx512M", "-XX:+UseG1GC", "-Djava.awt.headless=true")
START_TIMEOUT_S, TIMEOUT_S = 60.0, 120.0
VALUES = 1_000  # distinct ones in a file


def produce(session: Session, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
    """What ProducerPerformance reached. Errors: LostDataError."""
    system, topic = session.systems[cell.system], session.new_topic(cell.system, PARTITIONS)
    try:
        with session.profiled(system):
            found = session.tools.produce(system, topic, spec)
        session.verify(system, topic, {"count": spec["count"], "checksum": None})
    finally:
        system.delete_topic(topic)
    return with_rates(found)


def consume(session: Session, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
    """What ConsumerPerformance reached, so many `times` together, of what is loaded.

    `stalls`: 1 when nothing came at all once, and it was asked again. Errors: LostDataError.
    """
    system, loaded = session.systems[cell.system], session.preloaded[cell.system]
    order = {**spec, "count": loaded["count"]}
    reports, stalls = [], 0
    with session.profiled(system):
        while len(reports) < spec["times"]:
            found = session.tools.consume(system, loaded["topic"], order)
            if not found["records"] and not stalls:
                session.say(f"  {cell.name}: nothing came in {tools.PATIENCE_MS / 1000:.0f} s, once more")
                stalls = 1
            elif found["records"] != loaded["count"]:
                raise LostDataError(f"{cell.name} read of {loaded['count']} records: {found['told']}")
            else:
                reports.append(found)
    return {**with_rates(in_turn(reports)), "stalls": stalls}


class KafkaTools:
    """One JVM on the clients' cores, for a whole session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._files: dict[int, Path] = {}
        self._groups = itertools.count(1)
        self._consumer = session.scratch / "consumer.properties"
        self._consumer.write_text("".join(f"{name}={value}\n" for name, value in tools.CONSUMER.items()))
        command = ["java", *JVM, "-cp", kafka_io.classpath(), str(PROGRAM)]
        self._jvm: Child = session.children.run("kafka-tools", command, cores=session.client_cores)
        if self._jvm.line(START_TIMEOUT_S) != "ready":
            raise kafka_io.KafkaError("Kafka's tools did not start")

    def produce(self, system: System, topic: str, spec: dict[str, Any]) -> dict[str, Any]:
        """The report of ProducerPerformance, as a client's of ours. Errors: ChildError, KafkaError."""
        wait_taken(system, topic)
        order = tools.producing(system.kafka_bootstrap, topic, spec, str(self._payload(spec["size"])))
        return self._run(system, order, tools.produced, spec)

    def consume(self, system: System, topic: str, spec: dict[str, Any]) -> dict[str, Any]:
        """The same of ConsumerPerformance."""
        group = f"of-{topic}-{next(self._groups)}"
        order = tools.consuming(system.kafka_bootstrap, topic, spec, str(self._consumer), group)
        return self._run(system, order, tools.consumed, spec)

    def _run(self, system: System, order: list[str], read: Any, spec: dict[str, Any]) -> dict[str, Any]:
        before = self._cpu_s(system)
        self._jvm.tell("\t".join(order))
        told = self._jvm.line(TIMEOUT_S)
        server_s, client_s = (after - begun for after, begun in zip(self._cpu_s(system), before, strict=True))
        records, seconds = read(told)
        return {"records": records, "bytes": records * spec["size"], "seconds": seconds, "told": told,
                "server_cpu_s": server_s, "client_cpu_s": client_s}  # fmt: skip

    def _cpu_s(self, system: System) -> tuple[float, float]:
        return machine_io.sample_all(system.cpu_pids).cpu_s, machine_io.cpu_seconds(self._jvm.pid)

    def _payload(self, size: int) -> Path:
        """A file of values for ProducerPerformance to choose from: text, a line each."""
        if size not in self._files:
            draw = random.Random(size).choices  # the same for both, each time; no secrets hang on it
            path = self._session.scratch / f"values-{size}"
            path.write_text(
                "".join("".join(draw(string.ascii_letters, k=size)) + "\n" for _ in range(VALUES))
            )
            self._files[size] = path
        return self._files[size]


def wait_taken(system: System, topic: str) -> None:
    """Until every leader of a new topic knows that it is one.

    A leader that learns it between the first batches of an idempotent producer takes a later one first; Kafka
    refuses those before it from then on, and its producer tries for two minutes. Errors: TimeoutError.
    """
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({"bootstrap.servers": system.kafka_bootstrap}, logger=silent())
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}

    def is_so() -> bool:
        with contextlib.suppress(KafkaException):
            return all(asked.result(TOPIC_TIMEOUT_S) for asked in admin.list_offsets(wanted).values())
        return False

    if not until(is_so, TOPIC_TIMEOUT_S):
        raise TimeoutError(f"not all partitions of {topic} have leaders that know it")
