"""Compaction of a log of batches against a dictionary: the last value of every key stays. Both codecs compact
the same log and must leave the same bytes. The map is often too small for the keys, so that a log needs
several passes; time advances, so that tombstones reach their horizons."""

from typing import Any, NamedTuple

from headrace.protocol.records.codec import OffsetMap, RecordLike, pick_codec
from headrace.protocol.records.header import Compression, TimestampType, read_batch_header
from hypothesis import given, settings
from hypothesis import strategies as st

PYTHON, COMPILED = pick_codec("python"), pick_codec("compiled")
RETENTION_MS = 1000

keys = st.none() | st.binary(max_size=1) | st.sampled_from([b"a", b"b", b"c", b"\x00" * 20])
records = st.tuples(
    keys,
    st.none() | st.binary(max_size=5) | st.just(b"v" * 300),
    st.sampled_from([(), (("h", b"1"),), (("é", None), ("", b""))]),
    st.integers(-1, 3000),
)


class Append(NamedTuple):
    """Append one batch."""

    rows: list[Any]
    compression: Compression
    timestamp_type: TimestampType
    has_producer: bool


class Pass(NamedTuple):
    """One cleaning: the slots of its map, and the ms since the previous step."""

    slots: int
    wait_ms: int
    keeps_empty: bool  # whether batches without remaining records are kept


appends = st.builds(
    Append,
    st.lists(records, min_size=1, max_size=8),
    st.sampled_from(list(Compression)),
    st.sampled_from(list(TimestampType)),
    st.booleans(),
)
passes = st.builds(Pass, st.integers(2, 12), st.sampled_from([0, 1, 600, 2000]), st.booleans())


class Cleaner:
    """A log as a list of batches, and its first dirty offset."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.originals: dict[int, RecordLike] = {}
        self.now_ms, self.first_dirty, self.log_end = 1_000_000, 0, 0

    def append(self, one: Append) -> None:
        builder = COMPILED.builder(
            max_bytes=1 << 20,
            compression=one.compression,
            timestamp_type=one.timestamp_type,
            producer_id=7 if one.has_producer else -1,
            producer_epoch=0 if one.has_producer else -1,
            base_sequence=self.log_end if one.has_producer else -1,
        )
        for key, value, headers, timestamp in one.rows:
            builder.append(timestamp, key, value, headers)
        data = self.log_end.to_bytes(8, "big") + builder.build()[8:]
        self.batches.append(data)
        self.originals |= {record.offset: record for record in COMPILED.decode(data)}
        self.log_end += len(one.rows)

    def clean(self, one: Pass) -> None:
        self.now_ms += one.wait_ms
        maps = [codec.offset_map(24 * one.slots) for codec in (PYTHON, COMPILED)]
        for batch in self.batches:
            if read_batch_header(batch).last_offset < self.first_dirty:
                continue
            taken = [offsets.add_batch(batch, self.first_dirty) for offsets in maps]
            assert taken[0] == taken[1]
            assert maps[0].latest_offset == maps[1].latest_offset
            assert len(maps[0]) == len(maps[1]) <= maps[0].capacity
            if not taken[0]:
                break
        end = maps[0].latest_offset + 1
        assert end > self.first_dirty or not self.batches or self.first_dirty == self.log_end, (
            "the pass makes progress"
        )
        self.batches = [
            left
            for batch in self.batches
            for left in (
                self._cleaned(batch, maps, one) if read_batch_header(batch).base_offset < end else [batch]
            )
        ]
        self.first_dirty = max(self.first_dirty, end)

    def _cleaned(self, batch: bytes, maps: list[OffsetMap], one: Pass) -> list[bytes]:
        results = [
            codec.clean_batch(batch, offsets, now_ms=self.now_ms, delete_retention_ms=RETENTION_MS)
            for codec, offsets in zip((PYTHON, COMPILED), maps, strict=True)
        ]
        assert results[0][1:] == results[1][1:]
        header = read_batch_header(batch)
        if results[0].data is None or results[1].data is None:
            assert results[0].data is results[1].data
            assert [codec.empty_batch(header) for codec in (PYTHON, COMPILED)] == [
                COMPILED.empty_batch(header)
            ] * 2
            return [COMPILED.empty_batch(header)] if one.keeps_empty else []
        data = bytes(results[1].data)
        assert bytes(results[0].data) == data
        assert all((each.data is batch) == (data == batch) for each in results)
        self._check_facts(results[1], COMPILED.decode(batch), COMPILED.decode(data), header.delete_horizon_ms)
        return [data]

    def _check_facts(
        self, cleaned: Any, before: list[RecordLike], after: list[RecordLike], horizon_ms: int | None
    ) -> None:
        assert (cleaned.records_kept, cleaned.records_removed) == (len(after), len(before) - len(after))
        latest = max(after, key=lambda record: (record.timestamp, -record.offset))
        assert (latest.timestamp, latest.offset) == (cleaned.max_timestamp, cleaned.offset_of_max_timestamp)
        assert cleaned.has_tombstones == any(record.value is None for record in after)
        header = COMPILED.check(cleaned.data, is_dense=False)
        assert header.max_timestamp == max(record.timestamp for record in after)
        if horizon_ms is None and cleaned.has_tombstones:
            assert header.delete_horizon_ms == self.now_ms + RETENTION_MS
        else:
            assert header.delete_horizon_ms == horizon_ms
        # a tombstone that is the last of its key stays until the horizon
        if horizon_ms is None or self.now_ms < horizon_ms:
            last = self.last_offsets()
            gone = {record.offset for record in before} - {record.offset for record in after}
            assert not gone & set(last.values())

    def last_offsets(self) -> dict[bytes, int]:
        """The oracle: the last offset of each key."""
        return {record.key: offset for offset, record in self.originals.items() if record.key is not None}

    def check(self) -> None:
        """Check the records that any consumer may read."""
        found: list[RecordLike] = []
        for batch in self.batches:
            COMPILED.check(batch, is_dense=False)
            found += COMPILED.decode(batch)
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        assert all(record == self.originals[record.offset] for record in found)
        seen = {record.key: record for record in found if record.key is not None}
        for key, offset in self.last_offsets().items():
            if self.originals[offset].value is not None:
                assert seen[key].offset == offset
            elif key in seen:
                assert seen[key].value is None, "a deleted value came back"
        assert {record.offset for record in found} >= set(range(self.first_dirty, self.log_end))
        clean = [record.key for record in found if record.offset < self.first_dirty]
        assert None not in clean
        if self.first_dirty == self.log_end:
            assert len(clean) == len(set(clean)), "each key once"


@given(st.lists(appends | passes, max_size=25))
@settings(max_examples=200)
def test_last_value_of_every_key_stays(steps: list[Append | Pass]) -> None:
    """Any appends and passes, then as many passes as a full compaction needs."""
    cleaner = Cleaner()
    for step in steps:
        if isinstance(step, Append):
            cleaner.append(step)
        else:
            cleaner.clean(step)
        cleaner.check()
    while cleaner.first_dirty < cleaner.log_end:
        cleaner.clean(Pass(5, 1, keeps_empty=False))
        cleaner.check()
