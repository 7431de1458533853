"""Kafka's own Java clients over the listener while nodes are killed or restarted: its copier of transactions,
and a word count of Kafka Streams."""

import contextlib
import json
import subprocess
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from fault_cluster import FaultCluster
from headrace.benchmarks.servers import kafka_io
from kafka_load import END_S, PARTITIONS, Librdkafka, new_reader, read_all, silent
from waiting import wait_for

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(kafka_io.absent() is not None, reason=str(kafka_io.absent())),
]

JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka_clients" / "streams" / "WordCount.java"
LINE = "the log is the thing"
NODE = {"group.initial.rebalance.delay.ms": 0}
INTERNAL = ("__consumer_offsets", "__transaction_state")


@contextlib.contextmanager
def running(log: Path, classes: str, *command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a JVM, killed at the end; its output goes to `log`."""
    with log.open("w") as output:
        process = subprocess.Popen(
            ["java", *JVM, "-cp", classes, *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            text=True,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


class Feeder:
    """Sends `values` to the partitions of a topic in turn, at a limited rate, in a thread."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sent: dict[int, list[bytes]] = defaultdict(list)
        self.failures: list[str] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, **Librdkafka.options}, logger=silent())
        self._topic = topic

    def send(self, value: bytes, partition: int) -> None:
        self.sent[partition].append(value)
        self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
        self._producer.poll(0)

    def end(self) -> None:
        assert self._producer.flush(END_S) == 0
        assert self.failures == []

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))


def bounce(cluster: FaultCluster, topics: tuple[str, ...], *, hard: bool) -> None:
    """Restart or kill each node in turn; before the next one all replicas are in sync again."""
    for node in cluster.nodes:
        node.kill() if hard else node.stop()
        node.start()
        for topic in topics:
            cluster.until_in_sync(topic)


def test_transactions_are_copied_while_nodes_are_killed(make_cluster: Any, tmp_path: Path) -> None:
    """Kafka's TransactionalMessageCopier with random aborts copies each record once."""
    cluster = make_cluster(kafka=True, config=NODE)
    for topic in ("in", "out"):
        cluster.create_topic(topic, PARTITIONS, min_insync_replicas=2)
    feeder = Feeder(cluster.kafka_bootstrap, "in")
    for number in range(6_000):
        feeder.send(b"%d" % number, number % PARTITIONS)
    feeder.end()
    with contextlib.ExitStack() as stack:
        copiers = [
            stack.enter_context(
                running(
                    tmp_path / f"copier-{partition}",
                    kafka_io.classpath(),
                    "org.apache.kafka.tools.TransactionalMessageCopier",
                    *(
                        "--broker-list",
                        cluster.kafka_bootstrap,
                        "--input-topic",
                        "in",
                        "--output-topic",
                        "out",
                    ),
                    *("--input-partition", str(partition), "--transactional-id", f"copier-{partition}"),
                    *("--consumer-group", "copiers", "--transaction-size", "25", "--use-group-metadata"),
                    *("--enable-random-aborts", "--transaction-timeout", "20000"),
                )
            )
            for partition in range(PARTITIONS)
        ]

        def output_of(partition: int) -> str:
            return (tmp_path / f"copier-{partition}").read_text()

        def evidence() -> str:
            return "\n".join([*(output_of(each)[-3_000:] for each in range(PARTITIONS)), cluster.evidence()])

        wait_for(
            lambda: all("{" in output_of(each) for each in range(PARTITIONS)),
            "all copiers have output",
            90,
            evidence,
        )
        bounce(cluster, ("in", "out", *INTERNAL), hard=True)
        wait_for(
            lambda: all(each.poll() is not None for each in copiers), "all copiers have ended", 120, evidence
        )
        assert [each.returncode for each in copiers] == [0] * PARTITIONS, evidence()
        ends = [json.loads(output_of(each).strip().splitlines()[-1]) for each in range(PARTITIONS)]
        assert [end["remaining"] for end in ends] == [0] * PARTITIONS
    found = read_all(cluster.kafka_bootstrap, "out")
    # these records have no key, so the copier does not keep their partitions: values are compared
    copied = [value for records in found.values() for _, value in records]
    assert Counter(copied) == Counter(value for values in feeder.sent.values() for value in values)


@pytest.mark.parametrize("hard", [False, True], ids=["restarted", "killed"])
def test_streams_count_words_while_nodes_restart(make_cluster: Any, tmp_path: Path, hard: bool) -> None:
    """exactly_once_v2: every count of each word is in the output once and in order."""
    cluster = make_cluster(kafka=True, config=NODE)
    for topic in ("lines", "counts"):
        cluster.create_topic(topic, PARTITIONS, min_insync_replicas=2)
    classes = tmp_path / "classes"
    sources = [str(EXAMPLE), str(Path(__file__).parent / "java" / "CountOn.java")]
    subprocess.run(
        ["javac", "-cp", kafka_io.classpath(), "-d", str(classes), *sources], check=True, timeout=120
    )
    feeder = Feeder(cluster.kafka_bootstrap, "lines")
    is_over = threading.Event()

    def feed() -> None:
        number = 0
        while not is_over.wait(0.02):
            feeder.send(LINE.encode(), number % PARTITIONS)
            number += 1

    log = tmp_path / "streams"
    command = ("CountOn", cluster.kafka_bootstrap, "counting", "lines", "counts", str(tmp_path / "state"))
    feeding = threading.Thread(target=feed, daemon=True)
    counts: Counter[bytes] = Counter()
    reader = new_reader(cluster.kafka_bootstrap)
    reader.assign([TopicPartition("counts", number, 0) for number in range(PARTITIONS)])
    with running(log, f"{classes}:{kafka_io.classpath()}", *command) as process:
        feeding.start()

        def counted() -> Counter[bytes]:
            for message in reader.consume(5_000, 0.2):
                if message.error() is None:
                    counts[message.value()] += 1
            return counts

        def evidence() -> str:
            return f"{log.read_text()[-4_000:]}\n{cluster.evidence()}"

        wait_for(lambda: sum(counted().values()) > 50, "words are counted", 90, evidence)
        bounce(cluster, ("lines", "counts", *INTERNAL), hard=hard)
        before = sum(counted().values())
        wait_for(lambda: sum(counted().values()) > before + 200, "more words are counted", 90, evidence)
        is_over.set()
        feeding.join()
        feeder.end()
        lines = sum(map(len, feeder.sent.values()))
        words = lines * len(LINE.split())
        wait_for(lambda: sum(counted().values()) >= words, f"{words} words are counted", 90, evidence)
        # "the" twice in each line, three other words once: the exact number of each count
        wanted = Counter({b"%d" % number: 4 if number <= lines else 1 for number in range(1, 2 * lines + 1)})
        assert counted() == wanted, (counted() - wanted, wanted - counted(), evidence())
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(90) == 0
    reader.close()
    assert "closed: true" in log.read_text()
