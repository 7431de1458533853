"""The log equals a list, and its indexes a linear scan, under any sequence of operations."""

from bisect import bisect_right
from typing import Any

import hypothesis.strategies as st
from fake_files import FakeFiles
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import read_batch_header
from headrace.storage_node.log.offset_index import OffsetIndex
from headrace.storage_node.log.time_index import TimeIndex
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from log_rig import NOW, append, batch, check_dense, open_log

KEYS: dict[str, Any] = {"segment_bytes": 700, "index_interval_bytes": 150}


class LogMachine(RuleBasedStateMachine):
    """Append, roll, truncate, flush, restart cleanly or not, and read at any offset; the model is a list."""

    def __init__(self) -> None:
        super().__init__()
        self.files = FakeFiles()
        self.files.mkdir("/d")
        self.files.fsync_directory("/")
        self.batches: list[bytes] = []  # as sent, without offsets and epochs
        self.times: list[list[int]] = []
        self.offsets: list[int] = [0]  # base offset of each batch, and the end
        self.flushed = 0
        self.epoch = 0
        self.epochs: list[int] = []

    @initialize()
    def start(self) -> None:
        self.log = open_log(self.files, **KEYS)

    @rule(
        deltas=st.lists(st.integers(-500, 500), min_size=1, max_size=5),
        size=st.sampled_from([0, 1, 30, 100]),
        at=st.integers(0, 1000),
    )
    def append_batch(self, deltas: list[int], size: int, at: int) -> None:
        builder = active_codec().builder(max_bytes=1 << 20)
        times = [NOW + at + delta for delta in deltas]
        for number, time in enumerate(times):
            builder.append(time, f"{len(self.batches)}:{number}".encode(), b"v" * size)
        data = builder.build()
        assert append(self.log, data, epoch=self.epoch) == self.offsets[-1]
        self.batches.append(data)
        self.times.append(times)
        self.epochs.append(self.epoch)
        self.offsets.append(self.offsets[-1] + len(times))

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1
        self.log.assign_leader_epoch(self.epoch)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = len(self.batches)

    @precondition(lambda self: self.batches)
    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        offset = int(part * self.offsets[-1])
        keep = bisect_right(self.offsets, offset) - 1
        self.log.truncate_to(offset)
        del self.batches[keep:], self.times[keep:], self.epochs[keep:], self.offsets[keep + 1 :]
        self.flushed = min(self.flushed, keep)
        self.epoch += 1  # a log is truncated only for a new leader

    @rule()
    def restart_cleanly(self) -> None:
        self.log.close()
        self.files = self.files.restart()
        self.log = open_log(self.files, was_clean=True, recovery_point=self.log.recovery_point, **KEYS)
        assert self.log.recovery.faults == []
        self.flushed = len(self.batches)

    @rule()
    def kill(self) -> None:
        self.files = self.files.restart()
        self.log = open_log(self.files, recovery_point=self.log.recovery_point, **KEYS)
        assert self.log.recovery.faults == []
        self.flushed = len(self.batches)

    @rule(mode=st.one_of(st.sampled_from(["none", "all"]), st.integers(0, 1000)))
    def lose_power(self, mode: str | int) -> None:
        self.files = self.files.power_loss(mode)
        self.log = open_log(self.files, recovery_point=self.log.recovery_point, **KEYS)
        keep = bisect_right(self.offsets, self.log.log_end_offset) - 1
        assert self.flushed <= keep <= len(self.batches)
        assert self.offsets[keep] == self.log.log_end_offset
        del self.batches[keep:], self.times[keep:], self.epochs[keep:], self.offsets[keep + 1 :]
        self.flushed = keep

    @invariant()
    def it_reads_like_the_list(self) -> None:
        found = check_dense(self.log)
        assert [data[17:] for data in found] == [data[17:] for data in self.batches]
        assert self.log.log_end_offset == self.offsets[-1]
        assert self.log.size_bytes == sum(map(len, self.batches))

    @precondition(lambda self: self.batches)
    @rule(part=st.floats(0, 1, exclude_max=True), max_bytes=st.integers(0, 1500), upto=st.floats(0, 1))
    def read_some(self, part: float, max_bytes: int, upto: float) -> None:
        offset, limit = int(part * self.offsets[-1]), int(upto * self.offsets[-1])
        first = bisect_right(self.offsets, offset) - 1
        expected: list[bytes] = []
        if offset < limit:
            for number in range(first, len(self.batches)):
                size = sum(map(len, expected)) + len(self.batches[number])
                if self.offsets[number + 1] > limit or (expected and size > max_bytes):
                    break
                expected.append(self.batches[number])
        got = self.log.reader.read(offset, max_bytes, upto_offset=limit)
        data = b"".join(map(bytes, got.data))
        assert len(data) == sum(map(len, expected))
        assert got.next_offset == (self.offsets[first + len(expected)] if expected else offset)

    @rule(time=st.integers(NOW - 600, NOW + 1600))
    def look_up_a_time(self, time: int) -> None:
        expected = None
        for number, times in enumerate(self.times):
            for delta, found in enumerate(times):
                if found >= time and expected is None:
                    expected = (self.offsets[number] + delta, found, self.epochs[number])
        assert self.log.reader.offset_for_timestamp(time) == expected

    @rule()
    def look_up_the_largest_time(self) -> None:
        everything = [
            (-time, self.offsets[number] + delta, self.epochs[number])
            for number, times in enumerate(self.times)
            for delta, time in enumerate(times)
        ]
        best = min(everything, default=None)
        assert self.log.reader.max_timestamp_offset() == (best and (best[1], -best[0], best[2]))

    @precondition(lambda self: self.batches)
    @rule(first=st.floats(0, 1, exclude_max=True), last=st.floats(0, 1))
    def count_bytes(self, first: float, last: float) -> None:
        begin, end = int(first * len(self.batches)), int(last * len(self.batches))
        expected = sum(map(len, self.batches[begin:end]))
        assert self.log.reader.bytes_between(self.offsets[begin], self.offsets[end]) == expected

    @rule(epoch=st.integers(0, 12))
    def look_up_an_epoch(self, epoch: int) -> None:
        """Every offset below the end of an epoch was written in it or before."""
        found, end = self.log.end_offset_for_epoch(epoch)
        if found != -1:
            written = [e for e, base in zip(self.epochs, self.offsets, strict=False) if base < end]
            behind = [e for e, base in zip(self.epochs, self.offsets, strict=False) if base >= end]
            assert all(e <= epoch for e in written)
            assert all(e > epoch for e in behind)


LogMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=30)
test_the_log_is_a_list = LogMachine.TestCase


@given(
    steps=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=60),
    asked=st.integers(0, 3100),
)
def test_offset_lookup_equals_linear_scan(steps: list[tuple[int, int]], asked: int) -> None:
    """The last entry at or below the offset; the same from the bytes on disk."""
    index = OffsetIndex(100)
    offset, position, scan = 100, 0, (-1, 0)
    for offset_step, position_step in steps:
        offset, position = offset + offset_step, position + position_step
        index.append(offset, position)
        if offset <= 100 + asked:
            scan = (offset, position)
    assert index.lookup(100 + asked) == scan
    assert OffsetIndex.from_bytes(100, index.to_bytes()).lookup(100 + asked) == scan
    assert index.fault(position + 1) is None


@given(times=st.lists(st.integers(0, 100), max_size=60), asked=st.integers(0, 101))
def test_time_lookup_equals_linear_scan(times: list[int], asked: int) -> None:
    """Every record up to the found offset is older, and no later entry qualifies."""
    index = TimeIndex(0)
    largest, scan = -1, -1
    for offset, time in enumerate(times):
        largest = max(largest, time)
        index.maybe_append(largest, offset)
        if time > max(times[:offset], default=-1) and time < asked:
            scan = offset
    found = index.lookup_before(asked)
    assert (found.offset if found.timestamp_ms >= 0 else -1) == scan
    assert all(time < asked for time in times[: scan + 1])
    assert TimeIndex.from_bytes(0, index.to_bytes()).lookup_before(asked) == found


@settings(max_examples=30)
@given(data=st.data(), count=st.integers(1, 6))
def test_readers_see_whole_batches_below_their_limit(data: st.DataObject, count: int) -> None:
    """Any offset, limit and size: whole batches in order, nothing at or above the limit (KAFKA-9835)."""
    log = open_log(FakeFiles(), **KEYS)
    for number in range(count):
        append(log, batch(number + 1, tag=str(number)))
    end = log.log_end_offset
    offset = data.draw(st.integers(0, end))
    limit = data.draw(st.integers(0, end))
    found = log.reader.read(offset, data.draw(st.integers(0, 2000)), upto_offset=limit)
    for piece in found.data:
        at = 0
        while at < len(piece):
            header = read_batch_header(piece, at)
            assert header.next_offset <= limit
            at += header.size_bytes
        assert at == len(piece)
    assert found.next_offset <= max(limit, offset)
