"""Copiers in processes of their own: each copies records of one topic into another, exactly once.

Record N of partition P of the source goes to partition P of the target. At the end the target must have the
same records in the same order, and so must a read_committed consumer that ran all the time.
"""

import itertools
import os
import signal
import threading
import time
from collections import defaultdict
from typing import Any, Self

import copier_process
import process_log
from fault_cluster import FaultCluster
from forking import Forked
from headrace import TopicPartition
from waiting import wait_for

SOURCE, TARGET = "source", "target"
IN_PARTITIONS, OUT_PARTITIONS = 2, 3
INTERNAL = ("__consumer_offsets", "__transaction_state")
END_S = 120.0
LIVES = 20  # a copier that ends by itself this often makes no progress
LOG_TAIL_CHARS = 3_000


class CopierProcess:
    """One copier; `copied` counts the committed records that all its processes reported."""

    def __init__(self, cluster: FaultCluster, name: str, size: int, options: dict[str, Any]) -> None:
        self.name, self.lives, self.copied, self.aborted = name, 0, 0, 0
        self._program = [
            copier_process.__file__, cluster.bootstrap, name, SOURCE, TARGET, str(size), repr(options)
        ]  # fmt: skip
        self._log_path = cluster.directory / f"{name}.log"
        self._process: Forked | None = None

    def start(self) -> None:
        """Start its next process."""
        self.lives += 1
        environment = {**os.environ, process_log.VARIABLE: "INFO"}
        with self._log_path.open("ab") as log:
            self._process = Forked(self._program, log=log, environment=environment)
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def kill(self) -> None:
        """Send SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Send SIGTERM; the exit code must be 0."""
        assert self._end(signal.SIGTERM) == 0, self.log_tail()

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def log_tail(self) -> str:
        """The end of its output."""
        return f"--- {self.name}\n{self._log_path.read_text(errors='replace')[-LOG_TAIL_CHARS:]}"

    def _end(self, number: int) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(60)

    def _listen(self, process: Forked) -> None:
        with process.stdout:
            for line in map(bytes.decode, process.stdout):
                word, _, rest = line.partition(" ")
                if word == "copied":
                    self.copied += int(rest)
                else:
                    self.aborted += 1


