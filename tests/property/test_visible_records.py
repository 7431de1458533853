"""Counts of records against a consumer: after any writes, ends of transactions, compactions, truncations,
deletions and restarts, and whatever was counted before, the count from each offset is the number of records
that a consumer with the isolation level receives from there, and the timestamp is that of the first one."""

from array import array
from collections.abc import Generator, Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
from cleaner_rig import clean
from fake_files import FakeFiles
from headrace.clients.consumer.completed_fetch import AbortedTransactions
from headrace.protocol.model import NO_TIMESTAMP, READ_COMMITTED, READ_UNCOMMITTED
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import read_batch_header
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.visible_records import Count, Spans, VisibleRecords
from hypothesis import given, settings
from log_rig import NOW, open_log, read_all
from producer_oracle import end, verified

RETENTION_MS = 1_000
KEYS: dict[str, Any] = {
    "segment_bytes": 700,
    "index_interval_bytes": 100,
    "cleanup_policy": ("compact",),
    "delete_retention_ms": RETENTION_MS,
}
STEPS = st.lists(
    st.tuples(st.sampled_from("pppptttteaarcwdxskfnnn"), st.integers(0, 4), st.integers(0, 1)),
    min_size=20,
    max_size=60,
)


class Counted:
    """A log, committed up to its end, and its counts."""

    def __init__(self, limits: dict[str, int]) -> None:
        self.limits = limits
        self.now_ms = NOW
        self.epochs, self.sequences, self.opened = [0, 0], [0, 0], [False, False]
        self._use(open_log(FakeFiles(), **KEYS))

    def _use(self, log: Log) -> None:
        self.log = log
        log.visible = VisibleRecords(log.log_end_offset, **self.limits)

    def step(self, what: str, key: int, producer: int) -> None:
        """p: plain, t: in a transaction, which e ends and a aborts; r: roll, c: compact, w: time passes, d:
        delete records, x: truncate, s: stop and start, k: kill, f: a follower copies the log, n: count."""
        log = self.log
        log.high_watermark = log.log_end_offset
        if what in "pt":
            self._write(key, producer if what == "t" else -1)
        elif what in "ea":
            self._end(producer, is_commit=what == "e")
        elif what == "r":
            log.roll(self.now_ms)
        elif what == "c":
            clean(log, wall_ms=self.now_ms)
        elif what == "w":
            self.now_ms += RETENTION_MS
        elif what == "d":
            log.advance_log_start_offset(min(log.log_start_offset + 2 * key + 1, log.log_end_offset))
            log.delete_segments_below(log.log_start_offset)
        elif what == "x" and not any(self.opened):
            self._truncate(log.log_end_offset - key)
        elif what in "sk":
            self._restart(is_orderly=what == "s")
        elif what == "f" and not any(self.opened):
            self._copy()
        elif what == "n":
            self.check([log.log_start_offset + key * 3, log.log_end_offset - key - producer])
        self.log.high_watermark = self.log.log_end_offset

    def _write(self, key: int, producer_id: int) -> None:
        stamp: dict[str, Any] = {}
        count = 1 + key * 3 % 7
        if producer_id >= 0:
            epoch, sequence = self.epochs[producer_id], self.sequences[producer_id]
            stamp = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
            self.sequences[producer_id] += count
            self.opened[producer_id] = True
        builder = active_codec().builder(max_bytes=1 << 20, is_transactional=producer_id >= 0, **stamp)
        for number in range(count):
            builder.append(self.now_ms + number * (key % 3), b"%d" % (number % 4), b"value")
        if producer_id >= 0:
            verified(self.log, builder.build())
        else:
            self.log.append_as_leader(builder.build(), leader_epoch=0, wall_ms=self.now_ms)

    def _end(self, producer_id: int, *, is_commit: bool) -> None:
        self.epochs[producer_id] += 1
        self.sequences[producer_id], self.opened[producer_id] = 0, False
        end(self.log, producer_id, epoch=self.epochs[producer_id], is_commit=is_commit)

    def _truncate(self, offset: int) -> None:
        log = self.log
        batches = [header for header in headers(log) if not header.is_transactional]
        starts = [
            each.base_offset for each in batches if each.base_offset >= max(offset, log.log_start_offset)
        ]
        tail = [each for each in headers(log) if starts and each.base_offset >= starts[0]]
        if starts and not any(each.is_transactional or each.is_control for each in tail):
            log.high_watermark = min(log.high_watermark, starts[0])
            log.truncate_to(starts[0])

    def _restart(self, *, is_orderly: bool) -> None:
        before = self.log
        if is_orderly:
            before.close()
        self._use(
            open_log(
                before.folder.files._files.restart(),
                was_clean=is_orderly,
                recovery_point=before.recovery_point,
                log_start_offset=before.log_start_offset,
                cleaner_offset=before.compaction.cleaner_offset,
                **KEYS,
            )
        )

    def _copy(self) -> None:
        """A follower with the batches of the log becomes the leader."""
        before = self.log
        log = open_log(FakeFiles(), **KEYS)
        self._use(log)
        batches = read_all(before)
        first = read_batch_header(batches[0]).base_offset if batches else before.log_end_offset
        if first:
            log.truncate_fully_and_start_at(first, before.log_start_offset)
        for data in batches:
            log.append_as_follower(data)
        log.advance_log_start_offset(before.log_start_offset)

    # --- counts -----------------------------------------------------------------------------------------

    def check(self, offsets: list[int]) -> None:
        """Compare the counts from `offsets` on with the records of a consumer."""
        log = self.log
        for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
            count = self.counted(offsets, isolation)
            received = list(self.received(isolation))
            for offset, found in zip(offsets, count.found, strict=True):
                rest = [timestamp for at, timestamp in received if at >= offset]
                assert found == (len(rest), rest[0] if rest else NO_TIMESTAMP), f"from {offset} on"
            kept = log.visible.kept[isolation].spans
            if kept is not None:
                assert len(kept.offsets) <= log.visible.max_spans
                assert kept.offsets == array("q", sorted(set(kept.offsets)))

    def counted(self, offsets: list[int], isolation: int) -> Count:
        """The finished count."""
        log = self.log
        count = Count(
            log.visible,
            list(log.segments),
            offsets,
            start_offset=log.log_start_offset,
            end_offset=self.end_offset(isolation),
            isolation=isolation,
        )
        while not count.is_done:
            count.run()
        return count

    def end_offset(self, isolation: int) -> int:
        """The end of what a consumer receives."""
        return self.log.last_stable_offset if isolation == READ_COMMITTED else self.log.high_watermark

    def check_all(self) -> None:
        """From each offset, also outside the log."""
        self.check(list(range(-1, self.log.log_end_offset + 3)))

    def received(self, isolation: int) -> Iterator[tuple[int, int]]:
        """Offset and timestamp of all records that a consumer receives from the log start on."""
        log = self.log
        offset, end_offset = log.log_start_offset, self.end_offset(isolation)
        while offset < end_offset:
            read = log.reader.read(offset, 10_000, upto_offset=end_offset)
            has_aborted = read.data and isolation == READ_COMMITTED
            aborted = AbortedTransactions(log.reader.aborted_in(offset, read.data) if has_aborted else ())
            for view in map(memoryview, read.data):
                while len(view):
                    header = read_batch_header(view)
                    batch, view = view[: header.size_bytes], view[header.size_bytes :]
                    if not aborted.covers(header) and not header.is_control:
                        for record in active_codec().decode(batch):
                            if record.offset >= log.log_start_offset:
                                yield record.offset, record.timestamp
            offset = max(read.next_offset, offset + 1)


