"""The metrics of stream applications, by group and name of Kafka Streams (KIP-444, KIP-471, KIP-607).
Pure data; `table.py` has all of them.

Kafka's tag with the name of a store says in its own name what kind of store it is (`rocksdb-state-id`); here
these are two labels, `store_type` and `store`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .metric import Kind, Metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DOMAIN = "kafka.streams"
CLIENT, THREAD, TASK = "stream-metrics", "stream-thread-metrics", "stream-task-metrics"
STATE_UPDATER, STATE = "stream-state-updater-metrics", "stream-state-metrics"
NODE, TOPIC = "stream-processor-node-metrics", "stream-topic-metrics"
RECORD_CACHE = "stream-record-cache-metrics"
_OF_THREAD = ("thread_id",)
_OF_TASK = (*_OF_THREAD, "task_id")
LABELS = {
    CLIENT: ("client_id",),
    THREAD: _OF_THREAD,
    STATE_UPDATER: _OF_THREAD,
    TASK: _OF_TASK,
    STATE: (*_OF_TASK, "store_type", "store"),
    NODE: (*_OF_TASK, "processor_node_id"),
    TOPIC: (*_OF_TASK, "processor_node_id", "topic"),
    RECORD_CACHE: (*_OF_TASK, "record_cache_id"),
}
STATE_NAME = "state"  # its value is a word, which becomes a label
# Kafka's name says total, but it decreases.
_GAUGE_TOTALS = {"restore-remaining-records-total": "restore_remaining_records"}


def _spread(name: str, what: str, endings: tuple[str, ...] = ("avg", "max")) -> dict[str, str]:
    words = {"avg": "Average", "max": "Largest", "min": "Smallest"}
    return {f"{name}-{ending}": f"{words[ending]} {what}." for ending in endings}


def _counted(name: str, what: str) -> dict[str, str]:
    return {f"{name}-total": f"{what}.", f"{name}-rate": f"{what} per second."}


def _work(name: str, what: str, of: str) -> dict[str, str]:
    return {
        **_counted(name, what),
        **_spread(f"{name}-latency", f"time of {of} in ms"),
        f"{name}-ratio": f"Part of the time, 0 to 1, that the thread spends in {of}.",
    }


_OPERATIONS = (
    "put", "put-if-absent", "put-all", "get", "delete", "remove", "all", "range", "prefix-scan", "fetch",
    "flush", "restore",
)  # fmt: skip
_PROPERTIES = (
    "num-immutable-mem-table", "cur-size-active-mem-table", "cur-size-all-mem-tables", "size-all-mem-tables",
    "num-entries-active-mem-table", "num-entries-imm-mem-tables", "num-deletes-active-mem-table",
    "num-deletes-imm-mem-tables", "mem-table-flush-pending", "num-running-flushes", "compaction-pending",
    "num-running-compactions", "estimate-pending-compaction-bytes", "total-sst-files-size",
    "live-sst-files-size", "num-live-versions", "block-cache-capacity", "block-cache-usage",
    "block-cache-pinned-usage", "estimate-num-keys", "estimate-table-readers-mem", "background-errors",
)  # fmt: skip
_DOCS: dict[str, dict[str, str]] = {
    CLIENT: {
        STATE_NAME: "1 for the state of the instance.",
        "alive-stream-threads": "Stream threads that run.",
        "failed-stream-threads": "Stream threads that an error has ended.",
    },
    THREAD: {
        STATE_NAME: "1 for the state of the thread.",
        "thread-start-time": "Start of the thread, in ms since 1970.",
        **_work("poll", "Polls of the consumer", "a poll"),
        **_work("process", "Processed records", "processing a record"),
        **_work("commit", "Commits", "a commit"),
        **_work("punctuate", "Calls of punctuators", "a punctuator"),
        **_spread("poll-records", "number of records of a poll"),
        **_spread("process-records", "number of records of a turn"),
        **_counted("task-created", "Tasks that the thread began"),
        **_counted("task-closed", "Tasks that the thread ended"),
    },
    STATE_UPDATER: {
        "active-restoring-tasks": "Tasks whose stores are being restored.",
        "standby-updating-tasks": "Standby tasks.",
        "active-restore-ratio": "Part of the time, 0 to 1, that the thread spends in restoring stores.",
        **_counted("restore-records", "Restored records of changelogs"),
    },
    TASK: {
        "restore-remaining-records-total": "Records of changelogs that are left to restore.",
        "dropped-records-total": "Records that were not processed.",
        **_counted("process", "Processed records"),
        **_spread("process-latency", "time of processing a record in ms"),
        "active-process-ratio": "Part of the time, 0 to 1, that the thread spends in this task.",
    },
    STATE: {
        "num-open-iterators": "Open iterators of the store.",
        "num-keys": "Entries of a store in memory.",
        **{
            name: text
            for operation in _OPERATIONS
            for name, text in {
                f"{operation}-rate": f"Calls of {operation} per second.",
                **_spread(f"{operation}-latency", f"time of {operation} in ms"),
            }.items()
        },
        **_spread("iterator-duration", "time in ms for which an iterator was open"),
        "oldest-iterator-open-since-ms": "When the oldest open iterator was opened, in ms since 1970.",
        **_spread("suppression-buffer-size", "size of a suppress buffer in bytes"),
        **_spread("suppression-buffer-count", "number of records of a suppress buffer"),
        **{name: f"RocksDB's property rocksdb.{name}." for name in _PROPERTIES},
        **_counted("bytes-written", "Bytes written to the store"),
        **_counted("bytes-read", "Bytes read from the store"),
        **_counted("memtable-bytes-flushed", "Bytes of flushed memtables"),
        **_counted("bytes-written-compaction", "Bytes written by compaction"),
        **_counted("bytes-read-compaction", "Bytes read by compaction"),
        "write-stall-duration-total": "Time in ms for which writes were stalled.",
        "number-file-errors-total": "Errors of files.",
        **{
            f"{cache}-hit-ratio": f"Part of the reads, 0 to 1, that found their data: {cache}."
            for cache in ("memtable", "block-cache-data", "block-cache-index", "block-cache-filter")
        },
        **_spread("memtable-flush-time", "time of a flush of a memtable in ms"),
        **_spread("compaction-time", "time of a compaction in ms"),
    },
    NODE: {
        **_counted("process", "Records of the node"),
        **_counted("suppression-emit", "Records that left the buffer"),
        **_spread(
            "record-e2e-latency",
            "time in ms from the timestamp of a record until the node gets it",
            ("avg", "min", "max"),
        ),
    },
    TOPIC: {
        f"{what}-{verb}-total": f"{what.capitalize()} {verb}."
        for what in ("records", "bytes")
        for verb in ("consumed", "produced")
    },
    RECORD_CACHE: _spread(
        "hit-ratio", "part of the reads, 0 to 1, that the cache answered", ("avg", "min", "max")
    ),
}


def _declared(groups: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[tuple[str, str], Metric]]:
    for group, docs in groups.items():
        for name, doc in docs.items():
            labels = (*LABELS[group], STATE_NAME) if name == STATE_NAME else LABELS[group]
            shown = _GAUGE_TOTALS.get(name)
            is_counter = name.endswith("-total") and shown is None
            prometheus = f"kafka_streams_{group.replace('-', '_')}_{shown}" if shown else ""
            yield (
                (group, name),
                Metric(
                    DOMAIN,
                    group,
                    name,
                    Kind.COUNTER if is_counter else Kind.GAUGE,
                    doc,
                    labels,
                    unit=_unit(name),
                    prometheus_name=prometheus,
                ),
            )


def _unit(name: str) -> str:
    if "ratio" in name or name == STATE_NAME:
        return "1"
    if "bytes" in name.split("-") and not name.endswith("-rate"):
        return "By"
    return "ms" if {"latency", "duration", "time"} & set(name.split("-")) else "1"


STREAM_METRICS = dict(_declared(_DOCS))
"""By group and name."""
