"""Instances of streams applications over a running cluster."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import headrace
import pytest
from headrace import NewTopic, TopicPartition, int64, stream, utf8
from headrace.services.local_io import LocalCluster
from headrace.stream.config import StreamsConfig
from headrace.stream.errors import InternalTopicError, ProcessingError, StateDirectoryError, StreamsError
from headrace.stream.processors.stateless import KStreamMapValues
from headrace.stream.task.settings import TaskSettings
from headrace.stream.topology.topology import Topology
from headrace.stream.worker.instance_io import AppInstance
from headrace.stream.worker.states import InstanceState
from headrace.stream.worker.uncaught import REPLACE_THREAD
from waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from command_line import CommandLine

PATIENCE_S = 30.0


class Lines:
    """An application that maps the values of one topic to another, with the counts of both."""

    def __init__(self, cluster: LocalCluster, name: str, folder: Path) -> None:
        self.cluster, self.name, self.folder = cluster, name, folder
        self.source, self.sink = f"{name}-in", f"{name}-out"
        self.sent: Counter[str] = Counter()
        with headrace.Admin(cluster.bootstrap) as admin:
            admin.create_topics(NewTopic(self.source, 4), NewTopic(self.sink, 2)).raise_for_errors()

    def send(self, count: int) -> None:
        """Send values that no other call sends."""
        start = self.sent.total()
        values = [f"v{number}" for number in range(start, start + count)]
        with headrace.Producer(self.cluster.bootstrap) as producer:
            for value in values:
                producer.send(self.source, value.encode(), key=value.encode())
        self.sent.update(values)

    def topology(self, function: Callable[[Any, str], str] = lambda _, value: value) -> Topology:
        """Source, mapper, sink."""
        topology = Topology()
        topology.add_source("source", self.source, key=utf8, value=utf8)
        topology.add_processor("mapper", KStreamMapValues(function), "source")
        topology.add_sink("sink", self.sink, "mapper", key=utf8, value=utf8)
        return topology

    def instance(self, topology: Topology | None = None, *, process: int = 1, **options: Any) -> AppInstance:
        """An instance with stores in a folder of `process`."""
        names = ("on_uncaught", "on_state_change", "client_configs")
        others = {name: options.pop(name) for name in names if name in options}
        given = {"commit_interval_ms": 50, "state_dir": str(self.folder / str(process)), **options}
        config = StreamsConfig.of(application_id=self.name, **given)
        return AppInstance(
            topology or self.topology(),
            config,
            TaskSettings(),
            bootstrap=self.cluster.bootstrap,
            open_engine=no_stores,
            **others,
        )

    def wait_for_output(self, change: Callable[[str], str] = str) -> Counter[str]:
        """The values of the output topic, once every input is among them; aborted ones are left out."""
        wanted = {change(value) for value in self.sent}
        found: Counter[str] = Counter()
        with headrace.Consumer(
            self.sink,
            bootstrap=self.cluster.bootstrap,
            value=utf8,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:

            def is_complete() -> bool:
                found.update(str(record.value) for record in consumer.poll(0.1))
                return wanted <= found.keys()

            wait_for(is_complete, "all inputs were processed", PATIENCE_S)
        return found


def no_stores(_folder: Path, store: str) -> Any:
    """These topologies have none."""
    raise AssertionError(store)


@pytest.fixture
def lines(cluster: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Lines:
    """Topics and an application named after the test."""
    return Lines(cluster, request.node.name.replace("[", "-").replace("]", ""), tmp_path)


def test_lag_of_a_streams_group(lines: Lines) -> None:
    """Like that of any group: none once it has committed all input, with the owner of each partition; what
    comes later is counted while no instance runs."""
    with headrace.Admin(lines.cluster.bootstrap) as admin:
        lines.send(100)
        with lines.instance() as instance:
            assert instance.wait_for(InstanceState.RUNNING, timeout_s=PATIENCE_S)
            lines.wait_for_output()

            def is_caught_up() -> bool:
                found = admin.consumer_group_lag(lines.name)[lines.name]
                parts = found.partitions
                assert found.group.group_type == "streams"
                return sorted(parts) == [TopicPartition(lines.source, number) for number in range(4)] and all(
                    lag.member is not None and lag.records == 0 and lag.seconds == 0 for lag in parts.values()
                )

            wait_for(is_caught_up, "all input is committed")
        lines.send(50)
        assert admin.consumer_group_lag(lines.name)[lines.name].records == 50


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_instance_continues_at_committed_offsets(lines: Lines, guarantee: str) -> None:
    """A clean end commits: each input is in the output once, whatever the guarantee."""
    for _ in range(2):
        lines.send(500)
        with lines.instance(guarantee=guarantee) as instance:
            assert instance.wait_for(InstanceState.RUNNING, timeout_s=PATIENCE_S)
            lines.wait_for_output()
        assert instance.state is InstanceState.NOT_RUNNING
        assert instance.error is None
    assert lines.wait_for_output() == lines.sent


def test_tasks_are_spread_over_threads_and_processes(lines: Lines) -> None:
    """Four tasks on two instances with two threads and one; the first gets all back when the second ends."""

    def tasks(instance: AppInstance) -> list[int]:
        return sorted(len(thread.manager.tasks) for thread in instance._threads if thread.manager)

    with lines.instance(threads=2) as first:
        wait_for(lambda: tasks(first) == [2, 2], "two tasks for each thread", PATIENCE_S)
        with lines.instance(process=2) as second:
            wait_for(
                lambda: tasks(second) and sum(tasks(second) + tasks(first)) == 4, "tasks moved", PATIENCE_S
            )
            wait_for(
                lambda: max(tasks(first) + tasks(second)) <= 2 and tasks(second)[0] > 0, "balance", PATIENCE_S
            )
            lines.send(200)
            lines.wait_for_output()
        wait_for(lambda: tasks(first) == [2, 2], "the tasks came back", PATIENCE_S)
        assert first.remove_thread() is not None
        wait_for(lambda: tasks(first) == [4], "one thread has all tasks", PATIENCE_S)
        lines.send(200)
        assert lines.wait_for_output() == lines.sent


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_an_error_of_a_user_function_names_its_record_and_loses_nothing(lines: Lines, guarantee: str) -> None:
    """The instance ends in ERROR. The next one processes the record again; with exactly-once, nothing that
    was written after the last commit is seen twice."""
    lines.send(300)

    def fail_once(_key: Any, value: str) -> str:
        if value == "v250":
            raise ValueError("a bad record")
        return value

    instance = lines.instance(lines.topology(fail_once), guarantee=guarantee)
    instance.start()
    assert instance.wait_for(InstanceState.ERROR, timeout_s=PATIENCE_S)
    with pytest.raises(
        ProcessingError, match=rf"processor mapper of task 0_\d failed on offset \d+ of {lines.source}-\d"
    ):
        instance.wait()
    assert isinstance(instance.error.__cause__, ValueError)
    with lines.instance(guarantee=guarantee):
        found = lines.wait_for_output()
    if guarantee == "exactly_once_v2":
        assert found == lines.sent
    else:
        assert found.keys() == lines.sent.keys()


def test_a_thread_that_fails_can_be_replaced(lines: Lines) -> None:
    """The handler of uncaught errors decides; the new thread reads from the last commit."""
    lines.send(100)
    failures: list[BaseException] = []

    def fail_once(_key: Any, value: str) -> str:
        if value == "v50" and not failures:
            raise ValueError("only once")
        return value

    def replace(error: BaseException) -> str:
        failures.append(error)
        return REPLACE_THREAD

    with lines.instance(lines.topology(fail_once), on_uncaught=replace) as instance:
        lines.wait_for_output()
        assert len(failures) == 1
        assert instance.wait_for(InstanceState.RUNNING, timeout_s=PATIENCE_S)


def test_a_paused_instance_processes_nothing_until_it_is_resumed(lines: Lines) -> None:
    """It stays in its group: no other instance gets its tasks."""
    seen: list[str] = []

    def note(_key: Any, value: str) -> str:
        seen.append(value)
        return value

    with lines.instance(lines.topology(note)) as instance:
        instance.pause()
        lines.send(100)
        assert instance.wait_for(InstanceState.RUNNING, timeout_s=PATIENCE_S)
        assert seen == []
        instance.resume()
        assert lines.wait_for_output() == lines.sent


def test_a_missing_source_topic_is_named(lines: Lines) -> None:
    """The instance ends before it joins its group."""
    topology = lines.topology()
    topology.add_source("other", "absent", key=utf8, value=utf8)
    topology.add_sink("other-sink", lines.sink, "other", key=utf8, value=utf8)
    instance = lines.instance(topology)
    with pytest.raises(InternalTopicError, match="source topic absent does not exist"):
        instance.start()
    assert instance.state is InstanceState.ERROR


def test_members_of_another_program_are_named(lines: Lines) -> None:
    """As when an application in Java has not left its group yet."""
    options = {"group": lines.name, "auto_offset_reset": "earliest"}
    with headrace.Consumer(lines.source, bootstrap=lines.cluster.bootstrap, **options) as consumer:
        wait_for(lambda: consumer.poll(0.1) or consumer.assignment(), "the consumer has joined", PATIENCE_S)
        instance = lines.instance()
        instance.start()
        assert instance.wait_for(InstanceState.ERROR, timeout_s=PATIENCE_S)
        with pytest.raises(StreamsError, match="has members of another kind, such as Kafka Streams in Java"):
            instance.wait()


def test_static_members_get_their_tasks_back(lines: Lines) -> None:
    """After a restart within the session timeout: the tasks of the other instance do not move."""
    states: list[InstanceState] = []

    def instance(process: int, **options: Any) -> AppInstance:
        static = {"consumer": {"group.instance.id": f"pod-{process}"}}
        return lines.instance(process=process, client_configs=static, **options)

    def tasks(running: AppInstance) -> list[str]:
        return [str(task.id) for thread in running.threads for task in thread.tasks]

    with instance(2, on_state_change=lambda new, _old: states.append(new)) as stays:
        with instance(1) as first:
            wait_for(lambda: len(tasks(first)) == len(tasks(stays)) == 2, "two tasks each", PATIENCE_S)
            assert stays.wait_for(InstanceState.RUNNING, timeout_s=PATIENCE_S)
            before = tasks(first)
        changes = list(states)
        with instance(1) as again:
            lines.send(20)
            assert lines.wait_for_output() == lines.sent
            assert tasks(again) == before
            assert states == changes, "the other instance has not rebalanced"


def test_two_instances_of_a_machine_need_a_state_dir_each(lines: Lines) -> None:
    """The second one fails at its start; the first one goes on."""
    with lines.instance():
        with pytest.raises(StateDirectoryError, match="in use by another process"):
            lines.instance().start()
        lines.send(10)
        assert lines.wait_for_output() == lines.sent


def test_reset_processes_the_input_topics_again(lines: Lines, shell: CommandLine) -> None:
    """`headrace stream reset` refuses while an instance runs, shows its plan first, and then resets."""
    lines.send(50)
    with lines.instance():
        lines.wait_for_output()
        code, _, err = shell("stream", "reset", lines.name, "-t", lines.source, "--execute")
        assert (code, "1 running threads" in err) == (1, True)
    with headrace.Admin(lines.cluster.bootstrap) as admin:
        internal = [
            f"{lines.name}-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog",
            f"{lines.name}-x-repartition",
        ]
        admin.create_topics(
            *(NewTopic(name, 1) for name in [*internal, f"{lines.name}-other"])
        ).raise_for_errors()
        code, _, err = shell("stream", "reset", lines.name, "-t", lines.source)
        assert code == 0
        assert "would be deleted" in err
        assert "nothing was changed" in err
        assert shell("stream", "reset", lines.name, "-t", lines.source, "--execute")[0] == 0
        left = {topic.name for topic in admin.list_topics()}
        assert not left & set(internal)
        assert f"{lines.name}-other" in left
    with lines.instance():
        wait_for(
            lambda: set(lines.wait_for_output().values()) == {2}, "everything was processed twice", PATIENCE_S
        )


class Totals:
    """An application that counts words, and what it has counted."""

    def __init__(self, cluster: LocalCluster, folder: Path, guarantee: str = "at_least_once") -> None:
        self._cluster, self._folder, self._guarantee = cluster, folder, guarantee
        self._name = folder.name
        topic = f"{self._name}-counts-repartition"
        self._repartition = [TopicPartition(topic, number) for number in range(3)]
        self.sent: Counter[str] = Counter()
        self.found: dict[str, int] = {}
        with headrace.Admin(cluster.bootstrap) as admin:
            admin.create_topics(
                NewTopic(f"{self._name}-words", 3), NewTopic(f"{self._name}-totals", 1)
            ).raise_for_errors()

    def app(self, folder: str) -> stream.App:
        """The application, with stores in this folder."""
        made = stream.App(
            self._name,
            guarantee=self._guarantee,
            key=utf8,
            value=utf8,
            commit_interval_ms=50,
            repartition_purge_interval_ms=100,
            state_dir=str(self._folder / folder),
        )
        counts = made.stream(f"{self._name}-words").group_by(lambda _key, value: value).count(store="counts")
        counts.to_stream().to(f"{self._name}-totals", value=int64)
        return made

    def send(self, words: str) -> None:
        """Send each letter as a word."""
        with headrace.Producer(self._cluster.bootstrap) as producer:
            for word in words:
                producer.send(f"{self._name}-words", word.encode(), key=str(self.sent.total()).encode())
                self.sent[word] += 1

    def wait_until_counted(self) -> None:
        """Read the totals until they are those of all words."""
        with headrace.Consumer(
            f"{self._name}-totals",
            bootstrap=self._cluster.bootstrap,
            key=utf8,
            value=int64,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:

            def is_complete() -> bool:
                for record in consumer.poll(0.1):
                    self.found[str(record.key)] = int(record.value or 0)
                return self.found == self.sent

            wait_for(is_complete, "all is counted", PATIENCE_S, lambda: f"{self.found} of {self.sent}")

    def wait_until_purged(self) -> None:
        """Wait until the repartition topic has no records."""
        with headrace.Admin(self._cluster.bootstrap) as admin:

            def is_purged() -> bool:
                starts = admin.list_offsets(dict.fromkeys(self._repartition, headrace.EARLIEST))
                ends = admin.list_offsets(dict.fromkeys(self._repartition, headrace.LATEST))
                return all(starts[place].offset == ends[place].offset for place in self._repartition)

            wait_for(is_purged, "the repartition topic is empty", PATIENCE_S)


def test_counts_continue_after_stores_are_lost(cluster: LocalCluster, tmp_path: Path) -> None:
    """Each instance begins with an empty state.dir: its stores are restored from their changelog. Processed
    records of the repartition topic are deleted."""
    totals = Totals(cluster, tmp_path)
    for folder in ("first", "second", "third"):
        totals.send("abacabad" * 50)
        with totals.app(folder).instance(cluster.bootstrap):
            totals.wait_until_counted()
            totals.wait_until_purged()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_stores_that_are_kept_are_not_restored_again(
    cluster: LocalCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture, guarantee: str
) -> None:
    """Stores have their changelog offsets. A damaged store is deleted, and restored from its changelog."""
    totals = Totals(cluster, tmp_path, guarantee)
    restored: list[int] = []
    for damage in (False, False, True):
        if damage:
            for manifest in tmp_path.rglob("MANIFEST-*"):
                manifest.write_bytes(b"damaged")
        totals.send("abacabad" * 50)
        with (
            caplog.at_level("WARNING", "headrace.stream"),
            totals.app("kept").instance(cluster.bootstrap) as instance,
        ):
            totals.wait_until_counted()
            restored.append(instance.restored_records)
        assert ("are deleted and restored from their changelogs" in caplog.text) == damage
    assert restored[:2] == [0, 0]
    assert restored[2] > 0
