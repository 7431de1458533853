"""Producers and consumers on a cluster under faults, with a history of their operations, and the longest
pause between two acknowledgements.

Producers write to all partitions with acks=all and retry until they are stopped; consumers run all the time.
`finish` stops them, reads all partitions once more, and checks the history. Each record has its value in its
key or a header, too, so that mixed-up records are found. The producers are idempotent, so a duplicate record
is an anomaly. `random_workload.py` has clients with random settings.
"""

from __future__ import annotations

import itertools
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import headrace
from headrace import TopicPartition, errors
from history import History, Outcome, Process, error_name
from waiting import PATIENCE_S, wait_for

UNACKED = 200  # the most records that one producer has in flight
ROUND = 5
ROUND_S = 0.01  # pause between rounds: a few hundred records per second and producer


class Cluster(Protocol):
    """The cluster of a workload: addresses, clients, and evidence for failures."""

    bootstrap: Any
    clients: Any

    def evidence(self) -> str:
        """Logs and states of the servers."""


@dataclass(frozen=True)
class Ack:
    """An acknowledgement: its time, partition and offset."""

    at_s: float
    partition: int


class Workload:
    """Use: `start`, faults, `finish`. Producer N and consumer N are "client-N" of the network."""

    def __init__(
        self, cluster: Cluster, topic: str, *, producers: int = 2, consumers: int = 1, **producer_options: Any
    ) -> None:
        self.history = History(lambda: time.monotonic_ns() // 1_000_000)
        self.complaints: list[str] = []
        self.acks: list[Ack] = []
        self.errors: Counter[str] = Counter()  # errors of failed records, by name
        self.topic = topic
        self._cluster = cluster
        self._options = {
            "acks": "all",
            "linger_ms": 1,
            "request_timeout_ms": 3_000,
            "socket_connection_setup_timeout_ms": 2_000,
            **producer_options,
        }
        self._counts = (producers, consumers)
        self._partitions = 0
        self._stop_sending, self._stop_reading = threading.Event(), threading.Event()
        self._may_send = threading.Event()
        self._under_way = self._resting = 0
        self._counting = threading.Lock()
        self._ends: dict[TopicPartition, int] = {}
        self._senders: list[threading.Thread] = []
        self._readers: list[threading.Thread] = []

    # --- for scenarios ------------------------------------------------------------------------------------

    def start(self, warm_up: int = 100) -> Workload:
        """Start all clients, and wait until some records are acknowledged."""
        with self._cluster.clients.admin() as admin:
            self._partitions = len(admin.describe_topics(self.topic)[self.topic].partitions)
        producers, consumers = self._counts
        self._may_send.set()
        self._senders = [self._thread(self._produce, number) for number in range(producers)]
        self._readers = [self._thread(self._consume, producers + number) for number in range(consumers)]
        self.more(warm_up)
        return self

    def more(self, count: int = 100, patience_s: float = PATIENCE_S) -> None:
        """Wait until all partitions together have this many more acknowledged records."""
        before = len(self.acks)

        def is_so() -> bool:
            new = self.acks[before:]
            return len(new) >= count and len({ack.partition for ack in new}) == self._partitions

        what = f"{count} more records are acknowledged, in every partition"
        wait_for(is_so, what, patience_s, evidence=self._cluster.evidence)

    def rest(self) -> None:
        """Pause all producers until `go_on`; returns when no record is in flight."""
        self._may_send.clear()
        # records of a round that has begun count as in flight
        wait_for(lambda: self._under_way == 0 and self._resting == self._counts[0], "all producers rest")

    def go_on(self) -> None:
        """Resume after `rest`."""
        self._may_send.set()

    def acked_since(self, begun_s: float) -> int:
        """`progress_during_fault`: the number of records acknowledged since then."""
        return sum(ack.at_s >= begun_s for ack in self.acks)

    def longest_pause_s(self, begun_s: float, until_s: float, partition: int | None = None) -> float:
        """The longest pause between two acknowledgements in a period."""
        times = [
            ack.at_s
            for ack in list(self.acks)
            if begun_s <= ack.at_s <= until_s and partition in (None, ack.partition)
        ]
        edges = [begun_s, *times, until_s]
        return max(after - before for before, after in itertools.pairwise(edges))

    def finish(self) -> None:
        """Stop the clients, read all partitions, and check the history. Fails with the anomalies."""
        self.read_to_the_end()
        assert self.history.anomalies() == {}, self._story()

    def read_to_the_end(self) -> None:
        """Stop the clients and read all partitions with a new consumer. Fails if it stalls."""
        self._stop_sending.set()
        self._may_send.set()
        self._join(self._senders, "a producer")
        self._note_ends()
        self._stop_reading.set()
        self._join(self._readers, "a consumer")
        self._read_all()
        assert self.complaints == [], self._story()

    @property
    def acked(self) -> int:
        """Records that were acknowledged."""
        return sum(send.outcome is Outcome.OK for process in self.history.processes for send in process.sends)

    @property
    def unknown(self) -> int:
        """Records whose outcome is unknown."""
        return sum(
            send.outcome is Outcome.INFO for process in self.history.processes for send in process.sends
        )

    @property
    def lost(self) -> int:
        """Acknowledged records that the final read of all partitions did not return."""
        found = {value for poll in self.history.processes[-1].polls for _, value in poll.reads}
        sends = [send for process in self.history.processes for send in process.sends]
        return sum(send.outcome is Outcome.OK and send.value not in found for send in sends)

    def _story(self) -> str:
        found = {name: texts[:5] for name, texts in self.history.anomalies().items()}
        return f"{found}\n{self.complaints}\n{self.errors}\n{self._cluster.evidence()}"

    # --- clients ------------------------------------------------------------------------------------------

    def _produce(self, number: int) -> None:
        name = f"producer-{number}"
        process, room = self.history.process(name), threading.Semaphore(UNACKED)
        options = {"client_id": f"client-{number}", **self._options}
        with headrace.Producer(self._cluster.bootstrap, **options) as producer:
            sequence = 0
            while not self._stop_sending.wait(ROUND_S):
                self._rest_if_asked()
                for _ in range(ROUND):
                    if not room.acquire(timeout=0.1):
                        break
                    value = b"%s/%d" % (name.encode(), sequence)
                    self._send(producer, process, room, value, sequence % self._partitions)
                    sequence += 1
            producer.flush(PATIENCE_S)

    def _rest_if_asked(self) -> None:
        if not self._may_send.is_set():
            self._count(resting=1)
            self._may_send.wait()
            self._count(resting=-1)

    def _count(self, *, under_way: int = 0, resting: int = 0) -> None:
        with self._counting:
            self._under_way += under_way
            self._resting += resting

    def _send(
        self, producer: Any, process: Process, room: threading.Semaphore, value: bytes, partition: int
    ) -> None:
        send = process.send(f"{self.topic}-{partition}", value, may_repeat=not producer.config.is_idempotent)

        def done(future: Any) -> None:
            metadata, error = future.outcome(0)
            send.ended(error, metadata.offset)
            if error is None:
                self.acks.append(Ack(time.monotonic(), partition))
            else:
                self.errors[error_name(error)] += 1
            self._count(under_way=-1)
            room.release()

        self._count(under_way=1)
        try:
            record = {"value": value, "headers": [("value", value)]}
            producer.send(self.topic, **record, partition=partition).add_done_callback(done)
        except errors.HeadraceError as error:
            send.ended(error)
            self.errors[error_name(error)] += 1
            self._count(under_way=-1)
            room.release()

    def _consume(self, number: int) -> None:
        process = self.history.process(f"consumer-{number}")
        options = {"client_id": f"client-{number}", "request_timeout_ms": 3_000}
        with headrace.Consumer(
            self.topic, bootstrap=self._cluster.bootstrap, auto_offset_reset="earliest", **options
        ) as consumer:
            ends_at = 0.0
            while not self._has_read_all(consumer):
                ends_at = self._deadline(ends_at)
                note(process, consumer.poll(0.1))

    # --- the end ------------------------------------------------------------------------------------------

    def _note_ends(self) -> None:
        tps = [TopicPartition(self.topic, partition) for partition in range(self._partitions)]
        with self._cluster.clients.consumer(self.topic) as consumer:
            self._ends = consumer.end_offsets(*tps, timeout=PATIENCE_S)

    def _has_read_all(self, consumer: Any) -> bool:
        """Whether a consumer of all partitions has reached the end offsets, if these are known."""
        if not self._stop_reading.is_set() or not self._ends.keys() <= set(consumer.assignment()):
            return False
        return all(consumer.position(tp, PATIENCE_S) >= end for tp, end in self._ends.items())

    def _deadline(self, ends_at: float) -> float:
        """The time by which a consumer must reach the end offsets, 0.0 for no limit. Fails when it has
        passed."""
        if not self._stop_reading.is_set():
            return 0.0
        now = time.monotonic()
        assert not ends_at or now < ends_at, f"the consumer has stalled\n{self._cluster.evidence()}"
        return ends_at or now + PATIENCE_S

    def _read_all(self) -> None:
        process = self.history.process("final")
        with self._cluster.clients.consumer(self.topic, auto_offset_reset="earliest") as consumer:
            ends_at = 0.0
            while not self._has_read_all(consumer):
                ends_at = self._deadline(ends_at)
                note(process, consumer.poll(0.2, 10_000))

    # --- threads ------------------------------------------------------------------------------------------

    def _thread(self, work: Callable[..., None], *arguments: Any) -> threading.Thread:
        def run() -> None:
            try:
                work(*arguments)
            except Exception:  # noqa: BLE001 - whatever it is, it belongs into the report
                self.complaints.append(f"{work.__name__} {arguments}: {traceback.format_exc()}")

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def _join(self, threads: list[threading.Thread], name: str) -> None:
        ends_at = time.monotonic() + 2 * PATIENCE_S
        for thread in threads:
            thread.join(max(ends_at - time.monotonic(), 0))
            if thread.is_alive():
                self.complaints.append(f"{name} has stalled")


def note(process: Process, records: list[Any]) -> None:
    """Add the records of one poll to the history. A record with a wrong key or header counts as never
    sent."""
    by_key: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
    for record in records:
        value = record.value.rstrip(b" ")
        is_whole = record.key in (None, value) and tuple(record.headers) in ((), (("value", value),))
        read = (record.offset, value if is_whole else b"mixed up: " + value)
        by_key[f"{record.topic}-{record.partition}"].append(read)
    for key, reads in by_key.items():
        process.poll(key, reads)
