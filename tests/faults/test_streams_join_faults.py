"""A windowed join with aggregations under exactly_once_v2, with standbys and snapshots, through all faults:
kill -9 of stream processes (some lose their disk), of nodes and of the coordinators of the group and of the
transactions, and pauses of 30 s of stream processes and nodes. The output and the stores are then equal to
those of the model, record for record.

Each round has every fault once, in random order; rounds go on for HEADRACE_FAULT_MINUTES, which is one round
by default: `make faults ONLY=windowed_join MINUTES=20`.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import headrace
import joining_app
import pytest
from fault_cluster import FaultCluster, Server, hold
from headrace import TopicPartition, int64, stream, utf8
from headrace.protocol.coordinator_ids import partition_of_id
from headrace.runtime.ports_io import reserve_ports
from join_model import PARTITIONS, Event, Expected, endings, events
from joining_app import CHAINED, CHAINS, COUNTED, COUNTS, JOINED, LEFT, RIGHT, is_alone
from stream_processes import StreamProcesses
from streams_evidence import state_of_application

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

FIGURES = "faults"  # as in conftest
SECONDS = 60 * float(os.environ.get("HEADRACE_FAULT_MINUTES") or 0)
SEED = int(os.environ.get("HEADRACE_FAULT_SEED") or 1)
PROCESSES = (1, 2, 3)
PAUSE_S = 30.0
PAIR_S = 0.02  # between two pairs of input records
SETTLE_S = 3.0  # between two faults
PATIENCE_S = 180.0  # without progress
PAST_MS = 3 * 3_600_000  # event time is ahead of the clock: records of the future are refused after an hour
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
NODE = {
    "group.initial.rebalance.delay.ms": 0,
    "group.streams.heartbeat.interval.ms": 500,
    "group.streams.session.timeout.ms": 6_000,
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.replication.factor": 3,
}
ZOMBIE = re.compile("drops its tasks and reads them again|RUNNING to REBALANCING")
CONTROLLER = {"default.replication.factor": 3, "min.insync.replicas": 2}


class Input(threading.Thread):
    """Sends pairs of events at a steady rate until `stop`; `sent` has them in their order."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._address, self._stopped = bootstrap, threading.Event()
        self.sent: list[Event] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        """Send. The producer is idempotent and does not give up: each record is in its topic once."""
        source = events(time.time_ns() // 1_000_000 - PAST_MS, SEED)
        options = {"delivery_timeout_ms": 900_000, "request_timeout_ms": 3_000, "max_block_ms": 900_000}
        try:
            with headrace.Producer(self._address, key=utf8, value=utf8, **options) as producer:
                while not self._stopped.wait(PAIR_S):
                    self._send(producer, next(source), next(source))
                self._send(producer, *endings(max(event.at_ms for event in self.sent)))
        except BaseException as error:  # noqa: BLE001 - `stop` raises it
            self.error = error

    def _send(self, producer: Any, *some: Event) -> None:
        for event in some:
            producer.send(
                event.side, event.value, key=event.user, partition=event.partition, timestamp=event.at_ms
            )
            self.sent.append(event)

    def stop(self) -> list[Event]:
        """End the input, and wait until all of it is acknowledged."""
        self._stopped.set()
        self.join()
        if self.error is not None:
            raise self.error
        return self.sent


class Faults:
    """The faults, by name in `kinds`; `log` has those that were."""

    def __init__(
        self, cluster: FaultCluster, processes: StreamProcesses, start: Callable[[int], None]
    ) -> None:
        self._cluster, self._processes, self._start = cluster, processes, start
        self._random = random.Random(SEED)
        self.counts: Counter[str] = Counter()
        self.kinds: dict[str, Callable[[], None]] = {
            "process killed": lambda: self._kill_process(is_wiped=False),
            "process killed and wiped": lambda: self._kill_process(is_wiped=True),
            "node killed": lambda: self._kill_node(self._random.choice(self._cluster.nodes)),
            "group coordinator killed": lambda: self._kill_node(self._group_coordinator()),
            "transaction coordinator killed": lambda: self._kill_node(self._transaction_coordinator()),
            "process paused": self._pause_process,
            "node paused": self._pause_node,
        }

    def play(self, seconds: float) -> None:
        """Rounds until the time is over."""
        ends_at = time.monotonic() + seconds
        while not self.counts or time.monotonic() < ends_at:
            for kind in self._random.sample(list(self.kinds), len(self.kinds)):
                self.kinds[kind]()
                self.counts[kind] += 1
                hold(self._random.uniform(0, SETTLE_S))

    def _kill_process(self, *, is_wiped: bool) -> None:
        number = self._random.choice(PROCESSES)
        self._processes.kill(number)
        if is_wiped:
            self._processes.wipe(number)
        hold(self._random.uniform(0, 2))
        self._start(number)

    def _pause_process(self) -> None:
        """Its session expires, and its tasks move, half of the times while a node is killed as well. Then it
        is a zombie with an open transaction, which must be fenced."""
        number = self._random.choice(PROCESSES)
        begin = self._processes.log_size(number)
        self._processes.pause(number)
        begun_s = time.monotonic()
        if self._random.random() < 0.5:
            hold(self._random.uniform(0, PAUSE_S / 3))
            self._kill_node(self._random.choice(self._cluster.nodes))
        hold(max(0.0, begun_s + PAUSE_S - time.monotonic()))
        self._processes.resume(number)
        self._cluster.until(
            lambda: ZOMBIE.search(self._processes.log(number, begin)), "the zombie has dropped its tasks"
        )

    def _kill_node(self, server: Server) -> None:
        server.kill()
        hold(self._random.uniform(0, 4))
        server.start()
        self._until_in_sync()

    def _pause_node(self) -> None:
        server = self._random.choice([self._group_coordinator(), self._transaction_coordinator()])
        server.pause()
        hold(PAUSE_S)
        server.resume()
        self._until_in_sync()

    def _until_in_sync(self) -> None:
        """One node at a time fails: two replicas of three are needed."""
        for topic in list(self._cluster.image().topics):
            self._cluster.until_in_sync(topic)

    def _group_coordinator(self) -> Server:
        count = len(self._cluster.image().topics[OFFSETS].partitions)
        return self._cluster.node(self._cluster.leader(OFFSETS, partition_of_id(joining_app.NAME, count)))

    def _transaction_coordinator(self) -> Server:
        count = len(self._cluster.image().topics[TRANSACTIONS].partitions)
        return self._cluster.node(self._cluster.leader(TRANSACTIONS, self._random.randrange(count)))


class Output:
    """The committed records of the output topics."""

    def __init__(self, cluster: FaultCluster, evidence: Callable[[], str]) -> None:
        self._cluster, self._evidence = cluster, evidence

    def read(self, topic: str, at_least: int, value: Any = utf8) -> list[Any]:
        """All records of a topic, in the order of each partition, once there are so many."""
        tps = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        found: list[Any] = []
        with headrace.Consumer(
            bootstrap=self._cluster.bootstrap,
            key=utf8,
            value=value,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            consumer.assign(*tps)
            consumer.seek_to_beginning(*tps)
            last_s = time.monotonic()
            while True:
                records = consumer.poll(0.5)
                found += records
                now_s = time.monotonic()
                last_s = now_s if records else last_s
                if len(found) >= at_least and not records and self._is_at_end(consumer, tps):
                    return found
                assert now_s < last_s + PATIENCE_S, (
                    f"{topic}: {len(found)} of {at_least} records\n{self._evidence()}"
                )

    @staticmethod
    def _is_at_end(consumer: Any, tps: list[TopicPartition]) -> bool:
        ends = consumer.end_offsets(*tps)
        return all(consumer.position(tp) >= ends[tp] for tp in tps)


def check_output(output: Output, expected: Expected) -> None:
    """All topics are as the model says. The records of a user are in one partition, from one task."""
    pairs, alone = by_user(expected.pairs.values()), by_user(expected.alone.values())
    total = sum(len(some) for users in (pairs, alone) for some in users.values())
    records = [(record.key, record.value, record.timestamp) for record in output.read(JOINED, total)]
    found = by_user([[each for each in records if not is_alone(each[1])]])
    assert found == pairs, differences(found, pairs)
    found = by_user([sorted(each for each in records if is_alone(each[1]))])
    alone = {user: sorted(some) for user, some in alone.items()}
    assert found == alone, differences(found, alone)
    for topic, wanted in ((CHAINED, expected.chains), (COUNTED, expected.counts)):
        values: dict[str, list[int]] = defaultdict(list)
        for record in output.read(topic, sum(map(len, wanted.values())), int64):
            values[record.key].append(record.value)
        assert values == wanted, f"{topic}: {differences(values, dict(wanted))}"


def by_user(parts: Iterable[Iterable[tuple[str, str, int]]]) -> dict[str, list[tuple[str, str, int]]]:
    """Records of the join by their key, in their order."""
    found: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
    for part in parts:
        for record in part:
            found[record[0]].append(record)
    return dict(found)


def differences(found: dict[str, list[Any]], wanted: dict[str, list[Any]]) -> str:
    """Where the lists of each key differ first."""
    lines = []
    for key in sorted(found.keys() | wanted.keys()):
        one, other = found.get(key, []), wanted.get(key, [])
        if one != other:
            pairs = enumerate(zip(one, other, strict=False))
            place = next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))
            some = f"from {place} on {one[place : place + 3]}, expected {other[place : place + 3]}"
            lines.append(f"{key}: {len(one)} records, expected {len(other)}; {some}")
    return "\n".join(lines)


