"""A benchmark harness without servers and processes: cells get reports that a test prepares."""

import contextlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.benchmarks.cells.rates import Rates
from headrace.benchmarks.harness import NO_CONFIGS, LostDataError, Preloaded, Replicas, Usage

Answer = dict[str, Any] | Callable[[dict[str, Any]], dict[str, Any]]


def costs(**figures: Any) -> dict[str, Any]:
    """A client's report of one second: each client process used a tenth of a CPU, the server half of one."""
    return {"seconds": 1.0, "client_cpu_s": 0.1, "server_cpu_s": 0.5, **figures}


def latencies(value: float) -> dict[str, Any]:
    names = ("p50", "p90", "p99", "p99_9", "max", "mean")
    return {**dict.fromkeys(names, value), "curve": [[50.0, value]]}


class FakeSystem:
    """Servers whose end offsets and replicas are set by the test."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.bootstrap, self.kafka_bootstrap = f"{name}:1", f"{name}:2"
        self.node_pids, self.cpu_pids, self.controller_pids = [1], [1, 2], [2]
        self.node_dirs = [Path("/data")]
        self.tls: None = None
        self.replicas = [Replicas(leader=1, in_sync=3), Replicas(leader=2, in_sync=2)]
        self.ends: deque[int] = deque()
        self.calls: list[str] = []

    def create_topic(self, name: str, partitions: int, *, configs: Mapping[str, str] = NO_CONFIGS) -> None:
        self.calls.append(f"create {name}")

    def delete_topic(self, name: str) -> None:
        self.calls.append(f"delete {name}")

    def end_offset(self, topic: str) -> int:
        return self.ends.popleft()

    def replicas_of(self, topic: str) -> list[Replicas]:
        return self.replicas

    def wait_in_sync(self, topic: str, partitions: int, replicas: int = 3) -> None:
        self.calls.append("in sync")

    def node_to_kill(self, topic: str) -> int:
        return self.replicas[0].leader

    def kill(self, node: int) -> None:
        self.calls.append(f"kill {node}")

    def restart(self, node: int) -> None:
        self.calls.append(f"restart {node}")

    def stop(self) -> None:
        self.calls.append("stop")


class FakeProcess:
    """A process that prints the lines of a script and records its input."""

    def __init__(self, order: dict[str, Any], lines: Iterable[str]) -> None:
        self.name, self.pid, self.order = order["loop"], 7, order
        self.lines, self.sent = deque(lines), list[str]()

    def line(self, timeout_s: float) -> str:
        return self.lines.popleft()

    def send(self, line: str) -> None:
        self.sent.append(line)


class FakeHarness:
    """`answers`: the report of each loop, or a function of its order.

    `lines`: what interactive clients print.
    """

    def __init__(self, nodes: int = 1, **answers: Answer) -> None:
        self.nodes, self.answers = nodes, answers
        self.rates = Rates()
        self.scratch = Path("/scratch")
        self.server_cores, self.client_cores = [0], [1, 2]
        self.systems = {name: FakeSystem(name) for name in ("headrace", "kafka")}
        self.loaded: dict[str, Preloaded] = {}
        self.stored: dict[str, Any] | None = None  # the result of `verify`; None: the expected one
        self.lines: dict[str, list[str]] = {}
        self.orders: list[dict[str, Any]] = []
        self.processes: list[FakeProcess] = []
        self.topics: list[str] = []  # existing topics
        self.dropped: list[str] = []
        self.said: list[str] = []
        self.profiles = 0
        self.memory: deque[int] = deque()
        self.clock_ns = 0
        self.tools: Any = None
        self.copies = 0

    def say(self, text: str) -> None:
        self.said.append(text)

    def system(self, name: str) -> FakeSystem:
        return self.systems[name]

    @contextlib.contextmanager
    def start_system(self, name: str) -> Iterator[FakeSystem]:
        system = FakeSystem(name)
        self.systems[f"extra {name}"] = system
        yield system
        system.stop()

    @contextlib.contextmanager
    def topic(self, system: str, partitions: int, configs: Mapping[str, str] = NO_CONFIGS) -> Iterator[str]:
        name = f"topic{len(self.topics)}"
        self.topics.append(name)
        try:
            yield name
        finally:
            self.topics.remove(name)

    def preloaded(self, system: str) -> Preloaded:
        return self.loaded[system]

    def node_dir(self, system: str) -> Path:
        return self.systems[system].node_dirs[0]

    def drop_page_cache(self, system: str, topic: str) -> None:
        self.dropped.append(topic)

    @contextlib.contextmanager
    def profiled(self, system: FakeSystem) -> Iterator[None]:
        self.profiles += 1
        yield

    def run_clients(
        self,
        orders: Sequence[dict[str, Any]],
        system: FakeSystem,
        topic: str,
        *,
        profile: bool = False,
        when_ready: Callable[[], None] | None = None,
    ) -> list[dict[str, Any]]:
        if when_ready is not None:
            when_ready()
        return self.run_workers(orders)

    def run_workers(
        self, orders: Sequence[dict[str, Any]], cores: Iterable[int] | None = None
    ) -> list[dict[str, Any]]:
        self.orders += orders
        answers = [self.answers[order["loop"]] for order in orders]
        return [
            answer(order) if callable(answer) else dict(answer)
            for answer, order in zip(answers, orders, strict=True)
        ]

    @contextlib.contextmanager
    def client(self, order: dict[str, Any]) -> Iterator[FakeProcess]:
        self.processes.append(FakeProcess(order, self.lines[order["loop"]]))
        yield self.processes[-1]

    @contextlib.contextmanager
    def server(self, module: str, *arguments: str) -> Iterator[FakeProcess]:
        self.processes.append(FakeProcess({"loop": module}, self.lines[module]))
        yield self.processes[-1]

    def next_line(self, processes: Collection[FakeProcess], timeout_s: float) -> tuple[int, str] | None:
        for index, process in enumerate(processes):
            if process.lines:
                return index, process.lines.popleft()
        self.sleep(timeout_s)
        return None

    def verify(self, system: FakeSystem, topic: str, expected: dict[str, Any]) -> None:
        if self.stored is not None and self.stored != expected:
            raise LostDataError(f"sent {expected}, read {self.stored}")

    def usage(self, pids: Iterable[int]) -> Usage:
        return Usage(cpu_s=1.0, rss=2_000_000, peak=3_000_000, fds=4, threads=5)

    def memory_bytes(self, system: FakeSystem) -> int:
        return self.memory.popleft()

    @contextlib.contextmanager
    def log_copies(self, spec: Mapping[str, Any], copies: int) -> Iterator[list[Path]]:
        self.copies = copies
        yield [Path(f"/log{number}") for number in range(copies)]

    def clean_with_kafka(self, map_bytes: int, folders: Sequence[Path]) -> dict[str, Any]:
        return {"bytes": 1_000_000, "seconds": 0.5, "server_cpu_s": 0.4, "kept_bytes": 250_000}

    def kafka_tools(self) -> Any:
        return self.tools

    def now_ns(self) -> int:
        return self.clock_ns

    def sleep(self, seconds: float) -> None:
        self.clock_ns += int(seconds * 1e9)
