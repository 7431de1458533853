"""A compacted log against a dictionary: after any appends, cleanings with any map, truncations, kills in any
operation and power losses, the last value of each key is at its offset, and offsets increase."""

import hypothesis.strategies as st
from cleaner_rig import Kept, clean, records
from fake_files import Crash, FakeFiles
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import Compression, read_batch_header
from headrace.storage_node.log.cleaner.plan import cleanable
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from log_rig import NOW, open_log, read_all

RETENTION_MS = 1_000
SLOT_BYTES = 24
KEYS = {
    "segment_bytes": 300,
    "index_interval_bytes": 100,
    "cleanup_policy": ("compact",),
    "delete_retention_ms": RETENTION_MS,
}


class CompactedLog(RuleBasedStateMachine):
    """`written`: every record that the log should have; `end`: the end offsets of their batches."""

    @initialize()
    def begin(self) -> None:
        self.files = FakeFiles()
        self.log = open_log(self.files, **KEYS)
        self.written: list[Kept] = []
        self.ends = [0]
        self.now_ms = NOW
        self.watermark = self.flushed = 0
        self.seen_ms: dict[int, int] = {}  # by tombstone: when a cleaning first kept it
        self.clean_to = 0

    @rule(
        batches=st.lists(
            st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=4),
            min_size=1,
            max_size=8,
        ),
        compression=st.sampled_from([Compression.NONE, Compression.NONE, Compression.LZ4]),
        is_committed=st.booleans(),
    )
    def append(
        self, batches: list[list[tuple[int, bool]]], compression: Compression, is_committed: bool
    ) -> None:
        for pairs in batches:
            self._append(pairs, compression)
        if is_committed:
            self.commit_and_roll()

    def _append(self, pairs: list[tuple[int, bool]], compression: Compression) -> None:
        builder = active_codec().builder(max_bytes=1 << 20, compression=compression)
        base = self.log.log_end_offset
        for number, (key, has_value) in enumerate(pairs):
            value = b"%d" % (base + number) if has_value else None
            builder.append(self.now_ms, b"key-%d" % key, value)
            self.written.append(Kept(base + number, b"key-%d" % key, value))
        self.log.append_as_leader(builder.build(), leader_epoch=0, wall_ms=self.now_ms)
        self.ends.append(self.log.log_end_offset)

    @rule(part=st.floats(0, 1))
    def commit(self, part: float) -> None:
        self.watermark = max(self.watermark, self.ends[int(part * (len(self.ends) - 1))])
        self.log.high_watermark = self.watermark

    def commit_and_roll(self) -> None:
        self.watermark = self.log.high_watermark = self.log.log_end_offset
        self.log.roll(self.now_ms)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.log.log_end_offset

    @rule(passed_ms=st.integers(1, 2 * RETENTION_MS))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule(slots=st.integers(2, 12), buffer_bytes=st.sampled_from([100, 300, 4096]))
    def clean(self, slots: int, buffer_bytes: int) -> None:
        plan = cleanable(self.log, self.now_ms)
        before = plan.first_dirty_offset
        clean(self.log, wall_ms=self.now_ms, map_bytes=slots * SLOT_BYTES, buffer_bytes=buffer_bytes)
        assert self.log.compaction.cleaner_offset is not None
        if plan.dirty_bytes:
            assert before < self.log.compaction.cleaner_offset <= plan.end_offset, "a pass makes progress"
        self.clean_to = self.log.compaction.cleaner_offset
        self._note_kept_tombstones()

    @rule(
        slots=st.integers(2, 12), after=st.integers(0, 40), mode=st.sampled_from(["kill", "none", "all", 1])
    )
    def die_while_cleaning(self, slots: int, after: int, mode: str | int) -> None:
        self.files.crash_at = len(self.files.operations) + after
        try:
            clean(self.log, wall_ms=self.now_ms, map_bytes=slots * SLOT_BYTES, buffer_bytes=300)
        except Crash:
            # the crash may be after the tombstones got their horizons
            for record in self.written:
                if record.value is None:
                    self.seen_ms.setdefault(record.offset, self.now_ms)
            self._die(mode)
        else:
            self.files.crash_at = None
            self.clean_to = self.log.compaction.cleaner_offset or 0
            self._note_kept_tombstones()

    @rule(mode=st.sampled_from(["kill", "none", "all", 1, 2]))
    def die(self, mode: str | int) -> None:
        self._die(mode)

    @rule()
    def stop(self) -> None:
        self.log.close()
        self._open(self.files.restart(), was_clean=True)

    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        """Truncate to a new leader's log, not below the high watermark."""
        offset = self.watermark + int(part * (self.log.log_end_offset - self.watermark))
        self.log.truncate_to(offset)
        self._forget_from(self.log.log_end_offset)

    def _die(self, mode: str | int) -> None:
        self._open(self.files.restart() if mode == "kill" else self.files.power_loss(mode), was_clean=False)
        assert self.log.log_end_offset >= self.flushed
        self._forget_from(self.log.log_end_offset)

    def _open(self, files: FakeFiles, *, was_clean: bool) -> None:
        point, cleaned = self.log.recovery_point, self.log.compaction.cleaner_offset
        self.files = files
        self.log = open_log(files, was_clean=was_clean, recovery_point=point, cleaner_offset=cleaned, **KEYS)
        self.watermark = min(self.watermark, self.log.log_end_offset)
        self.log.high_watermark = self.watermark
        self.clean_to = min(self.clean_to, self.log.compaction.cleaner_offset or 0)

    def _forget_from(self, end: int) -> None:
        self.written = [record for record in self.written if record.offset < end]
        self.ends = [each for each in self.ends if each <= end]
        self.flushed = min(self.flushed, end)
        self.clean_to = min(self.clean_to, end)

    def _note_kept_tombstones(self) -> None:
        """A pass sets the horizons of whole segments, also where its map was full before their end."""
        for data in read_all(self.log):
            if read_batch_header(data).delete_horizon_ms is not None:
                for record in active_codec().decode(data):
                    if record.value is None:
                        self.seen_ms.setdefault(record.offset, self.now_ms)

    @invariant()
    def it_holds_the_last_of_each_key_where_it_was_written(self) -> None:
        found = records(self.log)
        at = {record.offset: record for record in found}
        assert [record.offset for record in found] == sorted(at)
        known = {record.offset: record for record in self.written}
        assert all(known.get(record.offset) == record for record in found), "a record was never written"
        last = {record.key: record for record in self.written}
        for record in last.values():
            if record.offset not in at:
                assert record.value is None, f"{record} is lost"
                kept_ms = self.seen_ms.get(record.offset)
                assert kept_ms is not None, f"{record} was removed without a horizon"
                assert self.now_ms >= kept_ms + RETENTION_MS, f"{record} was removed too early"
        uncleaned = max(self.clean_to, 0)
        if self.clean_to == self.log.compaction.cleaner_offset:
            assert {
                r.offset for r in self.written if r.offset >= max(uncleaned, self._dirty_end())
            } <= at.keys()
            below = [record.key for record in found if record.offset < uncleaned]
            assert len(below) == len(set(below)), "a key has two values in the clean part"

    def _dirty_end(self) -> int:
        """The offset from which no record was ever cleaned; high watermark and segments only advance."""
        return self.watermark

    @invariant()
    def every_offset_leads_to_the_next_record(self) -> None:
        end = self.log.log_end_offset
        batches = read_all(self.log)
        for offset in range(0, end, 3):
            found = self.log.reader.read(offset, 1, upto_offset=end)
            assert found.next_offset > offset
            assert bytes(found.data[0]) in batches

    @precondition(lambda self: self.written)
    @rule(back_ms=st.integers(0, 3_000))
    def look_up_a_time(self, back_ms: int) -> None:
        wanted = self.now_ms - back_ms
        found = self.log.reader.offset_for_timestamp(wanted)
        times = [
            (record.offset, record.timestamp)
            for data in read_all(self.log)
            for record in active_codec().decode(data)
            if record.timestamp >= wanted
        ]
        assert (found and found[:2]) == (times[0] if times else None)


CompactedLog.TestCase.settings = settings(max_examples=100, stateful_step_count=30)
test_a_compacted_log_is_a_dictionary = CompactedLog.TestCase