def check_stores(queries: stream.Queries, expected: Expected) -> None:
    """The stores have the last value of each window, and nothing else."""
    for store, wanted in ((CHAINS, expected.chains), (COUNTS, expected.counts)):
        starts = [int(key.partition("@")[2]) for key in wanted]
        found: dict[str, int] = {}
        step_ms = 20 * joining_app.COUNT_MS
        for begin_ms in range(min(starts), max(starts) + 1, step_ms):
            query = stream.WindowRangeQuery(None, begin_ms, begin_ms + step_ms - 1)
            result = queries.query(store, query, timeout_s=PATIENCE_S)
            for each in result.partitions.values():
                rows = {f"{window.key}@{window.window.start}": row.value for window, row in each.value}
                found |= rows
        last = {key: values[-1] for key, values in wanted.items()}
        assert found == last, f"{store}: {len(found.items() ^ last.items())} entries differ"


@pytest.fixture
def cluster(make_cluster: Any) -> FaultCluster:
    """Three nodes and a controller, with the input and output topics."""
    made: FaultCluster = make_cluster(config=NODE, controller_config=CONTROLLER, proxied=False)
    for topic in (LEFT, RIGHT, JOINED, CHAINED, COUNTED):
        made.create_topic(topic, PARTITIONS)
    return made