class Copying:
    """A topic that is filled and copied under faults: `start`, faults, `finish`. A context manager."""

    def __init__(
        self,
        cluster: FaultCluster,
        *,
        records: int,
        size: int,
        bounces: int,
        copiers: int = 2,
        **options: Any,
    ) -> None:
        self.cluster = cluster
        self.sent: dict[int, list[bytes]] = {}
        self.seen: dict[int, list[bytes]] = defaultdict(list)
        self.bounces = 0
        self._piece = records // (bounces + 1)
        self._numbers = itertools.count()
        self._producer: Any = None
        self._copiers = [
            CopierProcess(cluster, f"client-{number}", size, options) for number in range(copiers)
        ]
        self._is_over = threading.Event()
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self.cluster.create_topic(SOURCE, IN_PARTITIONS, min_insync_replicas=2)
        self.cluster.create_topic(TARGET, OUT_PARTITIONS, min_insync_replicas=2)
        self._producer = self.cluster.clients.producer()
        self._feed()
        self._reader.start()
        for copier in self._copiers:
            copier.start()
        self.more(1)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for copier in self._copiers:
            if copier.is_alive:
                copier.kill()
        self._reader.join(END_S)

    # --- for scenarios ------------------------------------------------------------------------------------

    @property
    def copied(self) -> int:
        """The number of committed records in the target that the consumer has read."""
        return sum(map(len, self.seen.values()))

    @property
    def aborted(self) -> int:
        """The number of transactions that copiers aborted."""
        return sum(copier.aborted for copier in self._copiers)

    @property
    def is_done(self) -> bool:
        """Whether all records were copied."""
        return self.copied >= sum(map(len, self.sent.values()))

    def more(self, count: int, patience_s: float = END_S) -> None:
        """Wait until this many more records were copied, or all are."""
        goal = self.copied + count

        def is_so() -> bool:
            self.keep_alive()
            return self.copied >= goal or self.is_done

        wait_for(is_so, f"{count} more records are copied", patience_s, self._evidence)

    def keep_alive(self) -> None:
        """Restart copiers that ended by themselves, after a commit without a response in time."""
        for copier in self._copiers:
            if not copier.is_alive:
                assert copier.lives < LIVES, copier.log_tail()
                copier.start()

    def bounce_nodes(self, *, hard: bool) -> None:
        """Restart or kill each node in turn; before the next one all replicas are in sync again."""
        for node in self.cluster.nodes:
            self._feed()
            node.kill() if hard else node.stop()
            self.bounces += 1
            self.more(1)
            node.start()
            for topic in (SOURCE, TARGET, *INTERNAL):
                self.cluster.until_in_sync(topic)

    def bounce_copiers(self, *, hard: bool) -> None:
        """Restart each copier in turn."""
        for copier in self._copiers:
            self._feed()
            self.more(1)
            if copier.is_alive:
                copier.kill() if hard else copier.stop()
            self.bounces += 1
            copier.start()

    def finish(self) -> None:
        """Wait until all records are copied, and compare. Fails with missing and additional records."""
        self._producer.close(END_S)
        while not self.is_done:
            self.more(1)
        for copier in self._copiers:
            if copier.is_alive:
                copier.stop()
        found = self._read_all()
        for partition, values in self.sent.items():
            assert_same(found[partition], values, f"{TARGET}-{partition}")
        assert set(found) == set(self.sent)
        wait_for(lambda: self.is_done, "the reader has everything", evidence=self._evidence)
        self._is_over.set()
        self._reader.join(END_S)
        assert self._failure is None, self._failure
        for partition, values in self.sent.items():
            assert_same(self.seen[partition], values, f"what the reader saw of {TARGET}-{partition}")

    # --- inside -------------------------------------------------------------------------------------------

    def _feed(self) -> None:
        """Send the next part of the source, which is copied during the next fault."""
        for number in itertools.islice(self._numbers, self._piece):
            value, partition = b"%d" % number, number % IN_PARTITIONS
            self._producer.send(SOURCE, value, partition=partition)
            self.sent.setdefault(partition, []).append(value)

    def _follow(self) -> None:
        try:
            with self.cluster.clients.consumer(
                TARGET, auto_offset_reset="earliest", isolation_level="read_committed"
            ) as consumer:
                while not self._is_over.is_set():
                    for record in consumer.poll(0.1):
                        self.seen[record.partition].append(record.value)
        except BaseException as error:  # noqa: BLE001 - reported at the end
            self._failure = error

    def _read_all(self) -> dict[int, list[bytes]]:
        """The target, read by a new read_committed consumer."""
        found: dict[int, list[bytes]] = defaultdict(list)
        options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        with self.cluster.clients.consumer(TARGET, **options) as consumer:
            tps = [TopicPartition(TARGET, number) for number in range(OUT_PARTITIONS)]
            ends, deadline_s = consumer.end_offsets(*tps, timeout=END_S), time.monotonic() + END_S
            while any(consumer.position(tp) < end for tp, end in ends.items()):
                assert time.monotonic() < deadline_s, f"the last reader has stalled\n{self._evidence()}"
                for record in consumer.poll(0.2, 10_000):
                    found[record.partition].append(record.value)
        return found

    def _evidence(self) -> str:
        logs = "\n".join(copier.log_tail() for copier in self._copiers)
        return f"copied {self.copied}, reader {self._failure}\n{logs}\n{self.cluster.evidence()}"


def assert_same(found: list[bytes], wanted: list[bytes], what: str) -> None:
    """Assert equal lists; fails with missing, duplicate and unknown records."""
    if found == wanted:
        return
    counts: dict[bytes, int] = defaultdict(int)
    for value in found:
        counts[value] += 1
    missing = [value for value in wanted if value not in counts]
    twice = [value for value, count in counts.items() if count > 1]
    strange = set(counts).difference(wanted)
    raise AssertionError(
        f"{what}: {len(missing)} missing {missing[:5]}, {len(twice)} twice {twice[:5]},"
        f" {len(strange)} strange; else the order differs"
    )
