"""Applications on a cluster, in Kafka Streams or in headrace.stream, that take over from each other."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headrace
from headrace import NewTopic, TopicPartition, stream, utf8
from headrace.stream.state.files_io import open_engine
from headrace.stream.worker.instance_io import AppInstance
from headrace.stream.worker.states import InstanceState
from waiting import wait_for

from .building import Building
from .java_io import JVM, classpath
from .takeover_case import INPUTS, MIXED, NODES, OUTPUTS, Sent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headrace.services.local_io import LocalCluster

PATIENCE_S = 60.0
# Of Java, internal: closed windows and left joins are looked for at each record, not each second
EMIT_INTERVALS = (
    "__emit.interval.ms.kstreams.windowed.aggregation__",
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__",
)
PARTITIONS = 2
NUMBER_BYTES = 4


class JavaHost:
    """A JVM that runs one application after the other."""

    def __init__(self) -> None:
        command = ["java", *JVM, "-cp", classpath(), "Takeover"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def start(self, cluster: LocalCluster, config: dict[str, Any]) -> None:
        """Start the application in Java."""
        given = {"bootstrap.servers": cluster.kafka_bootstrap, **dict.fromkeys(EMIT_INTERVALS, 0), **config}
        self._send(json.dumps({"config": given, "nodes": NODES}))

    @contextmanager
    def running(self, cluster: LocalCluster, config: dict[str, Any]) -> Iterator[None]:
        """The application in Java, until the block ends."""
        self.start(cluster, config)
        state = self._answer()
        try:
            assert state == "RUNNING"
            yield
        finally:
            self._send("stop")
            assert self._answer() == "NOT_RUNNING"

    def close(self) -> None:
        """End the JVM."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def python_running(cluster: LocalCluster, config: dict[str, Any]) -> Iterator[None]:
    """The application in Python, until the block ends."""
    application_id = config["application.id"]
    app = stream.App(application_id, key=utf8, value=utf8, config=config)
    Building(app, [], {}).build({"nodes": NODES})
    instance = AppInstance(
        app.topology(),
        app.config,
        replace(app.settings, window_emit_interval_ms=0, outer_join_emit_interval_ms=0),
        bootstrap=cluster.bootstrap,
        client_configs=app.client_configs,
        open_engine=open_engine,
    )
    with instance:
        assert instance.wait_for(InstanceState.RUNNING, timeout_s=PATIENCE_S)
        yield
    assert instance.error is None


