"""Groups on real nodes, under every protocol: nodes that restart, members that are killed, static members
that rejoin."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import headrace
import pytest
from headrace import NewTopic, TopicPartition, errors
from waiting import wait_for

KINDS: dict[str, dict[str, Any]] = {
    "eager": {"assignors": ["range"]},
    "cooperative": {"assignors": ["cooperative-sticky"]},
    "new": {"group_protocol": "consumer"},
}
each_kind = pytest.mark.parametrize("kind", sorted(KINDS))
PARTITIONS, RECORDS = 6, 3_000
# The session timeout of members: in the new protocol a broker config, in the classic one the member's.
SOON_MS, PATIENT_MS = 6_000, 40_000
noticing_soon = pytest.mark.parametrize("cluster", [SOON_MS], indirect=True, ids=[""])


@pytest.fixture(scope="module", params=[PATIENT_MS])
def cluster(request: pytest.FixtureRequest) -> Iterator[headrace.LocalCluster]:
    """Three nodes with short broker sessions, and group sessions by the test's parameter."""
    with headrace.local(
        nodes=3,
        broker_session_timeout_ms=1_000,
        broker_heartbeat_interval_ms=100,
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=1_000,
        group_consumer_heartbeat_interval_ms=200,
        group_consumer_session_timeout_ms=request.param,
    ) as cluster:
        yield cluster


class Reader:
    """A member in a thread of its own; `seen`: partition and offset of its records."""

    def __init__(self, cluster: headrace.LocalCluster, topic: str, kind: str, **options: Any) -> None:
        self.seen: list[tuple[int, int]] = []
        self.events: list[str] = []
        self.holds: set[TopicPartition] = set()  # as reported by its listener
        self.failure: Exception | None = None
        self._is_over = threading.Event()
        self.consumer = cluster.consumer(
            topic,
            group=topic,
            listener=self,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
            session_timeout_ms=PATIENT_MS,
            auto_commit_interval_ms=200,
            **{**KINDS[kind], **options},
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def on_assigned(self, _consumer: Any, tps: Any) -> None:
        self.events.append(f"assigned {len(tps)}")
        self.holds |= set(tps)

    def on_revoked(self, _consumer: Any, tps: Any) -> None:
        self.holds -= set(tps)

    def on_lost(self, _consumer: Any, tps: Any) -> None:
        self.events.append("lost")
        self.holds -= set(tps)

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self.seen += [(record.partition, record.offset) for record in self.consumer.poll(0.1)]
        except Exception as error:  # noqa: BLE001 - raised by the test
            self.failure = error

    def owned(self) -> tuple[TopicPartition, ...]:
        assert self.failure is None, self.failure
        return self.consumer.assignment()

    def close(self, **how: Any) -> None:
        self._is_over.set()
        self._thread.join(60)
        assert self.failure is None, self.failure
        self.consumer.close(**how)


def topic_of(cluster: headrace.LocalCluster, name: str, replicas: int = 3) -> str:
    with cluster.admin() as admin:
        admin.create_topics(NewTopic(name, PARTITIONS, replicas)).raise_for_errors()
    return name


def fill(cluster: headrace.LocalCluster, topic: str, count: int = RECORDS) -> set[tuple[int, int]]:
    with cluster.producer() as producer:
        futures = [
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS) for number in range(count)
        ]
        return {(sent.partition, sent.offset) for sent in (future.result(60) for future in futures)}


@each_kind
def test_members_continue_while_nodes_restart(cluster: headrace.LocalCluster, kind: str) -> None:
    """Three members; each node is killed and restarted in turn: every record is read, no position is lost."""
    topic = topic_of(cluster, f"bounce-{kind}")
    readers = [Reader(cluster, topic, kind) for _ in range(3)]
    try:
        wait_for(
            lambda: all(len(reader.owned()) == 2 for reader in readers), "each member has two partitions"
        )
        sent = fill(cluster, topic)
        for node in range(3):
            cluster.kill_node(node)
            sent |= fill(cluster, topic, 300)
            cluster.restart_node(node)
        wait_for(
            lambda: {place for reader in readers for place in reader.seen} >= sent, "all records are read"
        )
        ends = {TopicPartition(topic, number): 0 for number in range(PARTITIONS)}
        for partition, offset in sent:
            tp = TopicPartition(topic, partition)
            ends[tp] = max(ends[tp], offset + 1)

        assert [reader.events.count("lost") for reader in readers] == [0, 0, 0]
    finally:
        for reader in readers:
            reader.close()
    with cluster.consumer(group=topic) as consumer:
        found = consumer.committed(*ends)
    assert {tp: each.offset for tp, each in found.items() if each is not None} == ends


VICTIM = """
import sys, headrace
consumer = headrace.Consumer(sys.argv[2], bootstrap=sys.argv[1], group=sys.argv[2],
    auto_offset_reset="earliest", session_timeout_ms=6000, heartbeat_interval_ms=200, **eval(sys.argv[3]))
while True:
    for record in consumer.poll(1, 10):
        print(record.partition, record.offset, flush=True)
    consumer.commit()
"""


