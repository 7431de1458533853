"""Records that a task processes as runs give what the same records give one by one.

Topologies, timestamps, bad records and the sizes of polls are random; outputs, changelogs, dead letters,
committed offsets, dropped records and the error that ends a task are compared.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from headrace.clients.serdes import json, utf8
from headrace.protocol.model import TopicPartition
from headrace.stream import Builder, PunctuationType, Record, Store, hopping, tumbling
from headrace.stream.errors import StreamsError
from headrace.stream.state.memory_engine import MemoryEngine
from headrace.stream.state.thread_cache import ThreadCache
from headrace.stream.task.handlers import LogAndContinue
from headrace.stream.task.settings import TaskSettings
from headrace.stream.task.task import Task, TaskIo
from headrace.stream.task.timestamps import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
)
from headrace.stream.testing.topics import StoredRecord

EXTRACTORS = (
    FailOnInvalidTimestamp(),
    FailOnInvalidTimestamp(),
    LogAndSkipOnInvalidTimestamp(),
    UsePartitionTimeOnInvalidTimestamp(),
)


class Clock:
    """Forwards what it can see of time and place; punctuators that it schedules later forward, too."""

    def __init__(self, every: int) -> None:
        self.every = every

    def init(self, context: Any) -> None:
        self.context = context
        self.seen = 0

    def process(self, record: Record[Any, Any]) -> None:
        self.seen += 1
        if self.seen == self.every:
            self.context.schedule(self.every, PunctuationType.STREAM_TIME, self.punctuate)
        place = [*self.context.record_metadata, self.context.current_stream_time_ms()]
        self.context.forward(record._replace(value=place))

    def punctuate(self, timestamp: int) -> None:
        self.context.forward(Record("tick", self.seen, timestamp))


def topology(random: Random) -> tuple[Builder, list[str]]:
    """Up to three branches of one to three operators over one or two inputs, or an aggregation of one."""
    kind = random.random()
    if kind < 0.4:
        return aggregation(random), ["a"]
    if kind < 0.5:
        return join(random), ["a", "t"]
    builder = Builder()
    topics = random.choice([["a"], ["a"], ["a", "b"], ["a", "b", "c"]])
    stream: Any = builder.stream("a")
    for topic in topics[1:]:
        stream = stream.merge(builder.stream(topic))
    limit, every = random.randrange(1, 200), random.randrange(1, 30)
    for number in range(random.randrange(1, 4)):
        end = stream
        for _ in range(random.randrange(3)):
            end = random.choice(
                [
                    lambda s: s.filter(lambda _key, value: value % 3 != 0),
                    lambda s: s.filter_not(lambda _key, value: value % 7 // (value % (limit + 1) - limit)),
                    lambda s: s.map(lambda key, value: (value if value % limit == 1 else key, value + 1)),
                    lambda s: s.select_key(lambda key, value: key if value % 19 else None),
                    lambda s: s.map_values(lambda value: value + 1),
                    lambda s: s.map_values(lambda value: value // (limit - value)),
                    lambda s: s.flat_map_values(lambda value: [value] * (value % 3)),
                    lambda s: s.peek(lambda _key, _value: None),
                ]
            )(end)
        end_of(random, end, f"s{number}", every).to("out")
    return builder, topics


def aggregation(random: Random) -> Builder:
    """Of the records as they are read. Results are numbers, lists, null, and failures."""
    builder = Builder()
    limit = random.choice([10**6, 500, 2000])

    def add(_key: Any, value: Any, total: Any) -> Any:
        if value % 17 == 0:
            return None
        if value % 13 == 0:
            return [value]
        before = total[0] if isinstance(total, list) else total
        return before + value + 1 // max(limit - before, 0)

    grouped: Any = builder.stream("a").group_by_key()
    is_windowed = random.random() < 0.6
    if is_windowed:
        windows = tumbling(50) if random.random() < 0.7 else hopping(50, advance=25)
        grouped = grouped.windowed_by(windows)
    kind = random.randrange(3)
    if kind == 0:
        table = grouped.count(store="s")
    elif kind == 1:
        table = grouped.reduce(lambda one, other: one + other // (other % 100), store="s")
    else:
        table = grouped.aggregate(lambda: 1, add, store=Store("s", value=json))
    rows = table.to_stream()
    if is_windowed:
        rows = rows.select_key(lambda key, _value: f"{key.key}@{key.window.start}")
    every = random.randrange(1, 30)
    if random.random() < 0.5:
        rows = rows.process(lambda: Clock(every))
    rows.to("out")
    return builder


def join(random: Random) -> Builder:
    """Of a stream with a table, between other operators; it may fail, and leave records out."""
    builder = Builder()
    limit = random.choice([10**6, 150])
    table = builder.table("t", store="t")
    stream: Any = builder.stream("a").filter(lambda _key, value: value % 5)

    def joiner(_key: Any, value: Any, row: Any) -> Any:
        return [value, row, 1 // (limit - value)]

    joined = stream.left_join(table, joiner) if random.random() < 0.5 else stream.join(table, joiner)
    joined.filter(lambda _key, value: value[0] % 3).to("out")
    return builder


def end_of(random: Random, stream: Any, store: str, every: int) -> Any:
    """The last operator of a branch."""
    kind = random.randrange(4)
    if kind == 0:
        return stream
    if kind == 1:
        return stream.process(lambda: Clock(every))
    if kind == 2:
        return stream.group_by_key().count(store=store).to_stream()
    windows = stream.group_by_key().windowed_by(tumbling(50)).count(store=store)
    return windows.to_stream(lambda key, _value: f"{key.key}@{key.window.start}")


def records_of(random: Random, topic: str) -> list[StoredRecord]:
    """In and out of order, some bad."""
    time, made = random.randrange(50), []
    bad = random.choice([0.0, 0.0, 0.02])
    with_headers = random.choice([0.0, 0.0, 0.02, 0.1])
    for offset in range(random.randrange(150)):
        time += random.choice([0, 0, 1, 5, -3, 40]) if random.random() < 0.5 else 1
        timestamp = -1 if random.random() < bad else max(time, 0)
        value = b"no json" if random.random() < bad else b"%d" % random.randrange(200)
        headers = (("h", b"%d" % offset),) if random.random() < with_headers else ()
        made.append(
            StoredRecord(
                topic, 0, 2 * offset, timestamp, random.choice([b"k", b"l", b"m", None]), value, headers
            )
        )
    return made


def result(seed: int, *, by_runs: bool) -> dict[str, Any]:
    """Everything that can be seen of a task."""
    random = Random(seed)
    builder, topics = topology(random)
    handlers: dict[str, Any] = {}
    if random.random() < 0.5:
        handlers["deserialization_handler"] = LogAndContinue("letters")
    if random.random() < 0.5:
        handlers["processing_handler"] = LogAndContinue("letters")
    settings = TaskSettings(utf8, json, random.choice(EXTRACTORS), max_task_idle_ms=random.choice([-1, 0]),
                            **handlers)  # fmt: skip
    sent: list[Any] = []
    io = TaskIo(lambda *record: sent.append(record), lambda _: 4, lambda _: MemoryEngine(),
                ThreadCache(random.choice([0, 500, 10**6])))  # fmt: skip
    built = builder.build("app", caching=True)
    task = Task("app", 0, built.sub_topology(0), settings, io, topics=topics, wall_ms=0)
    task.initialize()
    task.complete_restoration()
    inputs = {TopicPartition(topic, 0): records_of(random, topic) for topic in topics}
    commits: list[Any] = []
    error = ""
    try:
        while any(inputs.values()):
            partition = random.choice([one for one, records in inputs.items() if records])
            count = random.randrange(1, 60)
            task.add_records(partition, inputs[partition][:count])
            del inputs[partition][:count]
            task.group.use_lags({one: len(records) for one, records in inputs.items()})
            if by_runs:
                while task.process_run(0, 25) == 25:
                    pass
            else:
                while task.process(0):
                    task.punctuate_stream_time()
            commits.append((task.prepare_commit(), task.group.stream_time, task.group.buffered()))
            task.post_commit()
    except StreamsError as failure:
        error = f"{failure} from {failure.__cause__!r}"
    return {"sent": sent, "commits": commits, "error": error, "dropped": task.context.dropped_records}


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_runs_equal_single_records(first: int) -> None:
    """Fifty cases each."""
    for seed in range(first, first + 50):
        assert result(seed, by_runs=True) == result(seed, by_runs=False), f"seed {seed}"
