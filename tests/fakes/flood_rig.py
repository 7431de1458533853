"""Floods of wrong passwords at a node in its own process, and users who are served meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import flooded_cluster
import headrace
import password_flood
from confluent_kafka import Producer
from flooded_cluster import PASSWORD, TOPIC, USER
from headrace.runtime.repeats import INTERVAL_MS
from waiting import wait_for

TIMEOUT_S = 60.0
GROWTH_MIB = 100
PAUSE_S = 0.005  # of each user, between two records


@dataclass
class User:
    """Sends records, one after the other, on one plane."""

    latencies_s: list[tuple[float, float]] = field(default_factory=list)  # begin, duration
    errors: list[str] = field(default_factory=list)

    def note(self, begun_s: float, error: object) -> None:
        self.latencies_s.append((begun_s, time.monotonic() - begun_s))
        if error is not None:
            self.errors.append(str(error))

    def between(self, begin_s: float, end_s: float) -> str:
        """The latencies of records that were sent then."""
        found = sorted(each for begun_s, each in self.latencies_s if begin_s <= begun_s < end_s)
        if not found:
            return "none"
        places = {"p50": len(found) // 2, "p99": len(found) * 99 // 100, "max": -1}
        return " ".join(f"{name} {found[place] * 1000:.0f} ms" for name, place in places.items())


class FloodedNode:
    """The node, and users on both planes that send records until the end; all records are read."""

    def __init__(self, directory: Path) -> None:
        self.log = directory / "node.log"
        self._is_over = threading.Event()
        self._is_sent = threading.Event()  # all records are
        self.native, self.kafka = User(), User()
        self.received = 0

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, flooded_cluster.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.addresses = self._read()
        users = (self._send_natively, self._send_to_kafka, self._receive)  # the reader is the last
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in users
        ]  # the reader is the last
        for thread in self._threads:
            thread.start()
        wait_for(lambda: self.native.latencies_s and self.kafka.latencies_s, "records are acknowledged")
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads[:-1]:
            thread.join(TIMEOUT_S)
        self._is_sent.set()
        self._threads[-1].join(TIMEOUT_S)
        self._process.communicate(timeout=TIMEOUT_S)

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def failures(self) -> dict[str, int]:
        """Failed authentications so far, by plane."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, int] = self._read()
        return found

    @property
    def memory_mib(self) -> int:
        """Resident memory of the node."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * 4096 >> 20

    @property
    def sent(self) -> int:
        """Acknowledged records."""
        return len(self.native.latencies_s) + len(self.kafka.latencies_s)

    # --- users ------------------------------------------------------------------------------------------

    def _send_natively(self) -> None:
        with headrace.Producer(self.addresses["native"], config=self.addresses["config"]) as producer:
            while not self._is_over.wait(PAUSE_S):
                begun_s = time.monotonic()
                error = producer.send(TOPIC, b"native").exception(TIMEOUT_S)
                self.native.note(begun_s, error)

    def _send_to_kafka(self) -> None:
        config = {
            "bootstrap.servers": self.addresses["kafka"],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "linger.ms": 0,
        }
        producer, reports = Producer(config), []
        while not self._is_over.wait(PAUSE_S):
            begun_s = time.monotonic()
            producer.produce(TOPIC, b"kafka", on_delivery=lambda error, _: reports.append(error))
            left = producer.flush(TIMEOUT_S)
            self.kafka.note(begun_s, "not delivered" if left else reports.pop())

    def _receive(self) -> None:
        config = self.addresses["config"]
        with headrace.Consumer(
            TOPIC, bootstrap=self.addresses["native"], auto_offset_reset="earliest", config=config
        ) as consumer:
            while not (self._is_sent.is_set() and self.received >= self.sent):
                self.received += len(consumer.poll(0.1))

    # --- a flood ----------------------------------------------------------------------------------------

    def flood(self, plane: str, mechanism: str, seconds: float, connections: int, processes: int = 2) -> str:
        """Let processes try wrong passwords; check that users are served, and that log and memory stay small.
        Returns the measurements."""
        before, memory_mib, begin_s = self.failures(), self.memory_mib, time.monotonic()  # with the start-up
        size = self.log.stat().st_size
        key = [self.addresses["key"]] if plane == "native" else []
        with _flooding(
            [plane, self.addresses[plane], mechanism, str(seconds), str(connections), *key], processes
        ) as answers:
            peak_mib = memory_mib
            for each in answers:
                while each.poll() is None:
                    peak_mib = max(peak_mib, self.memory_mib)
                    with suppress(subprocess.TimeoutExpired):
                        each.wait(0.05)
            answered = sum(int(each.communicate()[0].split()[0]) for each in answers)
        end_s, counted = time.monotonic(), self.failures()[plane] - before[plane]
        figures = (
            f"{plane} {mechanism}: {counted / seconds:,.0f} wrong passwords a second; records of native users"
            f" {self.native.between(begin_s, end_s)}, of Kafka's users {self.kafka.between(begin_s, end_s)};"
            f" memory {memory_mib} to {peak_mib} MiB"
        )
        assert 0 < answered <= counted, figures
        assert (self.native.errors, self.kafka.errors) == ([], []), figures
        lines = self.log.read_bytes()[size:].decode().splitlines()
        about = [line for line in lines if "authentication of" in line]
        assert len(about) <= 2 + (end_s - begin_s) * 1000 / INTERVAL_MS, about
        assert password_flood.WRONG not in "".join(lines)
        assert peak_mib - memory_mib < GROWTH_MIB, figures
        for user in (self.native, self.kafka):
            assert sum(begin_s <= begun_s < end_s for begun_s, _ in user.latencies_s) > seconds, figures
        return figures


@contextmanager
def _flooding(arguments: list[str], processes: int) -> Iterator[list[subprocess.Popen[str]]]:
    started = [
        subprocess.Popen(
            [sys.executable, password_flood.__file__, *arguments], stdout=subprocess.PIPE, text=True
        )
        for _ in range(processes)
    ]
    try:
        yield started
    finally:
        for each in started:
            each.kill()
            each.wait()
