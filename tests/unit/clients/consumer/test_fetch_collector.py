"""From fetched batches to returned records."""

from random import Random
from typing import Any

import batch_bytes as by_hand
import pytest
from consumer_rig import taken
from headrace.clients.cluster.backoff import Backoff
from headrace.clients.consumer.column_builder import ColumnBuilder
from headrace.clients.consumer.effects import SendFetch
from headrace.clients.consumer.fetch_collector import FetchCollector
from headrace.clients.consumer.fetcher import Fetcher
from headrace.clients.consumer.requests import FetchLimits
from headrace.clients.serdes import deserializer, int64
from headrace.protocol import errors
from headrace.protocol.messages.data import FetchPartitionResponse, FetchResponse
from headrace.protocol.model import TopicPartition
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import CRC_POSITION, assigned_prefix, read_batch_header
from producer_rig import view_of
from stored_batches import stored

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(base: int, *values: bytes | None, **facts: Any) -> bytes:
    builder = active_codec().builder(max_bytes=1 << 24, **facts)
    for value in values:
        builder.append(0, b"k", value, ())
    made = builder.build()
    return assigned_prefix(base, read_batch_header(made).batch_length, 0) + made[CRC_POSITION:]


class Rig:
    """A collector over a fetcher that the test feeds."""

    def __init__(self, *, value: Any = None, on_bad: Any = None, offset: int = 0) -> None:
        limits = FetchLimits(500, 1, 1 << 24, 1 << 20)
        self.fetcher = Fetcher(limits, Backoff(100, 1000, Random(1)), None)
        loads = None if value is None else deserializer(value, "value")
        self.collector = FetchCollector(self.fetcher, active_codec(), None, loads, on_bad, check_crcs=True)
        for tp in (T0, T1):
            self.fetcher.add(tp, -1)
            self.fetcher.seek(tp, offset)

    def feed(self, tp: TopicPartition, *batches: bytes, code: int = 0) -> None:
        """One fetch, answered with these batches for `tp` and none for the other partition."""
        view = view_of(0, 0)
        (sent,) = (effect for effect in self.fetcher.poll(view, 10**6) if isinstance(effect, SendFetch))
        frames = [memoryview(b"".join(batches))] if batches else []
        answers = tuple(
            FetchPartitionResponse(
                code if asked.state.tp == tp else 0, 100, 100, 0, len(frames) if asked.state.tp == tp else 0
            )
            for asked in sent.partitions
        )
        self.fetcher.on_fetched(sent, FetchResponse(answers), frames, 10**6)
        self.fetcher.check()

    def values(self, most: int = 100) -> list[Any]:
        return [record.value for record in taken(self.collector, most)]

    def position(self, tp: TopicPartition = T0) -> int | None:
        return self.fetcher.states[tp].next_position()


def test_records_are_in_order_and_positions_follow() -> None:
    """Two batches, taken in three calls."""
    rig = Rig()
    rig.feed(T0, batch(0, b"a", b"b"), batch(2, b"c"))
    assert rig.values(1) == [b"a"]
    assert rig.position() == 1
    assert rig.values(1) == [b"b"]
    assert rig.values() == [b"c"]
    assert rig.position() == 3
    assert rig.values() == []
    assert rig.collector.records_total == 3


def test_position_inside_a_batch_skips_earlier_records() -> None:
    """Fetched from offset 2 of a batch with base offset 0."""
    rig = Rig(offset=2)
    rig.feed(T0, batch(0, b"a", b"b", b"c"))
    assert rig.values() == [b"c"]


def test_control_batches_are_skipped() -> None:
    """The position moves past them even if no record follows."""
    rig = Rig()
    builder = active_codec().builder(
        max_bytes=1000, is_control=True, producer_id=1, producer_epoch=0, is_transactional=True
    )
    builder.append(0, b"\0\0\0\1", b"\0\0\0\0\0\0", ())
    made = builder.build()
    marker = assigned_prefix(1, read_batch_header(made).batch_length, 0) + made[CRC_POSITION:]
    rig.feed(T0, batch(0, b"a"), marker)
    assert rig.values() == [b"a"]
    assert rig.position() == 2


def test_partitions_take_turns_by_batch() -> None:
    """A started batch is finished first."""
    rig = Rig()
    rig.feed(T0, batch(0, b"a1", b"a2"), batch(2, b"a3"))
    rig.feed(T1, batch(0, b"b1"), batch(1, b"b2"))
    assert [rig.values(1)[0] for _ in range(5)] == [b"a1", b"a2", b"b1", b"a3", b"b2"]


def test_paused_partition_keeps_its_records() -> None:
    """Paused in the middle of a batch, then resumed."""
    rig = Rig()
    rig.feed(T0, batch(0, b"a", b"b"))
    assert rig.values(1) == [b"a"]
    rig.fetcher.pause([T0])
    assert rig.values() == []
    rig.fetcher.resume([T0])
    assert rig.values() == [b"b"]


def test_null_is_not_deserialized() -> None:
    """int64 values, one of them a tombstone."""
    rig = Rig(value=int64)
    rig.feed(T0, batch(0, b"\0" * 7 + b"\5", None))
    assert rig.values() == [5, None]


def test_bad_record_is_raised_after_the_records_before_it() -> None:
    """At every poll until the application seeks past it."""
    rig = Rig(value=int64)
    good = b"\0" * 7 + b"\1"
    rig.feed(T0, batch(0, good, b"bad", good))
    assert rig.values() == [1]
    for _ in range(2):
        with pytest.raises(errors.SerializationError, match=r"t-0 at offset 1.*seek past it"):
            rig.values()
        assert rig.position() == 1
    rig.fetcher.seek(T0, 2)
    rig.feed(T0, batch(0, good, b"bad", good))
    assert rig.values() == [1]


