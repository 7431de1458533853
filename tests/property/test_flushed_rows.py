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
from headrace.stream import (
    Builder,
    Windowed,
    hopping,
    session,
    session_windowed,
    sliding,
    time_windowed,
    tumbling,
)
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


WINDOWS: dict[str, Any] = {
    "none": None,
    "tumbling": tumbling(50_000, grace=20_000),
    "hopping": hopping(60_000, advance=20_000),
    "session": session(20_000),
    "wide session": session(60_000, grace=60_000),
    "sliding": sliding(30_000, grace=10_000),
}


def topology(random: Random, windows: str) -> Builder:
    """A count, a sum or an aggregate that deletes, and up to three operators behind it."""
    builder = Builder()
    grouped: Any = builder.stream("in").group_by_key()
    merger = {}
    if windows != "none":
        grouped = grouped.windowed_by(WINDOWS[windows])
        if "session" in windows:
            merger = {"merger": lambda _key, one, two: one + two}
    limit = random.randrange(1, 30)
    table: Any = random.choice(
        [
            lambda: grouped.count(store="table"),
            lambda: grouped.reduce(lambda old, new: old + new, store="table"),
            lambda: grouped.aggregate(
                lambda: 0,
                lambda _key, value, old: None if value % 5 == 0 else old + value,
                *merger.values(),
                store="table",
            ),
        ]
    )()
    if random.random() < 0.1:
        table = table.filter(lambda _key, value: value % 4 != 0)  # needs old values
    end, other = table.to_stream(), builder.stream("other")
    for _ in range(random.randrange(4)):
        end = random.choice(
            [
                lambda s: s.filter(lambda _key, value: value is not None and value % 3 != 0),
                lambda s: s.filter_not(lambda _key, value: value is not None and value % 2 == 0),
                lambda s: s.map_values(lambda value: 7 if value is None else value + 1),
                lambda s: s.map_values(lambda value: 1 // (limit - (value or 0))),
                lambda s: s.map(lambda key, value: (renamed(key), value)),
                lambda s: s.select_key(lambda key, value: renamed(key, value)),
                lambda s: s.select_key(lambda key, value: key if value is None or value % 7 else None),
                lambda s: s.merge(other),
                lambda s: s.flat_map_values(lambda value: [value, value]),
            ]
        )(end)
    serde = random.choice([int64, json, None, picky_serde(limit)])
    key = {} if windows == "none" else {"key": key_serde(windows)}
    end.to("out", **key, **({} if serde is None else {"value": serde}))
    if random.random() < 0.2:
        end.to("out2", **key)
    if random.random() < 0.2:
        table.to_stream().to("out3")
    return builder


def key_serde(windows: str) -> Any:
    """Of windowed keys; operators that change keys forget that of the table."""
    return session_windowed(utf8) if "session" in windows else time_windowed(utf8, 1)


def renamed(key: Any, value: Any = "x") -> Any:
    """Another key, in the same window."""
    return Windowed(f"{key.key}-{value}", key.window) if isinstance(key, Windowed) else f"{key}-{value}"


def records_of(random: Random, windows: str) -> list[StoredRecord]:
    """Many keys; few records have headers. With windows some are late, and stores drop segments."""
    with_headers = random.choice([0.0, 0.0, 0.02])
    step_ms = 0 if windows == "none" else random.choice([0, 1000, 5000])
    return [
        StoredRecord(
            "in",
            0,
            offset,
            offset * step_ms + random.randrange(1000 if windows == "none" else 100_000),
            b"key%d" % random.randrange(40),
            int64.dumps(random.randrange(100)),
            (("h", b"%d" % offset),) if random.random() < with_headers else (),
        )
        for offset in range(random.randrange(1, 300))
    ]


def result(seed: int, windows: str, *, by_rows: bool) -> dict[str, Any]:
    """Everything that can be seen of a task."""
    random = Random(seed)
    builder = topology(random, windows)
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
    assert flusher._rows is not None
    if not by_rows:
        flusher._rows = None
    records, error = records_of(random, windows), ""
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
        records.sort(key=lambda record: -1 if record[1] is None else record[1])  # in order by partition
    return {"sent": sent, "error": error, "dropped": task.context.dropped_records}


@pytest.mark.parametrize("windows", WINDOWS)
def test_flushed_rows_equal_single_entries(windows: str) -> None:
    """With and without errors."""
    failed, count = 0, 200 if windows == "none" else 80
    for seed in range(count):
        expected = result(seed, windows, by_rows=False)
        assert result(seed, windows, by_rows=True) == expected, seed
        failed += bool(expected["error"])
    assert 0 < failed < 0.8 * count, "both happen"
