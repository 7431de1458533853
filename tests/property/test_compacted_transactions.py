"""Transactions in a compacted log against a list: after any writes, ends, compactions with any map, restarts
and kills, a read_committed consumer finds the last committed value of each key, and only committed records,
for any fetch sizes."""

from dataclasses import dataclass

import hypothesis.strategies as st
from cleaner_rig import clean
from fake_files import FakeFiles
from headrace.clients.consumer.completed_fetch import AbortedTransactions
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import read_batch_header
from hypothesis import given, settings
from log_rig import NOW, open_log
from producer_oracle import end, verified

RETENTION_MS = 1_000
SLOT_BYTES = 24
KEYS = {
    "segment_bytes": 350,
    "index_interval_bytes": 100,
    "cleanup_policy": ("compact",),
    "delete_retention_ms": RETENTION_MS,
}
STEPS = st.lists(
    st.tuples(st.sampled_from("ppttttteeaarrcCwfsk"), st.integers(0, 2), st.integers(0, 1)),
    min_size=40,
    max_size=60,
)


@dataclass
class Written:
    """One record; `is_committed` None: its transaction is open."""

    key: bytes
    value: bytes | None
    producer_id: int
    is_committed: bool | None


class Compacted:
    """A leader's log, committed up to its end."""

    def __init__(self) -> None:
        self.log = open_log(FakeFiles(), **KEYS)
        self.written: dict[int, Written] = {}  # by offset
        self.epochs, self.sequences = [0, 0], [0, 0]
        self.now_ms = NOW

    def step(self, what: str, key: int, producer: int) -> None:
        """p: plain, t: in a transaction, which e ends and a aborts; r: roll, c: clean, C: with a small map,
        w: time passes, f: producers expire, s: stop and start, k: kill."""
        log = self.log
        if what in "pt":
            self._write(b"%d" % key, producer if what == "t" else -1)
        elif what in "ea":
            self._end(producer, is_commit=what == "e")
        elif what == "r":
            log.roll(self.now_ms)
        elif what in "cC":
            clean(log, wall_ms=self.now_ms, map_bytes=1 << 16 if what == "c" else 2 * SLOT_BYTES)
        elif what == "w":
            self.now_ms += RETENTION_MS
        elif what == "f":
            log.producers.states.expire(self.now_ms + 1)
        else:
            self._restart(is_orderly=what == "s")
        self.log.high_watermark = self.log.log_end_offset
        if what in "cCsk":
            self.check()

    def _write(self, key: bytes, producer_id: int) -> None:
        log, stamp = self.log, {}
        if producer_id >= 0:
            epoch, sequence = self.epochs[producer_id], self.sequences[producer_id]
            stamp = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
            self.sequences[producer_id] += 1
        builder = active_codec().builder(max_bytes=1 << 20, is_transactional=producer_id >= 0, **stamp)
        offset = log.log_end_offset
        value = b"%d" % offset if offset % 5 else None
        builder.append(self.now_ms, key, value)
        if producer_id >= 0:
            verified(log, builder.build())
        else:
            log.append_as_leader(builder.build(), leader_epoch=0, wall_ms=self.now_ms)
        self.written[offset] = Written(key, value, producer_id, True if producer_id < 0 else None)

    def _end(self, producer_id: int, *, is_commit: bool) -> None:
        self.epochs[producer_id] += 1
        self.sequences[producer_id] = 0
        end(self.log, producer_id, epoch=self.epochs[producer_id], is_commit=is_commit)
        for each in self.written.values():
            if each.producer_id == producer_id and each.is_committed is None:
                each.is_committed = is_commit

    def _restart(self, *, is_orderly: bool) -> None:
        before = self.log
        if is_orderly:
            before.close()
        self.log = open_log(
            before.folder.files._files.restart(),
            was_clean=is_orderly,
            recovery_point=before.recovery_point,
            cleaner_offset=before.compaction.cleaner_offset,
            **KEYS,
        )
        assert self.log.log_end_offset == before.log_end_offset

    # --- readers ----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Compare the reads of a read_committed consumer with the oracle."""
        log = self.log
        open_from = [offset for offset, each in self.written.items() if each.is_committed is None]
        assert log.last_stable_offset == min([log.high_watermark, *open_from])
        stable = {offset: each for offset, each in self.written.items() if offset < log.last_stable_offset}
        wanted = {each.key: each.value for each in stable.values() if each.is_committed}
        for max_bytes in (1, 150, 10_000):
            found: dict[bytes | None, bytes | None] = {}
            for offset, key, value in self.seen(max_bytes):
                written = stable[offset]
                assert written.is_committed, f"{offset} was aborted"
                assert (key, value) == (written.key, written.value)
                found[key] = value
            assert all(found.get(key) == value for key, value in wanted.items())

    def seen(self, max_bytes: int) -> list[tuple[int, bytes | None, bytes | None]]:
        """All records of a consumer, fetch by fetch."""
        log, offset, found = self.log, 0, []
        while offset < log.last_stable_offset:
            read = log.reader.read(offset, max_bytes, upto_offset=log.last_stable_offset)
            aborted = AbortedTransactions(log.reader.aborted_in(offset, read.data) if read.data else ())
            for view in map(memoryview, read.data):
                while len(view):
                    header = read_batch_header(view)
                    batch, view = view[: header.size_bytes], view[header.size_bytes :]
                    if not aborted.covers(header) and not header.is_control:
                        records = active_codec().decode(batch)
                        found += [(each.offset, each.key, each.value) for each in records]
            offset = max(read.next_offset, offset + 1)
        return found


@settings(max_examples=120)
@given(STEPS)
def test_read_committed_sees_committed_records(steps: list[tuple[str, int, int]]) -> None:
    """For transactions interleaved in any order."""
    compacted = Compacted()
    for step in steps:
        compacted.step(*step)
    compacted.check()
