"""What a cache flushes as one run gives what the same entries give one by one.

Topologies, keys, deletes, headers, cache sizes, failures of functions and of serdes are random. Compared are
the records of each topic, dropped records, and the error that ends a task.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from headrace.clients.serdes import Serde, int64, json, utf8
from headrace.protocol.model import TopicPartition
from headrace.stream import Builder
from headrace.stream.state.memory_engine import MemoryEngine
from headrace.stream.state.thread_cache import ThreadCache
from headrace.stream.task.handlers import LogAndContinue
from headrace.stream.task.settings import TaskSettings
from headrace.stream.task.task import Task, TaskIo
from headrace.stream.testing.topics import StoredRecord

IN = TopicPartition("in", 0)


def picky_serde(limit: int) -> Serde[Any]:
    """Refuses one value."""

    def dumps(value: Any) -> bytes:
        if value == limit:
            raise ValueError(f"{limit} cannot be written")
        return b"%d" % value

    return Serde("picky", dumps, int)


def topology(random: Random) -> Builder:
    """A count, a sum or an aggregate that deletes, and up to three operators behind it."""
    builder = Builder()
    grouped = builder.stream("in").group_by_key()
    limit = random.randrange(1, 30)
    table: Any = random.choice(
        [
            lambda: grouped.count(store="table"),
            lambda: grouped.reduce(lambda old, new: old + new, store="table"),
            lambda: grouped.aggregate(
                lambda: 0, lambda _key, value, old: None if value % 5 == 0 else old + value, store="table"
            ),
        ]
    )()
    end, other = table.to_stream(), builder.stream("other")
    for _ in range(random.randrange(4)):
        end = random.choice(
            [
                lambda s: s.filter(lambda _key, value: value is not None and value % 3 != 0),
                lambda s: s.filter_not(lambda _key, value: value is not None and value % 2 == 0),
                lambda s: s.map_values(lambda value: 7 if value is None else value + 1),
                lambda s: s.map_values(lambda value: 1 // (limit - (value or 0))),
                lambda s: s.map(lambda key, value: (key + "x", value)),
                lambda s: s.select_key(lambda key, value: f"{key}-{value}"),
                lambda s: s.merge(other),
                lambda s: s.flat_map_values(lambda value: [value, value]),
            ]
        )(end)
    serde = random.choice([int64, json, None, picky_serde(limit)])
    end.to("out", **({} if serde is None else {"value": serde}))
    if random.random() < 0.2:
        end.to("out2")
    if random.random() < 0.2:
        table.to_stream().to("out3")
    return builder


def records_of(random: Random) -> list[StoredRecord]:
    """Many keys; few records have headers."""
    with_headers = random.choice([0.0, 0.0, 0.02])
    return [
        StoredRecord(
            "in",
            0,
            offset,
            random.randrange(1000),
            b"key%d" % random.randrange(40),
            int64.dumps(random.randrange(100)),
            (("h", b"%d" % offset),) if random.random() < with_headers else (),
        )
        for offset in range(random.randrange(1, 300))
    ]


def result(seed: int, *, by_rows: bool) -> dict[str, Any]:
    """Everything that can be seen of a task."""
    random = Random(seed)
    builder = topology(random)
    handlers: dict[str, Any] = {}
    if random.random() < 0.3:
        handlers["production_handler"] = LogAndContinue("letters")
    if random.random() < 0.3:
        handlers["processing_handler"] = LogAndContinue("letters")
    sent: dict[str, list[Any]] = {}
    io = TaskIo(lambda *record: sent.setdefault(record[0], []).append(record), lambda _: 4,
                lambda _: MemoryEngine(), ThreadCache(random.choice([500, 5000, 10**6])))  # fmt: skip
    sub_topology = builder.build("app", caching=True).all_tasks()
    settings = TaskSettings(utf8, int64, **handlers)
    task = Task("app", 0, sub_topology, settings, io, topics=sub_topology.sources, wall_ms=0)
    task.initialize()
    task.complete_restoration()
    task.group.use_lags(dict.fromkeys(task.partitions, 0))
    flusher = task.stores["table"]._flusher
    assert flusher._write_rows is not None
    if not by_rows:
        flusher._write_rows = None
    records, error = records_of(random), ""
    try:
        while records:
            count = random.randrange(1, 100)
            task.add_records(IN, records[:count])
            del records[:count]
            while task.process(0):
                pass
            task.prepare_commit()
            task.post_commit()
    except Exception as failure:  # noqa: BLE001  # those of functions and of the task
        assert task._nodes is not None
        error = f"{task._nodes.name_of_failed(failure, 'no processor')}: {failure!r} {failure.__cause__!r}"
        sent.pop("app-table-changelog", None)  # by rows, all entries are logged before the first is forwarded
    for records in sent.values():  # of dead letters: the calls differ
        records[:] = [(*facts, [pair for pair in headers if "stacktrace" not in pair[0]])
                      for *facts, headers in records]  # fmt: skip
    return {"sent": sent, "error": error, "dropped": task.context.dropped_records}


@pytest.mark.parametrize("first", range(0, 200, 100))
def test_rows_give_what_entries_give_one_by_one(first: int) -> None:
    """With and without errors."""
    failed = 0
    for seed in range(first, first + 100):
        expected = result(seed, by_rows=False)
        assert result(seed, by_rows=True) == expected, seed
        failed += bool(expected["error"])
    assert 0 < failed < 80, "both happen"
