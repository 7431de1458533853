"""Properties and statistics of RocksDB by Kafka's names."""

from __future__ import annotations

from pathlib import Path

from headrace.stream.state.files_io import open_engine
from headrace.stream.state.rocksdb_numbers import PROPERTIES, of_statistics


def test_a_database_gives_them(tmp_path: Path) -> None:
    """Statistics only if they were asked for when it was opened."""
    engine = open_engine(tmp_path, "counted", has_statistics=True)
    engine.write({"s": {b"a": b"1", b"b": b"2"}}, offset=3)
    assert engine.get("s", b"a") == b"1"
    assert engine.get("s", b"c") is None
    found = engine.numbers()  # type: ignore[attr-defined]  # of RocksDB
    assert found["num-entries-active-mem-table"] == 3
    assert (found["memtable-hit-ratio"], found["background-errors"]) == (0.5, 0)
    assert found["bytes-written-total"] > 0
    engine.close()
    plain = open_engine(tmp_path, "counted")
    assert plain.numbers().keys() == set(PROPERTIES)  # type: ignore[attr-defined]  # as above
    plain.close()


def test_text_of_statistics() -> None:
    """Durations are ms; what RocksDB does not say is 0."""
    found = of_statistics(
        "rocksdb.block.cache.data.hit COUNT : 3\nrocksdb.block.cache.data.miss COUNT : 1\n"
        "rocksdb.stall.micros COUNT : 2500\n"
        "rocksdb.db.flush.micros P50 : 1.0 P95 : 2.0 P99 : 2.0 P100 : 4000.0 COUNT : 2 SUM : 6000\n"
    )
    assert (found["block-cache-data-hit-ratio"], found["write-stall-duration-total"]) == (0.75, 2.5)
    assert (found["memtable-flush-time-avg"], found["memtable-flush-time-max"]) == (3.0, 4.0)
    assert (found["compaction-time-avg"], found["memtable-hit-ratio"]) == (0.0, 0.0)
