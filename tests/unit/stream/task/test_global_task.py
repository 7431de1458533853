"""Global stores."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import json, utf8
from headrace.protocol.model import TopicPartition
from headrace.stream import Builder, StoreBuilder, Topology
from headrace.stream.errors import ProcessingError, StreamsError
from headrace.stream.state.memory_engine import MemoryEngine
from headrace.stream.state.thread_cache import ThreadCache
from headrace.stream.task.global_task import GlobalTask
from headrace.stream.task.handlers import LogAndContinue
from headrace.stream.task.settings import TaskSettings
from headrace.stream.testing.topics import StoredRecord

ROWS = TopicPartition("rows", 3)


def global_task(**settings: Any) -> GlobalTask:
    builder = Builder()
    builder.global_table("rows", key=utf8, value=json, store="rows")
    topology = builder.build("app", caching=True).global_topology()
    assert topology is not None
    one = GlobalTask(
        "app", topology, TaskSettings(**settings), cache=ThreadCache(0), open_engine=lambda _: MemoryEngine(),
        wall_ms=0,
    )  # fmt: skip
    one.initialize()
    return one


def test_records_of_all_partitions_update_the_store() -> None:
    """The offsets to go on from are behind them."""
    one = global_task()
    one.update(ROWS, StoredRecord("rows", 3, 4, 10, b"a", b"1"), 0)
    one.update(ROWS, StoredRecord("rows", 3, 5, 11, None, b"2"), 0)
    assert one.offsets == {ROWS: 6}
    assert one.stores["rows"].get("a") == (1, 10)
    assert one.context.dropped_records == {"null key": 1}
    one.close()


def test_an_unreadable_record_stops_the_application_or_is_dropped() -> None:
    """The handler decides."""
    poisoned = StoredRecord("rows", 3, 4, 10, b"a", b"{")
    with pytest.raises(StreamsError, match="cannot read offset 4 of rows-3"):
        global_task().update(ROWS, poisoned, 0)
    one = global_task(deserialization_handler=LogAndContinue())
    one.update(ROWS, poisoned, 0)
    assert (one.offsets, one.context.dropped_records) == ({ROWS: 5}, {"not readable": 1})


def test_a_failing_processor_of_a_global_store_can_be_skipped() -> None:
    """With processing.exception.handler.global.enabled; there are no dead letters."""

    def fail(record: Any) -> None:
        raise KeyError(record.key)

    store = StoreBuilder("rows", key_serde=utf8, value_serde=json)
    topology = Topology().add_global_store(store, "s", "rows", "p", fail, key=utf8, value=json)
    built = topology.build("app").global_topology()
    assert built is not None
    for handles in (True, False):
        settings = TaskSettings(processing_handler=LogAndContinue("letters"), handles_global_failures=handles)
        one = GlobalTask(
            "app", built, settings, cache=ThreadCache(0), open_engine=lambda _: MemoryEngine(), wall_ms=0
        )
        one.initialize()
        if handles:
            one.update(ROWS, StoredRecord("rows", 3, 4, 10, b"a", b"1"), 0)
            assert one.context.dropped_records == {"processing failed": 1}
        else:
            with pytest.raises(
                ProcessingError, match="processor p of task -1_-1 failed on offset 4 of rows-3"
            ):
                one.update(ROWS, StoredRecord("rows", 3, 4, 10, b"a", b"1"), 0)
