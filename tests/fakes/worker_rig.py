"""A task manager of a word-count application over a cluster in memory."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.clients.serdes import int64, utf8
from headrace.protocol.messages.streams_groups import Status, StatusCode
from headrace.protocol.model import TopicPartition
from headrace.stream import App
from headrace.stream.state.engines import DamagedStoreError, StoreFullError
from headrace.stream.state.memory_engine import MemoryEngine
from headrace.stream.state.thread_cache import ThreadCache
from headrace.stream.worker.async_calls_io import FunctionLoop, ThreadCalls
from headrace.stream.worker.group_topology import group_topology
from headrace.stream.worker.output_io import Output
from headrace.stream.worker.plan import AppPlan
from headrace.stream.worker.restorer_io import Restorer
from headrace.stream.worker.standby_reader_io import StandbyReader
from headrace.stream.worker.state_directory_io import StateDirectory
from headrace.stream.worker.task_maker_io import TaskMaker
from headrace.stream.worker.task_manager_io import TaskManager
from headrace.stream.worker.thread_io import StreamThread
from stream_clients import FakeConsumer, FakeStreamsCluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SOURCE, COUNTS = "words", "counts"


class _Engine(MemoryEngine):
    """A store engine with a full disk for the next `full` writes, or with damaged files."""

    full = 0
    is_damaged = False
    unreadable = 0

    def get(self, space: str, key: bytes) -> bytes | None:
        if self.unreadable:
            self.unreadable -= 1
            raise StoreFullError("the disk is still full")
        if self.is_damaged:
            raise DamagedStoreError("bad checksum in block 7")
        return super().get(space, key)

    def write(self, *arguments: Any, **options: Any) -> None:
        if self.full:
            self.full -= 1
            raise StoreFullError("no space left on device")
        super().write(*arguments, **options)


class InlineLoop(FunctionLoop):
    """Runs each call of an async function to its end when it is submitted."""

    def __init__(self) -> None:
        super().__init__("calls")

    def call_soon(self, callback: Callable[[], object]) -> None:
        async def run() -> None:
            callback()
            calls = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*calls)

        asyncio.run(run())


async def echo(value: str) -> str:
    """An async function that returns its word."""
    return value


def counting_app(**options: Any) -> App:
    """An application that counts words without a cache; with `calls`, words pass through an async function.
    `table`: a table whose changelog is the source topic."""
    function = options.pop("function", lambda key, value: None)
    has_counts, has_calls = options.pop("counts", True), options.pop("calls", False)
    source = options.pop("source", SOURCE)
    is_table = options.pop("table", False)
    if is_table:
        options["optimization"] = "reuse.ktable.source.topics"
    app = App("app", key=utf8, value=utf8, **{"cache_bytes": 0, **options})
    if is_table:
        app.table(source, store="store")
        return app
    if not has_counts:
        app.stream(source).to(COUNTS)
        return app
    words = app.stream(source)
    if has_calls:
        words = words.map_values_async(echo)
    counts = words.peek(function).group_by_key().count(store="store")
    counts.to_stream().to(COUNTS, value=int64)
    return app


def plan_of(app: App, partitions: dict[str, int], open_engine: Any) -> AppPlan:
    """The plan of an application, without a cluster."""
    built = app.build(app.application_id, matched=list(partitions))
    sub_topologies = {number: built.sub_topology(number) for number in built.sub_topology_ids}
    changelogs = {topic for each in sub_topologies.values() for topic in each.changelogs.values()}
    isolation = "read_committed" if app.config.is_exactly_once else "read_uncommitted"
    return AppPlan(
        config=app.config,
        settings=app.settings,
        built=built,
        sub_topologies=sub_topologies,
        sources={number: frozenset(each.sources) for number, each in sub_topologies.items()},
        partitions=partitions,
        repartition_topics=frozenset(),
        topic_ids=dict.fromkeys([*changelogs, *partitions], "id"),
        client_configs={
            name: {"auto.offset.reset": "earliest", "isolation.level": isolation}
            for name in ("main.consumer", "restore.consumer", "global.consumer", "producer", "admin")
        },
        open_engine=open_engine,
        group_topology=group_topology(built, app.config, {}),
    )


def counts_of(cluster: FakeStreamsCluster) -> list[tuple[str, int]]:
    """The output of the application."""
    records = cluster.logs[TopicPartition(COUNTS, 0)]
    return [(utf8.loads(each.key or b""), int64.loads(each.value or b"")) for each in records if each]


class Files:
    """Stores of tasks in memory, which are deleted with the tasks' folders."""

    def __init__(self) -> None:
        self.engines: dict[str, _Engine] = {}
        self.opened = 0

    def open(self, folder: Path, store: str) -> _Engine:
        self.opened += 1
        file = folder / store
        if not file.exists():
            file.touch()
            self.engines[folder.name] = _Engine()
        return self.engines[folder.name]