@noticing_soon
@each_kind
def test_killed_member_is_replaced(cluster: headrace.LocalCluster, kind: str) -> None:
    """SIGKILL while it reads: another member continues from the commit, without a gap."""
    topic = topic_of(cluster, f"killed-{kind}")
    sent = fill(cluster, topic)
    command = [sys.executable, "-c", VICTIM, cluster.bootstrap, topic, repr(KINDS[kind])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        try:
            assert victim.stdout is not None
            seen = {tuple(map(int, victim.stdout.readline().split())) for _ in range(500)}
        finally:
            victim.kill()
        # records in its output were its own, too, and may be committed
        seen |= {tuple(map(int, line.split())) for line in victim.stdout if line.endswith("\n")}
    reader = Reader(cluster, topic, kind)
    try:
        wait_for(lambda: {*reader.seen, *seen} >= sent, "the other member has read the rest")
    finally:
        reader.close()
    again = len(set(reader.seen) & seen)
    assert len(reader.seen) == len(set(reader.seen)), "no member reads a record twice"
    assert again < 100, "committed records are not read again"


SLEEPER = """
import sys, headrace
class Listener:
    def on_lost(self, consumer, tps): print("lost", len(tps), flush=True)
consumer = headrace.Consumer(sys.argv[2], bootstrap=sys.argv[1], group=sys.argv[2], listener=Listener(),
    auto_offset_reset="earliest", session_timeout_ms=6000, heartbeat_interval_ms=200, **eval(sys.argv[3]))
while True:
    records = consumer.poll(0.1, 10)
    try:
        consumer.commit()
    except headrace.errors.CommitFailedError:
        print("failed 0", flush=True)
    for record in records:
        print(record.partition, record.offset, flush=True)
"""


@noticing_soon
@each_kind
def test_member_stopped_past_its_session_loses_its_partitions(
    cluster: headrace.LocalCluster, kind: str
) -> None:
    """Another member owns all of them meanwhile; the stopped one gets an error, and rejoins."""
    topic = topic_of(cluster, f"stopped-{kind}")
    fill(cluster, topic, 600)
    command = [sys.executable, "-c", SLEEPER, cluster.bootstrap, topic, repr(KINDS[kind])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sleeper:
        said: list[str] = []
        listening = threading.Thread(target=lambda: said.extend(sleeper.stdout or ()))
        try:
            assert sleeper.stdout is not None
            for _ in range(100):
                said.append(sleeper.stdout.readline())
            listening.start()
            sleeper.send_signal(signal.SIGSTOP)
            reader = Reader(cluster, topic, kind)
            try:
                wait_for(lambda: len(reader.owned()) == PARTITIONS, "the other member owns all partitions")
                fill(cluster, topic, 600)
                sleeper.send_signal(signal.SIGCONT)
                wait_for(lambda: "lost 6\n" in said, "the stopped member reports its lost partitions")
                wait_for(lambda: len(reader.owned()) < PARTITIONS, "both members have partitions again")
                assert "lost" not in reader.events
            finally:
                reader.close()
        finally:
            sleeper.kill()
            listening.join()


@each_kind
def test_restarted_static_member_causes_no_rebalance(cluster: headrace.LocalCluster, kind: str) -> None:
    """The member keeps its partitions, and the listeners of other members are not called."""
    topic = topic_of(cluster, f"static-{kind}", 1)
    readers = [Reader(cluster, topic, kind, group_instance_id=name) for name in ("a", "b")]
    try:

        def is_shared() -> bool:
            return all(len(reader.owned()) == 3 and reader.holds == {*reader.owned()} for reader in readers)

        def is_settled() -> bool:  # ten heartbeat intervals without a rebalance
            since = [reader.consumer.metrics()["last-rebalance-seconds-ago"] for reader in readers]
            return is_shared() and min(since) >= 2

        wait_for(is_settled, "both members have their assignments, and no rebalance is under way")
        had, received = readers[0].owned(), list(readers[1].events)
        readers[0].close()
        readers[0] = Reader(cluster, topic, kind, group_instance_id="a")
        wait_for(lambda: readers[0].owned() == had, "the static member has its partitions again")
        assert readers[1].events == received
    finally:
        for reader in readers:
            reader.close(leave=True)


def test_missing_coordinator_error_gives_the_reason() -> None:
    """The cluster has fewer nodes than the replication factor."""
    with headrace.local(nodes=1, offsets_topic_replication_factor=3) as cluster:
        topic = topic_of(cluster, "t", 1)
        with (
            cluster.consumer(group="g", default_api_timeout_ms=6_000) as consumer,
            pytest.raises(errors.ApiTimeoutError, match=r"creating __consumer_offsets failed: .*replica"),
        ):
            consumer.commit({TopicPartition(topic, 0): 1})