class Takeover:
    """A cluster with the topics of one application, in which programs run one after the other."""

    def __init__(
        self,
        cluster: LocalCluster,
        java: JavaHost,
        guarantee: str,
        folder: Path,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """`config`: more keys of the application."""
        self.cluster, self._java, self._folder = cluster, java, folder
        self._config = {
            "application.id": "app",
            "processing.guarantee": guarantee,
            "commit.interval.ms": 50,
            "statestore.cache.max.bytes": 0,
            **(config or {}),
        }
        with cluster.admin() as admin:
            made = (
                NewTopic(name, PARTITIONS, configs={"retention.ms": "-1"}) for name in (*INPUTS, *OUTPUTS)
            )
            admin.create_topics(*made).raise_for_errors()

    def send(self, records: list[Sent]) -> None:
        """Send records to the input topics."""
        with self.cluster.producer(key=utf8, value=utf8) as producer:
            for each in records:
                producer.send(each.topic, each.value, key=each.key, timestamp=each.timestamp)

    def kill_java(self) -> None:
        """Run the application in Java, and kill it when its first results are seen, in a transaction."""
        dying = JavaHost()
        config = {
            "state.dir": str(self._folder / "killed"),
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
            "transaction.timeout.ms": 2_000,
        }
        dying.start(self.cluster, {**self._config, **config})
        with headrace.Consumer(
            *OUTPUTS, bootstrap=self.cluster.bootstrap, auto_offset_reset="earliest"
        ) as seen:
            wait_for(lambda: seen.poll(0.01), "results of Java", PATIENCE_S)
        dying.close()
        with self.cluster.admin() as admin:
            wait_for(lambda: not admin.describe_groups("app")["app"].members, "its session ended", PATIENCE_S)
            wait_for(
                lambda: not admin.list_transactions(states=["Ongoing", "PrepareAbort"]),
                "transactions aborted",
                PATIENCE_S,
            )

    def run(self, language: str, records: list[Sent], look: Callable[[], None] | None = None) -> None:
        """Send records, and run the application in this language until it has processed all of them; then
        call `look`, while it runs."""
        self.send(records)
        config = {**self._config, "state.dir": str(self._folder / language)}
        running = self._java.running if language == "java" else python_running
        with running(self.cluster, config):
            self._wait_until_processed()
            if look is not None:
                look()

    def found(self) -> list[object]:
        """Outputs, committed offsets and changelogs."""
        return [self.outputs(), self.committed(), self.changelogs()]

    def outputs(self) -> dict[str, dict[Any, Any]]:
        """By output topic and key: all records in their order, or the last value of a key of MIXED topics."""
        return {topic: self._output(topic) for topic in OUTPUTS}

    def changelogs(self) -> dict[str, dict[bytes | None, bytes | None]]:
        """The last value of each key of each changelog topic. Numbers of duplicates are left out, which Java
        begins again when it restarts."""
        with self.cluster.admin() as admin:
            names = [topic.name for topic in admin.list_topics() if topic.name.endswith("-changelog")]
        found = {name: {row.key: row.value for row in self._records(name)} for name in names}
        return {
            name: sorted((key[:-NUMBER_BYTES], value) for key, value in rows.items())
            if name.endswith("-store-changelog")
            else rows
            for name, rows in found.items()
        }

    def committed(self) -> dict[TopicPartition, tuple[int, str]]:
        """Offset and metadata of the input topics that the application has committed."""
        with self.cluster.admin() as admin:
            found = admin.list_group_offsets("app")
        return {
            tp: (each.offset, each.metadata)
            for tp, each in found.items()
            if each is not None and tp.topic in INPUTS
        }

    def _output(self, topic: str) -> dict[bytes, Any]:
        rows: dict[Any, list[Any]] = defaultdict(list)
        for record in self._records(topic):
            rows[record.key].append((record.partition, record.value, record.timestamp))
        return {each: found[-1][:2] if topic in MIXED else found for each, found in rows.items()}

    def _records(self, topic: str) -> list[Any]:
        """All committed records of a topic, by partition and offset."""
        tps = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        found: list[Any] = []
        with self._consumer() as consumer:
            consumer.assign(*tps)
            consumer.seek_to_beginning(*tps)
            ends = consumer.end_offsets(*tps)
            wait_for(
                lambda: (
                    found.extend(consumer.poll(0.1)) or all(consumer.position(tp) >= ends[tp] for tp in tps)
                ),
                "all records are read",
                PATIENCE_S,
            )
        return sorted(found, key=lambda each: (each.partition, each.offset))

    def _consumer(self) -> headrace.Consumer[bytes, bytes]:
        return headrace.Consumer(bootstrap=self.cluster.bootstrap, isolation_level="read_committed")

    def _wait_until_processed(self) -> None:
        """Wait until every record of the input and internal topics is committed, some times in a row."""
        quiet = 0

        def is_quiet() -> bool:
            nonlocal quiet
            quiet = 0 if self._unprocessed() else quiet + 1
            return quiet == 4

        wait_for(is_quiet, "all records are processed", PATIENCE_S, self._unprocessed)

    def _unprocessed(self) -> dict[TopicPartition, Any]:
        """The lag of partitions with records that are not committed by the application."""
        with self.cluster.admin() as admin:
            names = [topic.name for topic in admin.list_topics()]
            read = [
                name
                for name in names
                if name in INPUTS or (name.startswith("app-") and not name.endswith("-changelog"))
            ]
            tps = [TopicPartition(name, number) for name in read for number in range(PARTITIONS)]
            committed = admin.list_group_offsets("app", tps)
            offsets = {tp: (0 if at is None else at.offset,) for tp, at in committed.items()}
            counted = admin.count_records(offsets)
        return {tp: lag for tp in tps for lag in counted[tp].values() if lag.records}