def directory_of(rig: object, folder: Path) -> StateDirectory:
    """The state directory of a process; its file descriptor is closed with the rig at the latest."""
    directory = StateDirectory(str(folder), "app")

    def close() -> None:
        directory.snapshots = None  # clients of the test
        directory.close()

    weakref.finalize(rig, close).atexit = False
    return directory


class WorkerRig:
    """`work` reads, restores and processes; the test commits. The clock does not advance."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.cluster = options.pop("cluster", None) or FakeStreamsCluster(words=2, counts=1)
        self.changelog = TopicPartition("app-store-changelog", 0)
        self.now_ms = 1_000_000
        self.thread_count = options.pop("thread_count", 1)
        self.files = options.pop("files", None) or Files()
        self.directory = directory_of(self, folder)
        listener, name = options.pop("listener", None), options.pop("transactional_id", "app-1")
        self.app = app = counting_app(**options)
        self.plan = plan = plan_of(app, {SOURCE: 2}, self.files.open)
        self.consumer: FakeConsumer = self.cluster.consumer(plan.client_configs["main.consumer"])
        transactional_id = name if plan.config.is_exactly_once else None
        self.output = Output(
            self.cluster, plan.client_configs["producer"], transactional_id, plan.changelogs()
        )
        self.restorer = Restorer(
            self.cluster,
            plan.client_configs["restore.consumer"],
            plan.client_configs["admin"],
            self.stored_offsets,
            listener,
        )
        reader = StandbyReader(
            *(self.cluster, plan.client_configs["restore.consumer"], self.stored_offsets, listener),
            clock_s=lambda: self.now_ms / 1000,
        )
        calls = ThreadCalls(InlineLoop(), lambda: None)
        cache = ThreadCache(app.config.cache_bytes)
        clock = lambda: self.now_ms  # noqa: E731
        maker = TaskMaker(*(plan, "thread", self.output, self.directory, calls, {}, cache, clock))
        self.manager = TaskManager(
            *(plan, "thread", self.consumer, self.output, self.restorer, reader, maker, calls, clock),
            lambda: self.thread_count,
        )

    # by the consumer, which calls the manager in a rebalance

    def assign(self, *partitions: TopicPartition) -> None:
        self.consumer.add(partitions)
        self.manager.assign(partitions)

    def revoke(self, *partitions: TopicPartition) -> None:
        self.manager.revoke(partitions)
        self.consumer.drop(partitions)

    def lose(self, *partitions: TopicPartition) -> None:
        self.manager.lose(partitions)
        self.consumer.drop(partitions)

    # by a turn of the thread

    def use_topics(self, **partitions: int) -> None:
        """Set the topics that match the pattern of the source."""
        self.manager.use_plan(plan_of(self.app, partitions, self.files.open))

    def send(self, *words: str, partition: int = 0, topic: str = SOURCE) -> None:
        """Append words to a source topic."""
        for word in words:
            self.cluster.append(topic, word.encode(), b"", partition=partition, timestamp=self.now_ms)

    def read(self) -> None:
        """Poll, and pass the records to their tasks."""
        for record in self.consumer.poll(0):
            self.manager.add_records(TopicPartition(record.topic, record.partition), [record])

    def process(self, limit: int) -> None:
        """Process up to `limit` records of each task."""
        for task in self.manager.running:
            for _ in range(limit):
                if not task.process(self.now_ms):
                    break

    def work(self) -> None:
        """Open and restore the tasks, then process all records."""
        self.manager.open_tasks()
        while self.restorer.is_busy:
            self.manager.restore(0)
        if self.manager.is_waiting:
            self.manager.restore(0)
        self.read()
        self.process(1000)

    # results

    def counts(self) -> list[tuple[str, int]]:
        """The output counts."""
        return counts_of(self.cluster)

    def stored_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The committed offsets of input topics that are used as changelogs."""
        return {tp: self.committed().get(tp) for tp in partitions}

    def committed(self) -> dict[TopicPartition, int]:
        return {tp: found.offset for tp, found in self.cluster.committed.items()}

    def stored_offset(self) -> int | None:
        """The changelog offset in the files of the first task."""
        return self.files.engines["0_0"].offset()

    def full_disk(self, writes: int) -> None:
        """Make the next writes of the first task's store fail."""
        self.files.engines["0_0"].full = writes


