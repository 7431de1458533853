"""By column as record by record: what both codecs gather into columns."""

import subprocess
import sys
import threading
from array import array
from typing import Any

import batch_bytes as by_hand
import column_bytes
import pyarrow as arrow
import pytest
from column_tables import header_rows, nullable
from headrace.protocol.errors import CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError
from headrace.protocol.records.codec import ColumnSink, RecordCodec, pick_codec
from headrace.protocol.records.header import Compression, read_batch_header
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

PYTHON, COMPILED = pick_codec("python"), pick_codec("compiled")
ALLOWED = (CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError)
INT32_MAX = 2**31 - 1


@st.composite
def honest_batches(draw: st.DrawFn) -> bytes:
    """A batch as a log may hold it: compacted or empty, stamped by the log, compressed, anywhere."""
    deltas = sorted(draw(st.sets(st.integers(0, 40), max_size=12)))
    payload = b""
    for delta in deltas:
        pairs = draw(header_rows) or []
        headers = by_hand.varint(len(pairs)) + b"".join(
            by_hand.nullable(name.encode()) + by_hand.nullable(value) for name, value in pairs
        )
        when = draw(st.integers(-5, 5))
        payload += by_hand.record(delta, when, draw(nullable), draw(nullable), headers)
    attributes = draw(st.sampled_from([0, 8, 16]))
    return by_hand.batch(
        payload,
        len(deltas),
        last_delta=draw(st.integers(deltas[-1] if deltas else 0, 50)),
        attributes=attributes,
        base_offset=draw(st.integers(0, 100)),
        leader_epoch=draw(st.integers(-1, 5)),
        base_timestamp=draw(st.integers(5, 10**13)),
        max_timestamp=draw(st.integers(-1, 10**13)),
    )