def test_bad_record_is_skipped_or_replaced() -> None:
    """A handler gets the raw record and the error."""
    good, seen = b"\0" * 7 + b"\1", []

    def keep_or_skip(record: Any, error: errors.SerializationError) -> Any:
        seen.append((record.offset, record.value, str(error)[:18]))
        return record if record.value == b"keep" else None

    rig = Rig(value=int64, on_bad=keep_or_skip)
    rig.feed(T0, batch(0, b"skip", good, b"keep", b"skip"), batch(4, b"skip"))
    assert rig.values() == [1, b"keep"]
    assert rig.position() == 5
    assert seen[0] == (0, b"skip", "t-0 at offset 0: c")


def test_exception_of_a_bad_record_handler_loses_no_record() -> None:
    """KeyError for the fourth record: the three before it are returned first, none is deserialized twice."""
    calls: list[bytes] = []

    def refuse(record: Any, _error: errors.SerializationError) -> Any:
        calls.append(record.value)
        raise KeyError(record.offset)

    rig = Rig(value=int64, on_bad=refuse)
    rig.feed(
        T0, batch(0, int64.dumps(10), int64.dumps(11)), batch(2, int64.dumps(12), b"bad", int64.dumps(14))
    )
    assert rig.values() == [10, 11, 12]
    for _ in range(2):
        with pytest.raises(KeyError, match="3"):
            rig.values()
        assert rig.position() == 3
    assert set(calls) == {b"bad"}
    rig.fetcher.seek(T0, 4)
    assert rig.values() == []


def test_corrupt_batch_is_raised_after_the_batches_before_it() -> None:
    """At every poll, with its partition and offset."""
    rig = Rig()
    damaged = bytearray(batch(1, b"hello"))
    damaged[-3] ^= 1
    rig.feed(T0, batch(0, b"a"), bytes(damaged))
    assert rig.values() == [b"a"]
    for _ in range(2):
        with pytest.raises(errors.CorruptMessageError, match="t-0 at offset 1"):
            rig.values()
    rig.fetcher.seek(T0, 2)
    assert rig.values() == []


def test_partition_error_is_raised_once() -> None:
    """OffsetOutOfRange without a reset policy; then the partition is fetched again."""
    rig = Rig(offset=7)
    rig.feed(T0, code=1)
    with pytest.raises(errors.OffsetOutOfRangeError):
        rig.values()
    assert rig.values() == []
    assert rig.fetcher.needs_poll


def test_take_continues_after_an_iteration() -> None:
    """The iteration stopped inside a batch."""
    rig = Rig()
    rig.feed(T0, batch(0, b"a", b"b", b"c"))
    head = rig.collector.head()
    assert head is not None
    rig.collector.prepare(head)
    head.index += 1
    rig.collector.drop_if_consumed(head)
    assert rig.position() == 1
    assert rig.values() == [b"b", b"c"]
    assert rig.position() == 3


def compacted() -> list[bytes]:
    """What compaction may leave: gaps in and between batches, batches without records, a delete horizon."""
    tombstone = by_hand.record(7, 5 - 9000, b"a", None)
    return [
        by_hand.batch(b"", 0, last_delta=3, base_offset=0, base_timestamp=-1),
        stored([(6, b"a", b"1"), (9, b"b", b"2")], base_offset=4, last_offset=12),
        by_hand.batch(b"", 0, last_delta=4, base_offset=15, attributes=0x20, base_timestamp=-1),
        by_hand.batch(tombstone, base_offset=20, last_delta=9, attributes=0x40, base_timestamp=9000),
        by_hand.batch(b"", 0, last_delta=0, base_offset=40, base_timestamp=-1),
    ]


def test_compacted_log() -> None:
    """The remaining records are in order and have their timestamps; the position moves past the gaps."""
    rig = Rig()
    rig.feed(T0, *compacted())
    found = taken(rig.collector, 2)
    assert [(record.offset, record.key, record.value) for record in found] == [
        (6, b"a", b"1"),
        (9, b"b", b"2"),
    ]
    (last,) = taken(rig.collector, 100)
    assert (last.offset, last.key, last.value, last.timestamp) == (27, b"a", None, 5)
    assert taken(rig.collector, 100) == []
    assert rig.position() == 41


@pytest.mark.parametrize(
    ("position", "offsets"), [(3, [6, 9, 27]), (7, [9, 27]), (10, [27]), (28, []), (40, [])]
)
def test_position_in_a_gap_of_a_compacted_log(position: int, offsets: list[int]) -> None:
    """No earlier record is returned, by record or by column, and the position ends after the last batch."""
    rig = Rig(offset=position)
    rig.feed(T0, *compacted())
    assert [record.offset for record in taken(rig.collector, 100)] == offsets
    assert rig.position() == 41
    by_column = Rig(offset=position)
    by_column.feed(T0, *compacted())
    sink = active_codec().columns()
    builder = ColumnBuilder(sink, 100)
    while batches := by_column.collector.choose(builder):
        moves: list[Any] = []
        by_column.collector.add_rows(builder, batches, moves)
        by_column.collector.rows_added(moves)
    assert list(memoryview(builder.finish().offsets).cast("q")) == offsets
    assert by_column.position() == 41


def test_rewind_inside_a_compacted_batch() -> None:
    """To the next record, not to the start of the batch."""
    rig = Rig()
    rig.feed(T0, *compacted())
    assert [record.offset for record in taken(rig.collector, 1)] == [6]
    assert rig.position() == 9
    rig.collector.take([], 1)
    rig.collector.rewind()
    assert rig.position() == 9
    rig.feed(T0, *compacted()[1:])
    assert [record.offset for record in taken(rig.collector, 1)] == [9]