class ThreadRig:
    """A stream thread over a cluster in memory. `run` runs it in the test's thread until `until` holds before
    a poll; afterwards the thread has committed and closed everything."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.cluster = FakeStreamsCluster(words=2, counts=1)
        self.files = Files()
        self.changes = 0
        self.thread_count = 1
        self.on_change: Callable[[], object] = lambda: None
        self.errors: list[BaseException] = []
        self.shutdowns: list[str] = []
        self.group_changes = 0
        self.directory = directory_of(self, folder)
        options = {"commit_interval_ms": 0, **options}
        make_app = options.pop("make_app", counting_app)
        loop = InlineLoop() if options.get("calls") else FunctionLoop("calls")
        restore_listener = options.pop("restore_listener", None)
        self.app = make_app(**options)
        plan = plan_of(self.app, {SOURCE: 2}, self.files.open)
        self.plan = replace(plan, restore_listener=restore_listener)
        self.thread = StreamThread(
            *("app-thread-1", self.plan, self.cluster, self.directory, loop, {}, lambda: self.thread_count),
            self,
        )

    # by the listener of the thread

    def tasks_changed(self) -> None:
        self.changes += 1
        self.on_change()

    def thread_failed(self, _thread: StreamThread, error: BaseException) -> None:
        self.errors.append(error)

    def shutdown_requested(self) -> None:
        self.shutdowns.append("requested")

    def group_changed(self) -> None:
        self.group_changes += 1

    # by the test

    def answer(self, *codes: StatusCode, epoch: int = 7) -> None:
        """Deliver the coordinator's response to a heartbeat."""
        application = self.consumer.streams
        application.statuses = tuple(Status(code.value, code.name) for code in codes)
        application.member_epoch = epoch
        application.responses += 1

    @property
    def consumer(self) -> FakeConsumer:
        return self.cluster.consumers[0]

    def consumer_gives_nothing(self) -> None:
        """Deliver a rebalance without changes."""
        self.consumer.give()

    def run(self, *steps: Callable[[], object]) -> None:
        """Call one of `steps` before each poll, then close the thread."""
        todo = list(steps)

        def next_step() -> None:
            if todo:
                todo.pop(0)()
            else:
                self.thread.close()

        self.cluster.on_poll = next_step
        self.thread.run()

    def counts(self) -> list[tuple[str, int]]:
        return counts_of(self.cluster)

    def send(self, *words: str, partition: int = 0) -> None:
        for word in words:
            self.cluster.append(SOURCE, word.encode(), b"", partition=partition)