@st.composite
def damaged_batches(draw: st.DrawFn) -> bytes:
    """A batch with a few bytes changed or cut, sealed again."""
    data = bytearray(draw(honest_batches()))
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(21, len(data)))
        data[position : position + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return by_hand.sealed(bytes(data)) if len(data) >= 61 else bytes(data)


def expected_rows(batch: bytes, partition: int, from_offset: int, max_rows: int) -> tuple[list[Any], int]:
    """The oracle: the selected records of `decode`, and the next offset."""
    records = [r for r in PYTHON.decode(batch) if r.offset >= from_offset]
    rows = [
        (partition, r.offset, r.timestamp, r.timestamp_type, r.leader_epoch, r.key, r.value, r.headers)
        for r in records[:max_rows]
    ]
    if len(records) > max_rows:
        return rows, records[max_rows].offset
    return rows, read_batch_header(batch).next_offset


@given(
    st.lists(
        st.tuples(
            honest_batches() | honest_batches() | damaged_batches(),
            st.integers(-1, INT32_MAX),
            st.just(0) | st.integers(-5, 150),
            st.just(2**70) | st.integers(0, 15),
        ),
        max_size=6,
    )
)
@hypothesis_settings(max_examples=300)
def test_columns_equal_decoded_records(calls: list[tuple[bytes, int, int, int]]) -> None:
    """Batches of any kind, whole and in part; a damaged one gives decode's error and leaves no trace."""
    expected: list[Any] = []
    sinks = PYTHON.columns(), COMPILED.columns()
    for batch, partition, from_offset, max_rows in calls:
        arguments: Any = {"partition": partition, "from_offset": from_offset, "max_rows": max_rows}
        try:
            rows, next_offset = expected_rows(batch, partition, from_offset, max_rows)
        except ALLOWED as error:
            for sink in sinks:
                with pytest.raises(type(error)):
                    sink.append(batch, **arguments)
            continue
        expected += rows
        for sink in sinks:
            assert sink.append(batch, **arguments) == (len(rows), next_offset)
            assert sink.count == len(expected)
    for sink in sinks:
        assert column_bytes.rows_of(sink.finish()) == expected


@given(st.lists(honest_batches(), min_size=1, max_size=4), st.booleans(), st.booleans(), st.booleans())
@hypothesis_settings(max_examples=50)
def test_only_requested_columns_are_built(
    batches: list[bytes], keys: bool, values: bool, headers: bool
) -> None:
    """The others are checked and left out."""
    expected = [row for batch in batches for row in expected_rows(batch, 3, 0, 100)[0]]
    expected = [
        (*row[:5], *(part if is_asked else "-" for part, is_asked in zip(row[5:], asked, strict=True)))
        for row in expected
        for asked in [(keys, values, headers)]
    ]
    for codec in (PYTHON, COMPILED):
        sink = codec.columns(keys=keys, values=values, headers=headers)
        for batch in batches:
            sink.append(batch, partition=3, max_rows=100)
        assert column_bytes.rows_of(sink.finish()) == expected


@given(st.lists(honest_batches(), min_size=1, max_size=5), st.integers(1, 600))
@hypothesis_settings(max_examples=200)
def test_both_codecs_end_full_columns_at_the_same_row(batches: list[bytes], max_column_bytes: int) -> None:
    """Sinks that hold few bytes: no column passes the limit but for a first row, and no row is lost."""
    expected = [row for batch in batches for row in expected_rows(batch, 0, 0, 100)[0]]
    ends = []
    for codec in (PYTHON, COMPILED):
        found: list[Any] = []
        counts = []
        for batch in batches:
            offset = 0
            sink = codec.columns(max_column_bytes=max_column_bytes)
            while offset < read_batch_header(batch).next_offset:
                taken, offset = sink.append(batch, partition=0, from_offset=offset, max_rows=100)
                counts.append((taken, offset))
                decoded = sink.finish()
                found += column_bytes.rows_of(decoded)
                assert decoded.values is not None
                value_bytes = len(bytes(decoded.values.data))
                if decoded.count and value_bytes != len(found[-decoded.count][6] or b""):
                    assert value_bytes <= max_column_bytes
                sink = codec.columns(max_column_bytes=max_column_bytes)
        assert found == expected
        ends.append(counts)
    assert ends[0] == ends[1]


@given(st.lists(honest_batches(), min_size=1, max_size=5), st.integers(1, 600))
@hypothesis_settings(max_examples=100)
def test_full_columns_of_many_batches(batches: list[bytes], max_column_bytes: int) -> None:
    """A sink that has skipped rows takes the next batch."""
    sinks = [codec.columns(max_column_bytes=max_column_bytes) for codec in (PYTHON, COMPILED)]
    for batch in batches:
        one, other = (sink.append(batch, partition=0, max_rows=100) for sink in sinks)
        assert one == other
    one_rows, other_rows = (column_bytes.rows_of(sink.finish()) for sink in sinks)
    assert one_rows == other_rows


@pytest.mark.parametrize("compression", list(Compression))
def test_compressed_batches(codec: RecordCodec, compression: Compression) -> None:
    """Every compression; the checksum is verified only on request."""
    builder = codec.builder(max_bytes=100_000, compression=compression)
    for number in range(300):
        builder.append(number, b"%d" % number, bytes(number), [("h", None), ("h", b"x")])
    batch = builder.build()
    sink = codec.columns()
    assert sink.append(batch, partition=0, from_offset=100, max_rows=150) == (150, 250)
    assert sink.append(batch, partition=0, from_offset=250, max_rows=150) == (50, 300)
    damaged = batch[:17] + bytes(4) + batch[21:]
    with pytest.raises(CorruptMessageError):
        sink.append(damaged, partition=0, max_rows=1)
    assert sink.append(damaged, partition=0, max_rows=1, check_crc=False) == (1, 1)
    rows = column_bytes.rows_of(sink.finish())
    assert [(row[1], row[5], row[6]) for row in rows[:200]] == [
        (number, b"%d" % number, bytes(number)) for number in range(100, 300)
    ]
    assert {row[7] for row in rows} == {(("h", None), ("h", b"x"))}
    if compression:
        with pytest.raises(InvalidRecordError):
            codec.columns().append(batch, partition=0, max_rows=1, max_decompressed_bytes=1000)


def test_wrong_calls_of_a_sink(codec: RecordCodec) -> None:
    """A ValueError leaves the sink usable; after `finish` it is not."""
    batch = by_hand.batch(by_hand.record())
    for limit in (0, 2**31):
        with pytest.raises(ValueError, match="max_column_bytes"):
            codec.columns(max_column_bytes=limit)
    sink = codec.columns()
    wrong: list[Any] = [
        {"partition": 0, "max_rows": -1},
        {"partition": 2**31, "max_rows": 1},
        {"partition": -(2**70), "max_rows": 1},
    ]
    for arguments in wrong:
        with pytest.raises(ValueError, match="partition"):
            sink.append(batch, **arguments)
    with pytest.raises(TypeError):
        sink.append(batch, max_rows=1)  # type: ignore[call-arg]
    assert sink.append(batch, partition=0, max_rows=1) == (1, 1)
    assert sink.finish().count == 1
    assert sink.count == 0
    with pytest.raises(ValueError, match="finished"):
        sink.append(batch, partition=0, max_rows=1)
    with pytest.raises(ValueError, match="finished"):
        sink.finish()
    assert column_bytes.rows_of(codec.columns().finish()) == []


def filled(codec: RecordCodec, byte: bytes, count: int = 2000) -> ColumnSink:
    """A sink with some 2 MB of one byte."""
    builder = codec.builder(max_bytes=1 << 24)
    for _ in range(count):
        builder.append(1, byte, byte * 1000)
    sink = codec.columns()
    sink.append(builder.build(), partition=0, max_rows=count)
    return sink


def test_returned_buffers_do_not_change() -> None:
    """Memory is reused only after its last buffer is freed: later sinks never write into earlier results."""
    kept = [filled(COMPILED, b"%d" % number).finish() for number in range(5)]
    for number in range(20):
        sink = filled(COMPILED, b"x")
        if number % 2:
            del sink
        else:
            sink.finish()
    assert kept[0].values is not None
    view = memoryview(kept[0].values.data)
    expected = b"0" * 2_000_000
    kept[0] = kept[1]
    for _ in range(5):
        filled(COMPILED, b"y").finish()
    assert view == expected
    assert view.readonly
    for number, decoded in enumerate(kept[1:], 1):
        assert decoded.values is not None
        assert bytes(decoded.values.data) == b"%d" % number * 2_000_000


KEPT_PROBE = """
from headrace.protocol.records.codec import pick_codec
codec = pick_codec("compiled")
builder = codec.builder(max_bytes=1 << 24)
while builder.append(1, None, bytes(1000)) >= 0 and builder.count < 4000:
    pass
batch = builder.build()

def resident_bytes():
    with open("/proc/self/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))

before = resident_bytes()
sinks = [codec.columns() for _ in range(50)]
for sink in sinks:
    sink.append(batch, partition=0, max_rows=4000)
print(resident_bytes() - before)
del sinks, sink
print(resident_bytes() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_kept_for_dropped_sinks_is_bounded() -> None:
    """50 sinks of 4 MB are dropped: 64 MiB at most stay for the next ones, the rest goes back."""
    done = subprocess.run(
        [sys.executable, "-c", KEPT_PROBE], capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr
    full, kept = (int(size) for size in done.stdout.split())
    assert full > 190 << 20
    assert kept < 70 << 20


def test_columns_are_arrow_arrays_without_a_copy(codec: RecordCodec) -> None:
    """pyarrow wraps the buffers as they are."""
    column = filled(codec, b"z", 9).finish().values
    assert column is not None
    offsets, data = arrow.py_buffer(column.offsets), arrow.py_buffer(column.data)
    array_of_9 = arrow.Array.from_buffers(arrow.binary(), 9, [None, offsets, data])
    array_of_9.validate(full=True)
    assert array_of_9.to_pylist() == [b"z" * 1000] * 9


def test_two_threads_at_one_sink() -> None:
    """The walk lets other threads run; a call that meets another one is refused and harms nothing."""
    builder = COMPILED.builder(max_bytes=1 << 24)
    while builder.append(1, b"key", b"value", [("h", b"x")]) >= 0 and builder.count < 50_000:
        pass
    batch, sink, taken = builder.build(), COMPILED.columns(), [0, 0]

    def gather(number: int) -> None:
        for _ in range(30):
            try:
                taken[number] += sink.append(batch, partition=number, max_rows=50_000)[0]
            except ValueError as error:
                assert "another thread" in str(error)  # noqa: PT017

    threads = [threading.Thread(target=gather, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    decoded = sink.finish()
    assert decoded.count == sum(taken) > 0
    partitions = array("i", bytes(decoded.partitions))
    assert [partitions.count(0), partitions.count(1)] == taken
    assert decoded.values is not None
    assert bytes(decoded.values.data) == b"value" * sum(taken)
