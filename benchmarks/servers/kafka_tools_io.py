"""Apache Kafka's own performance tools and log cleaner, in JVMs of their own on the clients' cores."""

from __future__ import annotations

import contextlib
import itertools
import random
import string
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.runtime.waiting_io import until

from .. import machine_io
from ..cells import kafka_tool_commands as commands
from ..constants import PARTITIONS
from ..harness import ChildError
from . import kafka_io
from .topics_io import TOPIC_TIMEOUT_S, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..harness import Report, System
    from .children_io import Child, Children

TOOLS, CLEANER = (Path(__file__).with_name(name) for name in ("KafkaTools.java", "KafkaCleaner.java"))
# a heap of fixed size, as large as the start scripts of the tools allow
JVM = ("-Xms512M", "-Xmx512M", "-XX:+UseG1GC", "-Djava.awt.headless=true")
START_TIMEOUT_S, TIMEOUT_S, CLEANER_TIMEOUT_S = 60.0, 120.0, 300.0
VALUES = 1_000  # distinct ones in a file


class KafkaToolsJvm:
    """ProducerPerformance and ConsumerPerformance, one after another in one JVM."""

    def __init__(self, children: Children, scratch: Path, cores: Iterable[int]) -> None:
        self._scratch = scratch
        self._values_files: dict[int, Path] = {}
        self._groups = itertools.count(1)
        command = ["java", *JVM, "-cp", kafka_io.classpath(), str(TOOLS)]
        self._jvm: Child = children.run("kafka-tools", command, cores=cores)
        if self._jvm.line(START_TIMEOUT_S) != "ready":
            raise kafka_io.KafkaError("Kafka's tools did not start")

    def produce(self, system: System, topic: str, spec: Mapping[str, Any]) -> Report:
        """Errors: ChildError, KafkaError, ValueError."""
        wait_for_leaders(system, topic)
        values = str(self._values_file(spec["size"]))
        bootstrap, security = _listener(system, spec)
        config = self._config_file("producer", security) if security else ""
        command = commands.produce_command(bootstrap, topic, spec, values, config)
        return self._run(system, command, commands.parse_produced, spec)

    def consume(self, system: System, topic: str, spec: Mapping[str, Any]) -> Report:
        """Errors: as `produce`."""
        group = f"of-{topic}-{next(self._groups)}"
        bootstrap, security = _listener(system, spec)
        config = self._config_file("consumer", {**commands.CONSUMER_CONFIGS, **security})
        command = commands.consume_command(bootstrap, topic, spec, config, group)
        return self._run(system, command, commands.parse_consumed, spec)

    def _config_file(self, name: str, configs: Mapping[str, str]) -> str:
        path = self._scratch / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in configs.items()))
        return str(path)

    def _run(
        self,
        system: System,
        command: list[str],
        parse: Callable[[str], tuple[int, float]],
        spec: Mapping[str, Any],
    ) -> Report:
        before = self._cpu_s(system)
        self._jvm.send("\t".join(command))
        printed = self._jvm.line(TIMEOUT_S)
        server_s, client_s = (after - at for after, at in zip(self._cpu_s(system), before, strict=True))
        records, seconds = parse(printed)
        return {"records": records, "bytes": records * spec["size"], "seconds": seconds, "output": printed,
                "server_cpu_s": server_s, "client_cpu_s": client_s}  # fmt: skip

    def _cpu_s(self, system: System) -> tuple[float, float]:
        return machine_io.sample_all(system.cpu_pids).cpu_s, machine_io.cpu_seconds(self._jvm.pid)

    def _values_file(self, size: int) -> Path:
        """Lines of text from which ProducerPerformance draws its values."""
        if size not in self._values_files:
            draw = random.Random(size).choices  # the same file in each run and for both systems
            path = self._scratch / f"values-{size}"
            lines = ("".join(draw(string.ascii_letters, k=size)) + "\n" for _ in range(VALUES))
            path.write_text("".join(lines))
            self._values_files[size] = path
        return self._values_files[size]


def _listener(system: System, spec: Mapping[str, Any]) -> tuple[str, Mapping[str, str]]:
    """The address for the tools, and what else their configuration needs."""
    if not spec.get("has_tls"):
        return system.kafka_bootstrap, {}
    assert system.tls is not None, "the group has no TLS"
    return system.tls.sasl_ssl, system.tls.java


def clean(map_bytes: int, folders: Sequence[Path], cores: Iterable[int]) -> Report:
    """Kafka's cleaner over each log in turn, in one JVM; the report of the last one. Errors: ChildError."""
    command = ["java", *kafka_io.SERVER_JVM, "-cp", kafka_io.classpath(), str(CLEANER), str(map_bytes)]
    # the threads of the JIT and of garbage collection get the cores that they would have in a server
    with kafka_io.pinned(cores):
        done = subprocess.run([*command, *map(str, folders)], capture_output=True, text=True,
                              timeout=CLEANER_TIMEOUT_S, check=False)  # fmt: skip
    if done.returncode:
        raise ChildError(f"Kafka's cleaner failed: {done.stdout}{done.stderr}"[-3000:])
    size, seconds, index_s, cpu_s, kept = map(float, done.stdout.splitlines()[-1].split())
    return {"bytes": size, "seconds": seconds, "index_s": index_s, "server_cpu_s": cpu_s, "kept_bytes": kept}


def wait_for_leaders(system: System, topic: str) -> None:
    """Until every leader of a new topic has become leader.

    A leader that does so between the first batches of an idempotent producer appends a later one first.
    Kafka then rejects the earlier ones, and its producer retries them for two minutes. Errors: TimeoutError.
    """
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({"bootstrap.servers": system.kafka_bootstrap}, logger=silent())
    latest = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}

    def has_leaders() -> bool:
        with contextlib.suppress(KafkaException):
            return all(offset.result(TOPIC_TIMEOUT_S) for offset in admin.list_offsets(latest).values())
        return False

    if not until(has_leaders, TOPIC_TIMEOUT_S):
        raise TimeoutError(f"not all partitions of {topic} have a leader")
