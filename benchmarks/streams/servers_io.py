"""The brokers and the application processes of `make bench-streams`."""

from __future__ import annotations

import contextlib
import shutil
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

from .cells import HEADRACE, PARTITIONS, QUIX, Input, Sample
from .inputs_io import committed_records, fill_headrace, fill_kafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.benchmarks.servers.children_io import Child

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
QUIX_PYTHON = ROOT / ".venv-quix" / "bin" / "python"
JVM = ("-Xms1G", "-Xmx1G", "-Djava.awt.headless=true")
SMALL_JVM = ("-Xms256M", "-Xmx256M", "-Djava.awt.headless=true")
START_TIMEOUT_S = 120.0
RUN_TIMEOUT_S = 300.0
POLL_S = 0.01
# the timestamps of the records are fixed: retention by time would delete them
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
}


class Servers:
    """Both brokers on one half of the cores, each started when it is needed; applications on cores of the
    other. As a context it ends all processes."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self._exit = contextlib.ExitStack()
        self._brokers: dict[str, Any] = {}
        self._filled: set[tuple[str, str]] = set()
        self._number = 0

    def __enter__(self) -> Self:
        with self._exit:
            home = kafka_io.cache_home()
            home.mkdir(parents=True, exist_ok=True)
            self.scratch = Path(tempfile.mkdtemp(prefix="bench-streams-", dir=home))
            self._exit.callback(shutil.rmtree, self.scratch, ignore_errors=True)
            self.children = self._exit.enter_context(Children(self.scratch))
            self.server_cores, self.cores = machine_io.split_cores()
            self._exit = self._exit.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._exit.close()

    def broker(self, system: str) -> Any:
        """The broker of a system's applications."""
        name = _broker_of(system)
        if name not in self._brokers:
            found: Any = (
                Kafka(self.scratch, self.server_cores, SETTINGS)
                if name == constants.KAFKA
                else Headrace(self.children, self.scratch, self.server_cores, settings=SETTINGS)
            )
            self._exit.callback(found.stop)
            self._brokers[name] = found
        return self._brokers[name]

    @contextlib.contextmanager
    def application(
        self, system: str, cores: Sequence[int] | None = None, jvm: Sequence[str] = JVM
    ) -> Iterator[Child]:
        """A process that runs applications of a system by orders. `cores`: the first one of the clients if
        there are none."""
        if system == HEADRACE:
            command = [sys.executable, "-m", "headrace.benchmarks.streams.headrace_side"]
        elif system == QUIX:
            if not QUIX_PYTHON.exists():
                raise ChildError(f"there is no {QUIX_PYTHON.relative_to(ROOT)}: run `make bench-streams`")
            command = [str(QUIX_PYTHON), str(HERE / "quix_side.py")]
        else:
            command = ["java", *jvm, "-cp", classpath(), "StreamsBench"]
        child = self.children.run(system.replace(" ", "-"), command, cores=cores or self.cores[:1])
        try:
            if child.line(START_TIMEOUT_S) != "ready":
                raise ChildError(f"{system} did not start")
            yield child
        finally:
            self.children.end(child)

    def order(self, system: str, workload: str, source: str, **more: str) -> dict[str, str]:
        """The order of a new application that reads a topic; its names and its folder are of its own."""
        self._number += 1
        application = f"app-{self._number}"
        return {
            "workload": workload, "bootstrap": self.broker(system).bootstrap, "application": application,
            "input": source, "output": f"out-{self._number}", "state": str(self.scratch / application),
            "guarantee": "at_least_once", "commit": "1000", **more,
        }  # fmt: skip

    def samples(
        self, children: Sequence[Child], order: dict[str, str], system: str, source: Input, run_s: float
    ) -> list[Sample]:
        """A sample for each commit from the next one on, until the input is consumed or `run_s` of CPU time
        of the processes are used. Of several processes all have committed before the first sample."""
        samples: list[Sample] = []
        last: int | None = 0 if len(children) == 1 else None

        def is_over() -> bool:
            nonlocal last
            now = time.monotonic()
            cpu_s = sum(machine_io.cpu_seconds(child.pid) for child in children)
            offsets = committed()
            records = sum(offsets)
            if last is None:
                last = records if min(offsets) > 0 else None
            elif records != last:
                last = records
                samples.append(Sample(records, now, cpu_s))
            is_consumed = records == source.records
            return is_consumed or bool(samples and cpu_s > samples[0].cpu_s + run_s)

        bootstrap, group = order["bootstrap"], order["application"]
        with committed_records(_broker_of(system), bootstrap, group, order["input"]) as committed:
            if not until(is_over, RUN_TIMEOUT_S, POLL_S):
                raise ChildError(f"{group} has committed {samples[-1:]} after {RUN_TIMEOUT_S:.0f} s")
        return samples

    def fill(self, system: str, source: Input, topic: str = "") -> None:
        """Fill a topic of the broker of a system, unless it is filled."""
        name, topic, broker = _broker_of(system), topic or source.topic, self.broker(system)
        if (name, topic) in self._filled:
            return
        self._filled.add((name, topic))
        broker.create_topic(topic, PARTITIONS)
        fill = fill_kafka if name == constants.KAFKA else fill_headrace
        fill(broker.bootstrap, topic, source)
        if broker.end_offset(topic) != source.records:
            raise LostDataError(f"{broker.end_offset(topic):,} records in {topic}, not {source.records:,}")
        self.say(f"{source.records:,} records into {topic} of {name}")


def _broker_of(system: str) -> str:
    return constants.HEADRACE if system == HEADRACE else constants.KAFKA


def classpath() -> str:
    """The jars of Kafka Streams, downloaded once, and our program, compiled once."""
    version = {"kafka.version": kafka_io.VERSION}
    jars = kafka_io.download(f"bench-streams-{kafka_io.VERSION}", HERE / "streams_pom.xml", version)
    classes = kafka_io.compiled("bench-streams", [HERE / "StreamsBench.java"], jars)
    return f"{classes}:{jars}"


def begin(child: Child, order: dict[str, str], timeout_s: float = START_TIMEOUT_S) -> None:
    """Start an application; it runs on return. Errors: ChildError."""
    send(child, order)
    expect(child, "running", timeout_s)


def send(child: Child, order: dict[str, str]) -> None:
    """Send an order; the answer is "running". Errors: ChildError."""
    child.send(" ".join(f"{name}={value}" for name, value in order.items()))


def stop(child: Child) -> None:
    """Close the application of a process. Errors: ChildError."""
    child.send("stop")
    expect(child, "stopped", RUN_TIMEOUT_S)


def expect(child: Child, wanted: str, timeout_s: float) -> None:
    """Errors: ChildError for another line."""
    line = child.line(timeout_s)
    if line != wanted:
        raise ChildError(f"{child.name} printed {line!r}, not {wanted!r}")


def describe(found: dict[str, Any]) -> str:
    """The figures of a run."""
    return ", ".join(f"{name} {value:,.4g}" for name, value in found.items())
