"""The numbers of a RocksDB database by the names of Kafka Streams' metrics (KIP-471, KIP-607). Pure."""

from __future__ import annotations

import re

PROPERTIES = (
    "num-immutable-mem-table",
    "cur-size-active-mem-table",
    "cur-size-all-mem-tables",
    "size-all-mem-tables",
    "num-entries-active-mem-table",
    "num-entries-imm-mem-tables",
    "num-deletes-active-mem-table",
    "num-deletes-imm-mem-tables",
    "mem-table-flush-pending",
    "num-running-flushes",
    "compaction-pending",
    "num-running-compactions",
    "estimate-pending-compaction-bytes",
    "total-sst-files-size",
    "live-sst-files-size",
    "num-live-versions",
    "block-cache-capacity",
    "block-cache-usage",
    "block-cache-pinned-usage",
    "estimate-num-keys",
    "estimate-table-readers-mem",
    "background-errors",
)
"""RocksDB's names begin with "rocksdb."."""

_TOTALS = {
    "bytes-written-total": "bytes.written",
    "bytes-read-total": "bytes.read",
    "memtable-bytes-flushed-total": "flush.write.bytes",
    "bytes-written-compaction-total": "compact.write.bytes",
    "bytes-read-compaction-total": "compact.read.bytes",
    "write-stall-duration-total": "stall.micros",
    "number-file-errors-total": "no.file.errors",
}
_HIT_RATIOS = {
    "memtable-hit-ratio": "memtable",
    "block-cache-data-hit-ratio": "block.cache.data",
    "block-cache-index-hit-ratio": "block.cache.index",
    "block-cache-filter-hit-ratio": "block.cache.filter",
}
_DURATIONS = {"memtable-flush-time": "db.flush.micros", "compaction-time": "compaction.times.micros"}
_COUNT = re.compile(r"^rocksdb\.(\S+) COUNT : (\d+)$", re.MULTILINE)
_TIMES = re.compile(r"^rocksdb\.(\S+) P50 .* P100 : ([\d.]+) COUNT : (\d+) SUM : (\d+)$", re.MULTILINE)


def of_statistics(text: str) -> dict[str, float]:
    """The numbers in RocksDB's text since the database was opened. Durations in ms."""
    counts = {name: int(count) for name, count in _COUNT.findall(text)}
    found: dict[str, float] = {ours: counts.get(name, 0) for ours, name in _TOTALS.items()}
    found["write-stall-duration-total"] /= 1000
    for ours, name in _HIT_RATIOS.items():
        hits, misses = counts.get(f"{name}.hit", 0), counts.get(f"{name}.miss", 0)
        found[ours] = hits / (hits + misses) if hits + misses else 0.0
    times = {name: tuple(map(float, numbers)) for name, *numbers in _TIMES.findall(text)}
    for ours, name in _DURATIONS.items():
        highest, count, total = times.get(name, (0.0, 0.0, 0.0))
        found[f"{ours}-avg"] = total / count / 1000 if count else 0.0
        found[f"{ours}-max"] = highest / 1000
    return found
