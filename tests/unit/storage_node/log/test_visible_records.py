"""Counts of records: how many headers a count looks at. tests/property/ has their values."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cleaner_rig import clean
from fake_files import FakeFiles
from headrace.protocol.model import READ_COMMITTED, READ_UNCOMMITTED
from headrace.protocol.records.codec import active_codec
from headrace.storage_node.log import visible_records
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.visible_records import Count, KeptCounts, VisibleRecords
from log_rig import NOW, open_log
from producer_oracle import end, verified

LAG_MS = 5_000
SPAN_HEADERS = 8
ROUNDS = 60
KEYS: dict[str, Any] = {
    "segment_bytes": 700,
    "index_interval_bytes": 100,
    "cleanup_policy": ("compact",),
    "min_compaction_lag_ms": LAG_MS,
}


def write(log: Log, rounds: int, timestamp: int, epoch: int) -> None:
    """In each round a plain batch of two keys that come again, a committed and an aborted transaction."""
    for number in range(rounds):
        builder = active_codec().builder(max_bytes=1 << 20, is_transactional=False)
        for key in (b"%d" % (number % 3), b"same"):
            builder.append(timestamp, key, b"value")
        log.append_as_leader(builder.build(), leader_epoch=0, wall_ms=timestamp)
        for is_commit in (True, False):
            stamp: dict[str, Any] = {"producer_id": 7, "producer_epoch": epoch, "base_sequence": 0}
            builder = active_codec().builder(max_bytes=1 << 20, is_transactional=True, **stamp)
            builder.append(timestamp, b"t%d" % (number % 5), b"value")
            verified(log, builder.build())
            epoch += 1
            end(log, 7, epoch=epoch, is_commit=is_commit)
        log.high_watermark = log.log_end_offset


@pytest.fixture
def log() -> Log:
    """Half of it is compacted; the other half is too young for that."""
    made = open_log(FakeFiles(), **KEYS)
    made.visible = VisibleRecords(made.log_end_offset, max_spans=256, span_headers=SPAN_HEADERS)
    write(made, ROUNDS, NOW, 0)
    made.roll(NOW)
    clean(made, wall_ms=NOW + 2 * LAG_MS)
    write(made, ROUNDS, NOW + 2 * LAG_MS, 2 * ROUNDS)
    assert len(made.segments) > 30
    return made


@pytest.fixture
def headers(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """The number of headers that were looked at since the last call."""
    seen = 0
    walk = visible_records._headers

    def counting(*where: Any) -> Iterator[Any]:
        nonlocal seen
        for each in walk(*where):
            seen += 1
            yield each

    def taken() -> int:
        nonlocal seen
        found, seen = seen, 0
        return found

    monkeypatch.setattr(visible_records, "_headers", counting)
    return taken


def count(log: Log, *offsets: int, isolation: int = READ_COMMITTED) -> list[int]:
    """The records from each offset on."""
    end_offset = log.last_stable_offset if isolation == READ_COMMITTED else log.high_watermark
    work = Count(
        log.visible,
        list(log.segments),
        offsets,
        start_offset=log.log_start_offset,
        end_offset=end_offset,
        isolation=isolation,
    )
    while not work.is_done:
        work.run()
    return [records for records, _ in work.found]


@pytest.mark.parametrize("isolation", [READ_UNCOMMITTED, READ_COMMITTED])
def test_a_log_is_walked_once(log: Log, headers: Callable[[], int], isolation: int) -> None:
    """The first count looks at each header of dozens of segments; the next ones look at those of a span, and
    at what was appended."""
    (everything,) = count(log, 0, isolation=isolation)
    walked = headers()
    assert walked > 20 * SPAN_HEADERS
    for offset in range(0, log.log_end_offset, 17):
        count(log, offset, isolation=isolation)
        assert headers() <= 3 * SPAN_HEADERS, offset
    write(log, 2, NOW + 2 * LAG_MS, 4 * ROUNDS)
    (more,) = count(log, 0, isolation=isolation)
    assert more - everything == (8 if isolation == READ_UNCOMMITTED else 6)
    assert headers() <= 10 + 3 * SPAN_HEADERS


def test_compaction_leaves_the_counts_behind_it(log: Log, headers: Callable[[], int]) -> None:
    """A group behind the compacted segments does not wait for a walk to the end after each compaction."""
    count(log, 0)
    young = compact_the_first_half(log)
    before = headers()
    count(log, young + 3)
    assert headers() <= 3 * SPAN_HEADERS < before


def test_a_walk_after_each_compaction_is_noticed(
    log: Log, headers: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound above fails if compaction drops all counts."""
    monkeypatch.setattr(KeptCounts, "forget_below", lambda kept, _offset, _cuts: setattr(kept, "spans", None))
    count(log, 0)
    young = compact_the_first_half(log)
    headers()
    count(log, young + 3)
    assert headers() > 20 * SPAN_HEADERS


def compact_the_first_half(log: Log) -> int:
    """Once more: its tombstones and markers are old enough to be removed. Gives the end of that half."""
    log.compaction.cleaner_offset = 0
    cuts = log.visible.cuts
    clean(log, wall_ms=NOW + 2 * LAG_MS)
    assert log.visible.cuts > cuts
    assert log.compaction.cleaner_offset is not None
    return log.compaction.cleaner_offset