@pytest.fixture
def processes(cluster: FaultCluster, tmp_path: Path) -> Iterator[StreamProcesses]:
    """Stream processes that end with the test."""
    environment = {joining_app.SNAPSHOTS: str(tmp_path / "snapshots")}
    made = StreamProcesses(cluster.bootstrap, tmp_path, "joining_app", environment)
    yield made
    made.end()


@pytest.mark.faults
@pytest.mark.timeout(900 + 3 * SECONDS)
def test_a_windowed_join_is_exact_through_all_faults(
    cluster: FaultCluster, processes: StreamProcesses, record_property: Callable[[str, str], None]
) -> None:
    """See the module. Behind the faults the stores of the active tasks are compared, then all processes but
    one are killed, and its stores, which were standbys or are restored, are compared too."""
    ports = dict(zip(PROCESSES, reserve_ports(len(PROCESSES)), strict=True))

    def start(number: int) -> None:
        processes.start(number, application_server=f"127.0.0.1:{ports[number]}")

    def evidence() -> str:
        return f"{state_of_application(cluster.bootstrap, joining_app.NAME)}\n{processes.logs()}"

    for number in PROCESSES:
        start(number)
    source = Input(cluster.bootstrap)
    source.start()
    output = Output(cluster, evidence)
    output.read(COUNTED, 1, int64)
    begun_s = time.monotonic()
    faults = Faults(cluster, processes, start)
    try:
        faults.play(SECONDS)
    finally:
        sent = source.stop()
    took_s = time.monotonic() - begun_s
    expected = Expected(sent)
    check_output(output, expected)
    with joining_app.app().queries(cluster.bootstrap, timeout_s=PATIENCE_S) as queries:
        check_stores(queries, expected)
        for number in PROCESSES[1:]:
            processes.kill(number)
        check_stores(queries, expected)
    check_output(output, expected)
    assert processes.stop(PROCESSES[0]) == 0, processes.log(PROCESSES[0])
    record_property(FIGURES, f"{len(sent)} records, {took_s:.0f} s of faults: {dict(faults.counts)}")