def headers(log: Log) -> Iterator[Any]:
    """The headers of all batches."""
    return map(read_batch_header, read_all(log))


PLANTED = {
    "markers count": ("_visible", lambda self, header, start: header.record_count),
    "aborted records count": (
        "_visible",
        lambda self, header, start: 0 if header.is_control else header.record_count,
    ),
    "offsets count": ("_extended", lambda self, spans, upto: offsets_as_records(self, spans, upto)),
}


def offsets_as_records(_count: Any, spans: Spans, upto: int) -> Generator[None, None, Spans]:
    """As Kafka's tools: each offset is a record."""
    yield
    last = spans.before[-1] + upto - spans.offsets[-1]
    return Spans(
        spans.cuts, spans.anchor, spans.offsets + array("q", [upto]), spans.before + array("q", [last])
    )


@pytest.mark.parametrize("bug", PLANTED)
def test_wrong_counts_are_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison fails for counts that forget a rule."""
    name, wrong = PLANTED[bug]
    counted = Counted({})
    for what in "ptaptepta":
        counted.step(what, 1, 0)
    counted.check_all()
    counted.log.visible.forget()
    monkeypatch.setattr(Count, name, wrong)
    with pytest.raises(AssertionError, match=r"from -?\d+ on"):
        counted.check_all()


@settings(max_examples=150)
@given(STEPS, st.sampled_from([{}, {"max_spans": 6, "span_headers": 1}, {"max_spans": 4, "span_headers": 3}]))
def test_counts_are_those_of_a_consumer(steps: list[tuple[str, int, int]], limits: dict[str, int]) -> None:
    """For each offset, before the log start and after the end too, with few and with many spans."""
    counted = Counted(limits)
    for step in steps:
        counted.step(*step)
    counted.check_all()
    counted.check_all()  # with all that is remembered now
